/** A TCP proxy on loopback that counts the bytes of the answers: what a reader takes from a server, headers included. */
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';

export interface CountingProxy {
  readonly port: number;
  readonly answerBytes: number;
  close(): Promise<void>;
}

export async function startCountingProxy(host: string, port: number): Promise<CountingProxy> {
  const sockets = new Set<Socket>();
  let answerBytes = 0;
  const server = createServer((client) => {
    const upstream = createConnection({ host, port });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      // Readers break off what they have enough of; the other end is told by `destroy`.
      socket.on('error', () => {});
    }
    upstream.on('data', (chunk: Buffer) => {
      answerBytes += chunk.length;
    });
    client.pipe(upstream).pipe(client);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port, // A listening TCP server has an address with a port.
    get answerBytes() {
      return answerBytes;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
