/**
 * An HTTP proxy on loopback that records what goes through: what is really on the wire, whatever the server makes of it.
 * A test may act before a request is passed on, and add headers to answers. Everything else passes unchanged, also the
 * `Host` header, so that signatures stay valid.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, request as startRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';

export interface RecordedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

export interface HttpRecorder {
  /** Base address, without a path. */
  readonly url: string;
  readonly requests: RecordedRequest[];
  /** Awaited before each request is passed on. */
  before: (request: RecordedRequest) => Promise<void>;
  /** Headers that are added to every answer. */
  answerHeaders: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** @param target base address of the server */
export async function startHttpRecorder(target: string): Promise<HttpRecorder> {
  const { hostname, port } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    const recorded = { method: incoming.method ?? '', url: incoming.url ?? '', headers: incoming.headers };
    const serve = async () => {
      recorder.requests.push(recorded);
      await recorder.before(recorded);
      const passed = startRequest({
        hostname,
        port,
        method: recorded.method,
        path: recorded.url,
        headers: recorded.headers,
      });
      const answering = once(passed, 'response');
      await Promise.all([pipeline(incoming, passed), answering]);
      const [answer] = await answering;
      outgoing.writeHead(answer.statusCode, { ...answer.headers, ...recorder.answerHeaders });
      await pipeline(answer, outgoing);
    };
    // What breaks here breaks the connection, which the client sees.
    serve().catch(() => incoming.socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const recorder: HttpRecorder = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // A listening TCP server has an address with a port.
    requests: [],
    before: async () => {},
    answerHeaders: {},
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return recorder;
}
