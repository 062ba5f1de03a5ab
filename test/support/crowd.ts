/** Many connections to one server that say no more than they are told to, as slow or hostile callers hold them. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

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
