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
  /**
   * `cut`, the default: the connection ends; `reset`: by RST; `stall`: it stays open, and no byte comes or goes any
   * more; a text: the proxy writes it to the client in place of the server's answer, and ends the connection.
   */
  readonly how?: 'cut' | 'reset' | 'stall' | { readonly answer: string };
}

export interface TcpProxy {
  readonly port: number;
  /** How often a connection was broken or refused. */
  readonly faults: number;
  /** Bytes of requests and of answers that went through so far. */
  readonly requestBytes: number;
  readonly answerBytes: number;
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
  const bytes = { request: 0, answer: 0 };
  /** Connections that nothing passes any more, until `heal`. */
  const stalled = new Set<Socket>();
  let faults = 0;
  let isBroken = false;
  let victim: string | undefined;

  const breakConnections = (client: Socket, upstream: Socket) => {
    const { how = 'cut', lasting = false } = fault ?? {};
    faults += 1;
    isBroken = lasting;
    fault = undefined;
    if (lasting) for (const socket of sockets) if (socket !== client) socket.destroy();
    if (how === 'stall') {
      stalled.add(client);
      for (const socket of [client, upstream]) socket.removeAllListeners('data').pause();
    } else if (how === 'cut') for (const socket of [client, upstream]) socket.destroy();
    else {
      upstream.removeAllListeners('data').destroy();
      if (how === 'reset') client.resetAndDestroy();
      else client.removeAllListeners('data').resume().end(how.answer);
    }
  };
  const pass = (direction: ProxyFault['direction'], client: Socket, upstream: Socket) => {
    const [from, to] = direction === 'request' ? [client, upstream] : [upstream, client];
    from.on('data', (chunk: Buffer) => {
      const place = direction === 'request' && victim !== undefined ? chunk.indexOf(victim) : -1;
      if (place >= 0 && victim !== undefined) {
        chunk.fill('~', place, place + victim.length);
        victim = undefined;
        faults += 1;
      }
      const limit = fault?.direction === direction ? fault.afterBytes - passedBytes : Number.POSITIVE_INFINITY;
      if (fault?.direction === direction) passedBytes += chunk.length;
      bytes[direction] += Math.min(chunk.length, limit);
      if (chunk.length > limit) {
        if (limit > 0) to.write(chunk.subarray(0, limit));
        breakConnections(client, upstream);
      } else if (!to.write(chunk)) {
        from.pause();
        to.once('drain', () => from.resume());
      }
    });
    from.on('end', () => to.end());
    from.on('close', () => {
      // An answer of the proxy's own is still on its way to the client.
      if (!to.writableEnded) to.destroy();
    });
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
    pass('answer', client, upstream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port, // A listening TCP server has an address with a port.
    get faults() {
      return faults;
    },
    get requestBytes() {
      return bytes.request;
    },
    get answerBytes() {
      return bytes.answer;
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
      for (const socket of stalled) socket.destroy();
      stalled.clear();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
