/**
 * An HTTP proxy on loopback, before the API or an S3 server, that does to chosen requests and answers what networks,
 * gateways and overloaded servers do, so that production code needs no fault switches. `fault-plan.ts` says what to which
 * request, `fault-answer.ts` how a broken answer reads; `tcp-proxy.ts` breaks connections of any protocol by bytes.
 * Invariant: what is in `injected` was done, and everything else passes unchanged, status, end-to-end headers and body.
 */
import { EventEmitter, once, setMaxListeners } from 'node:events';
import {
  type ClientRequest,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
  STATUS_CODES,
  request as startRequest,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { breakAnswer, buildKeptAnswer, buildStatusAnswer, cut, type WholeAnswer } from './fault-answer.ts';
import { createFaultChoice, type Fault, type FaultPlan, readSql, type SeenRequest } from './fault-plan.ts';

export interface Injection {
  /** Number of the request at the proxy, from 1. */
  readonly request: number;
  readonly fault: Fault;
}

export interface FaultProxy {
  /** Base address, without a path. */
  readonly url: string;
  /** Requests that arrived here. */
  readonly requests: number;
  /** Requests that were passed on to the service. */
  readonly reached: number;
  /** What was done, in the order it was done. */
  readonly injected: readonly Injection[];
  /** Replaces the plan from the next request on; numbers of requests go on. */
  follow(plan: FaultPlan): void;
  /** Answers are dated as this says from now on, by their request's number; `undefined` leaves the service's own date. */
  dateBy(date: (number: number) => string | undefined): void;
  /** Waits until a request is held; the test that asks says how long it may take. */
  untilHeld(): Promise<void>;
  /** No more faults: connections are accepted again, and requests that are held go on. */
  heal(): Promise<void>;
  close(): Promise<void>;
}

/** Headers of one connection only (RFC 9110, section 7.6.1), and the length, which is computed anew. */
const HOP_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
]);
const HOST = '127.0.0.1';
/** A reset that overtakes bytes which the caller has not read yet looks to it like an orderly end of the connection. */
const RESET_AFTER_MS = 20;

/** @param target base address of the service */
export async function startFaultProxy(target: string, plan: FaultPlan = []): Promise<FaultProxy> {
  const injected: Injection[] = [];
  const closing = new AbortController();
  // Every request in flight listens.
  setMaxListeners(0, closing.signal);
  let choose = createFaultChoice([]);
  const gate = new EventEmitter();
  setMaxListeners(0, gate);
  let held = 0;
  let readDate: (number: number) => string | undefined = () => undefined;
  let requests = 0;
  let reached = 0;
  /** The service's clock as its last answer showed it: the proxy's own answers are dated by it. */
  let serviceDate: string | undefined;

  const server = createServer((request, response) => {
    // A connection that breaks while it is served is what this proxy is for; both ends see it themselves.
    serve(request, response).catch(() => request.socket.destroy());
  });
  const follow = (next: FaultPlan) => {
    choose = createFaultChoice(next);
    if ('seed' in next) console.info(`fault proxy: seed ${next.seed}, rates ${JSON.stringify(next.rates)}`);
  };
  const listen = async (port: number) => {
    if (server.listening || closing.signal.aborted) return;
    server.listen(port, HOST);
    await once(server, 'listening');
  };
  const stopListening = async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  };
  follow(plan);
  await listen(0);
  const { port } = server.address() as AddressInfo; // A listening TCP server has an address with a port.

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests += 1;
    const number = requests;
    const bytes = await buffer(request);
    const { method = '', url: path = '', headers } = request;
    const seen: SeenRequest = {
      ...{ number, method, path, headers, bytes },
      get body() {
        return bytes.toString('utf8');
      },
      get sql() {
        return readSql(this.body);
      },
    };
    const fault = await choose(seen);
    const note = () => {
      if (fault) injected.push({ request: number, fault });
    };
    if (fault && isOwnAnswer(fault)) {
      note();
      return await answerAlone(fault, seen, response);
    }
    if (fault?.kind === 'hold') {
      note();
      await hold();
      // Whoever asked was killed meanwhile, or gave up.
      if (request.socket.destroyed) return;
    }
    reached += 1;
    const answer = redate(await forward(seen), readDate(number));
    const { date } = answer.headers;
    if (typeof date === 'string') serviceDate = date;
    const broken = fault && breakAnswer(fault, answer);
    if (fault && (broken || breaksConnection(fault))) note();
    if (fault && breaksConnection(fault)) await sendBroken(fault, answer, response, closing.signal);
    else sendWhole(broken ?? answer, response);
  }

  async function hold(): Promise<void> {
    held += 1;
    gate.emit('held');
    try {
      await once(gate, 'open', { signal: closing.signal });
    } finally {
      held -= 1;
    }
  }

  async function answerAlone(fault: OwnAnswer, seen: SeenRequest, response: ServerResponse): Promise<void> {
    const { socket } = response.req;
    switch (fault.kind) {
      case 'stall':
        return;
      case 'reset':
        if (fault.at === 'upload') await sendHalf(seen);
        socket.resetAndDestroy();
        return;
      case 'refuse':
        socket.resetAndDestroy();
        await stopListening();
        if (fault.forMs === undefined) return;
        await delay(fault.forMs, undefined, { signal: closing.signal });
        return await listen(port);
      case 'endless':
        return await sendEndless(response);
      case 'status':
      case 'redirect':
        return sendWhole(
          buildStatusAnswer(fault, readDate(seen.number) ?? serviceDate ?? new Date().toUTCString()),
          response,
        );
      case 'not-kept':
        return sendWhole(buildKeptAnswer(seen), response);
      default:
        fault satisfies never;
    }
  }

  /** The host too goes on as it came: signatures cover it. */
  function startForward({ method, path, headers, bytes }: SeenRequest): ClientRequest {
    return startRequest(new URL(path, target), {
      ...{ agent: false, method, signal: closing.signal },
      headers: { ...endToEnd(headers), 'content-length': String(bytes.length) },
    });
  }

  async function forward(seen: SeenRequest): Promise<WholeAnswer> {
    const outgoing = startForward(seen);
    outgoing.end(seen.bytes);
    const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
    const headers = endToEnd(answer.headers);
    const length = answer.headers['content-length'];
    if (seen.method === 'HEAD' && length !== undefined) headers['content-length'] = length;
    return { status: answer.statusCode ?? 0, headers, body: await buffer(answer) };
  }

  async function sendHalf(seen: SeenRequest): Promise<void> {
    const outgoing = startForward(seen);
    // Its own end of the connection reports the break, which is meant.
    outgoing.on('error', () => {});
    await write(outgoing, cut(seen.bytes, 0.5));
    outgoing.destroy();
  }

  return {
    url: `http://${HOST}:${port}`,
    get requests() {
      return requests;
    },
    get reached() {
      return reached;
    },
    injected,
    follow,
    dateBy(date) {
      readDate = date;
    },
    async untilHeld() {
      if (held === 0) await once(gate, 'held', { signal: closing.signal });
    },
    async heal() {
      follow([]);
      gate.emit('open');
      await listen(port);
    },
    async close() {
      closing.abort();
      if (server.listening) await stopListening();
    },
  };
}

function redate(answer: WholeAnswer, date: string | undefined): WholeAnswer {
  return date === undefined ? answer : { ...answer, headers: { ...answer.headers, date } };
}

/** Faults for which the service is not asked. */
type OwnAnswer =
  | Extract<Fault, { kind: 'stall' | 'refuse' | 'endless' | 'status' | 'redirect' | 'not-kept' }>
  | (Extract<Fault, { kind: 'reset' }> & { readonly at: 'request' | 'upload' });

export function isOwnAnswer(fault: Fault): fault is OwnAnswer {
  if (fault.kind === 'reset') return fault.at === 'request' || fault.at === 'upload';
  return ['stall', 'refuse', 'endless', 'status', 'redirect', 'not-kept'].includes(fault.kind);
}

/** A fault in a word or two, for tallies. */
export function describeFault(fault: Fault): string {
  return fault.kind === 'status' ? `status ${fault.status}` : fault.kind;
}

/** Faults of how an answer is sent, not of what it says. */
type ConnectionFault =
  | Extract<Fault, { kind: 'delay' | 'drip' | 'reset' | 'close-delimited' | 'informational' }>
  | (Extract<Fault, { kind: 'truncate' }> & { readonly how: 'length' | 'chunked' });

function breaksConnection(fault: Fault): fault is ConnectionFault {
  if (fault.kind === 'truncate') return fault.how !== 'consistent';
  return ['delay', 'drip', 'reset', 'close-delimited', 'informational'].includes(fault.kind);
}

async function sendBroken(
  fault: ConnectionFault,
  answer: WholeAnswer,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  const { socket } = response.req;
  const { body } = answer;
  const pause = (ms: number) => delay(ms, undefined, { signal });
  switch (fault.kind) {
    case 'delay':
      if (fault.before === 'head') await pause(fault.ms);
      sendHead(answer, response, body.length);
      if (fault.before === 'body') await pause(fault.ms);
      response.end(body);
      return;
    case 'drip':
      sendHead(answer, response, body.length);
      for (let at = 0; at < body.length && !response.destroyed; at += fault.bytes) {
        await write(response, body.subarray(at, at + fault.bytes));
        await pause(fault.everyMs);
      }
      response.end();
      return;
    case 'reset':
      if (fault.at === 'head' || fault.at === 'body') sendHead(answer, response, body.length);
      if (fault.at === 'body') await write(response, cut(body, 0.5));
      // What is still queued here would be lost with the connection.
      await write(socket, '');
      if (fault.at !== 'answer') await pause(RESET_AFTER_MS);
      socket.resetAndDestroy();
      return;
    case 'truncate':
      sendHead(answer, response, fault.how === 'length' ? body.length : undefined);
      await write(response, cut(body, fault.share));
      socket.end();
      return;
    case 'close-delimited':
      socket.end(Buffer.concat([Buffer.from(writeOldHead(answer)), cut(body, fault.share)]));
      return;
    case 'informational':
      if (fault.status === 100) response.writeContinue();
      else if (fault.status === 102) response.writeProcessing();
      else response.writeEarlyHints({ link: '</page.css>; rel=preload; as=style' });
      return sendWhole(answer, response);
    default:
      fault satisfies never;
  }
}

function sendWhole(answer: WholeAnswer, response: ServerResponse): void {
  sendHead(answer, response, answer.body.length);
  response.end(answer.body);
}

/** Without a length the body goes in chunks. */
function sendHead({ status, headers }: WholeAnswer, response: ServerResponse, lengthBytes: number | undefined): void {
  const hasLength = lengthBytes !== undefined && status !== 204;
  response.sendDate = false;
  response.writeHead(status, { ...(hasLength ? { 'content-length': String(lengthBytes) } : {}), ...headers });
  response.flushHeaders();
}

function writeOldHead({ status, headers }: WholeAnswer): string {
  const lines = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((it) => `${name}: ${it}`));
  return [`HTTP/1.0 ${status} ${STATUS_CODES[status] ?? ''}`, ...lines, '', ''].join('\r\n');
}

async function sendEndless(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
  await write(response, '{"status":"SUCCESS","data":[{"id":"1"}');
  const piece = Buffer.from(',{"id":"1"}'.repeat(5_000));
  while (!response.destroyed) await write(response, piece);
}

/** Resolves when the bytes are with the operating system. */
function write(stream: ServerResponse | ClientRequest | Socket, bytes: Buffer | string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

function endToEnd(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !HOP_HEADERS.has(name)) kept[name] = value;
  }
  return kept;
}
