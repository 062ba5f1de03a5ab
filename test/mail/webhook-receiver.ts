/** A real HTTP server on loopback that takes what a webhook posts, checks its signature, and answers as a test wants. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { serveHttp } from '../support/http-server.ts';

export interface Post {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** Whether the signature is that of the receiver's secret. */
  readonly isSigned: boolean;
}

export interface WebhookReceiver {
  /** Address without a path. */
  readonly url: string;
  readonly posts: readonly Post[];
  /** How the next posts are answered, in order; afterwards with 204. */
  readonly answers: ((response: ServerResponse) => void)[];
  close(): Promise<void>;
}

export const WEBHOOK_SECRET = 'webhook-secret-0815';

/** An answer with a status and nothing else. */
export function answerWith(status: number, headers: Readonly<Record<string, string>> = {}, body = '') {
  return (response: ServerResponse) => void response.writeHead(status, headers).end(body);
}

export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const posts: Post[] = [];
  const answers: ((response: ServerResponse) => void)[] = [];
  const server = await serveHttp(async (request, response) => {
    const body = await text(request);
    posts.push({ path: request.url ?? '', headers: request.headers, body, isSigned: verify(request.headers, body) });
    (answers.shift() ?? answerWith(204))(response);
  });
  return { ...server, posts, answers };
}

/** As the documentation tells receivers to do it; not with the product's own code. */
function verify(headers: IncomingHttpHeaders, body: string): boolean {
  const timestamp = String(headers['x-flowdrop-timestamp']);
  const wanted = `sha256=${createHmac('sha256', WEBHOOK_SECRET).update(`${timestamp}.${body}`).digest('hex')}`;
  const given = Buffer.from(String(headers['x-flowdrop-signature']));
  return given.length === wanted.length && timingSafeEqual(given, Buffer.from(wanted));
}
