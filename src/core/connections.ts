/**
 * Room for whoever comes to a server that holds only so many connections: one more closes the one that has been idle
 * longest. Idle is a connection that has not asked its question to the end, or whose caller does not read the answer.
 * Invariant: a connection that is waiting for its answer is never closed here. Time-outs stay the server's own affair.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Beyond it the system's own limit holds: connections that all wait for answers at once. */
const HARD_FACTOR = 2;

/** To be called before the server listens. @param maxConnections so many are open, idle ones included */
export function keepRoom(server: Server, maxConnections: number): void {
  /** Open connections and their answers that are not all out, longest without news first. */
  const open = new Map<Socket, Set<ServerResponse>>();
  server.maxConnections = HARD_FACTOR * maxConnections;
  server.on('connection', (socket: Socket) => {
    open.set(socket, new Set());
    socket.once('close', () => open.delete(socket));
    if (open.size > maxConnections) findIdle(open)?.destroy();
  });
  server.on('request', ({ socket }, response) => {
    const answers = open.get(socket);
    answers?.add(response);
    response.once('close', () => {
      answers?.delete(response);
      if (answers === undefined || !open.delete(socket)) return;
      open.set(socket, answers);
    });
  });
}

function findIdle(open: ReadonlyMap<Socket, ReadonlySet<ServerResponse>>): Socket | undefined {
  for (const [socket, answers] of open) {
    if ([...answers].every(({ writableEnded, req }) => writableEnded || !req.complete)) return socket;
  }
  return undefined;
}
