/**
 * Makes room on a server with a connection limit: a new connection beyond the limit closes the one idle longest. A
 * connection is idle when no complete request waits for its answer. That includes a half-sent request, and a client
 * that does not read its answer. Invariant: a connection that waits for its answer is never closed here. Time-outs are
 * the server's own job.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The server's hard limit, as a multiple of `maxConnections`. It applies when all connections wait for answers. */
const HARD_FACTOR = 2;

/** Call it before the server listens. @param maxConnections limit of open connections, idle ones included */
export function keepRoom(server: Server, maxConnections: number): void {
  /** Open connections with their unfinished answers; the one without activity for longest comes first. */
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
