/** Calls straight to a route, as the listener makes them. HTTP itself is tested elsewhere. */
import { buffer } from 'node:stream/consumers';
import { ApiFailure } from '../../src/service/http/api-failure.ts';
import type { Call, Route } from '../../src/service/http/route.ts';

export interface RouteReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are compared with literals, which checks their shape.
  readonly body: any;
}

/** A failure is answered in the route's shape. */
export async function ask(route: Route, call: Partial<Call>): Promise<RouteReply> {
  const whole: Call = {
    body: undefined,
    query: {},
    params: {},
    authorization: undefined,
    session: undefined,
    address: '127.0.0.1',
    signal: new AbortController().signal,
    ...call,
  };
  try {
    const { body, headers = {} } = await route.answer(whole);
    const isWhole = typeof body === 'string' || body instanceof Uint8Array;
    const text = (isWhole ? Buffer.from(body) : await buffer(body)).toString('utf8');
    return { status: 200, headers, text, body: JSON.parse(text) };
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    const { status, body, details } = route.translate?.(error) ?? error;
    const text = JSON.stringify(body);
    return { status, headers: { 'retry-after': String(details.retryAfterSeconds) }, text, body: JSON.parse(text) };
  }
}
