/** Many connections to one server that say no more than they are told to, as slow or hostile callers hold them. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface Crowd {
  close(): void;
}

/** @param text sent on each connection, and nothing after it; nothing is read */
export async function gatherCrowd(url: string, count: number, text: string): Promise<Crowd> {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  for (let opened = 0; opened < count; opened += 1) {
    const socket = connect(Number(port), hostname);
    // The server may close it at any moment: that is what it is for.
    socket.on('error', () => {});
    sockets.push(socket);
    await once(socket, 'connect');
    socket.write(text);
  }
  return {
    close() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/**
 * The status of an answer over a connection of its own: the server has closed the idle ones of the process, which a `fetch`
 * would use. @param patienceMs until the whole answer is there
 */
export async function askAnew(url: string, patienceMs: number): Promise<number | undefined> {
  const signal = AbortSignal.timeout(patienceMs);
  const [answer] = (await once(get(url, { agent: false, signal }), 'response')) as [IncomingMessage];
  await buffer(answer);
  return answer.statusCode;
}
