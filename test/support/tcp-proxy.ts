/** A TCP proxy on loopback that breaks connections after a number of bytes: network faults at the socket, where they happen. */
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';

export interface ProxyFault {
  /** Whose bytes are counted: the client's requests, or the server's answers. */
  readonly direction: 'request' | 'answer';
  /** Bytes let through, over all connections together; the next byte breaks its connection. */
  readonly afterBytes: number;
  /** After the break nothing connects until `heal`. Otherwise the fault happens once. */
  readonly lasting: boolean;
}

export interface TcpProxy {
  readonly port: number;
  /** How often a connection was broken or refused. */
  readonly faults: number;
  /** Bytes of requests that went through so far. */
  readonly requestBytes: number;
  breakWith(fault: ProxyFault): void;
  /** Overwrites the first occurrence of `text` in one piece of a request with as many `~`, once. */
  corrupt(text: string): void;
  heal(): void;
  close(): Promise<void>;
}

export async function startTcpProxy(target: { readonly host: string; readonly port: number }): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let fault: ProxyFault | undefined;
  let passedBytes = 0;
  let requestBytes = 0;
  let faults = 0;
  let isBroken = false;
  let victim: string | undefined;

  const breakConnections = (pair: readonly Socket[]) => {
    faults += 1;
    isBroken = fault?.lasting ?? false;
    fault = undefined;
    for (const socket of isBroken ? sockets : pair) socket.destroy();
  };
  const pass = (direction: ProxyFault['direction'], from: Socket, to: Socket) => {
    from.on('data', (chunk: Buffer) => {
      const place = direction === 'request' && victim !== undefined ? chunk.indexOf(victim) : -1;
      if (place >= 0 && victim !== undefined) {
        chunk.fill('~', place, place + victim.length);
        victim = undefined;
        faults += 1;
      }
      const limit = fault?.direction === direction ? fault.afterBytes - passedBytes : Number.POSITIVE_INFINITY;
      if (fault?.direction === direction) passedBytes += chunk.length;
      if (direction === 'request') requestBytes += Math.min(chunk.length, limit);
      if (chunk.length > limit) {
        if (limit > 0) to.write(chunk.subarray(0, limit));
        breakConnections([from, to]);
      } else if (!to.write(chunk)) {
        from.pause();
        to.once('drain', () => from.resume());
      }
    });
    from.on('end', () => to.end());
    from.on('close', () => to.destroy());
    // A broken connection is what this proxy is for; its ends see it themselves.
    from.on('error', () => {});
  };
  const server = createServer((client) => {
    if (isBroken) {
      faults += 1;
      client.on('error', () => {}).destroy();
      return;
    }
    const upstream = createConnection(target);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    }
    pass('request', client, upstream);
    pass('answer', upstream, client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port, // A listening TCP server has an address with a port.
    get faults() {
      return faults;
    },
    get requestBytes() {
      return requestBytes;
    },
    breakWith(next) {
      fault = next;
      passedBytes = 0;
    },
    corrupt(text) {
      victim = text;
    },
    heal() {
      victim = undefined;
      fault = undefined;
      isBroken = false;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
