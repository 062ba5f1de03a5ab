/**
 * Every fault of the proxy as bytes on a socket, in front of a plain HTTP server. How the worker takes these faults is
 * tested in `source/faults.test.ts`.
 */
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  createFaultChoice,
  drawFault,
  type Fault,
  type FaultKind,
  type FaultPlan,
  holdFrom,
  type SeenRequest,
} from './fault-plan.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';

const DATE = 'Thu, 19 Nov 2026 23:15:00 GMT';
const PAGE = JSON.stringify({ status: 'SUCCESS', data: [{ n: 4711 }, { n: 4712 }, { n: 4713 }], meta: {} });

interface Reply {
  readonly ended: 'closed' | 'reset' | 'refused';
  readonly status: string;
  readonly head: string;
  readonly body: Buffer;
  /** Times at which bytes arrived, milliseconds after the request was sent. */
  readonly arrivals: readonly number[];
}

let upstream: Server;
let proxy: FaultProxy;
let isGzipped: boolean;

beforeEach(async () => {
  isGzipped = false;
  upstream = createServer((request, response) => {
    request.resume().on('end', () => {
      const encoding = isGzipped ? { 'content-encoding': 'gzip' } : {};
      const page = isGzipped ? gzipSync(PAGE) : Buffer.from(PAGE);
      const own = { 'content-type': 'application/json', 'content-length': page.length, 'x-own': 'kept' };
      response.writeHead(200, { date: DATE, ...own, ...encoding });
      response.end(page);
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  proxy = await startFaultProxy(`http://127.0.0.1:${(upstream.address() as AddressInfo).port}`);
});
afterEach(async () => {
  await proxy.close();
  await new Promise((resolve) => upstream.close(resolve));
});

/** One request over a socket of its own, to the end of the connection. */
function ask(sql = 'SELECT 1', onData: (bytes: Buffer, stop: () => void) => void = () => {}): Promise<Reply> {
  const { port } = new URL(proxy.url);
  const sent = JSON.stringify({ sql });
  const pieces: Buffer[] = [];
  const arrivals: number[] = [];
  return new Promise((resolve) => {
    const started = performance.now();
    const socket = connect(Number(port), '127.0.0.1');
    const finish = (ended: Reply['ended']) => {
      const bytes = Buffer.concat(pieces);
      const at = bytes.indexOf('\r\n\r\n');
      const head = bytes.toString('latin1', 0, Math.max(0, at)).toLowerCase();
      resolve({ ended, head, status: head.split('\r\n')[0] ?? '', body: bytes.subarray(at + 4), arrivals });
    };
    socket.on('data', (bytes) => {
      pieces.push(bytes);
      arrivals.push(performance.now() - started);
      onData(Buffer.concat(pieces), () => socket.destroy());
    });
    socket.on('close', (hadError) => hadError || finish('closed'));
    socket.on('error', (error: NodeJS.ErrnoException) => finish(error.code === 'ECONNREFUSED' ? 'refused' : 'reset'));
    socket.write(`POST /sql HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${sent.length}\r\n\r\n${sent}`);
  });
}

/** The first request meets the fault. */
async function askWith(fault: Fault): Promise<Reply> {
  proxy.follow([{ on: 1, fault }]);
  const reply = await ask();
  expect(proxy.injected).toEqual([{ request: 1, fault }]);
  return reply;
}

const text = (reply: Reply) => reply.body.toString('utf8');
const length = (reply: Reply) => Number(/content-length: (\d+)/.exec(reply.head)?.[1]);

describe('the fault proxy', () => {
  test('passes what no rule names unchanged, and counts it', async () => {
    const reply = await ask();
    expect(reply).toMatchObject({ ended: 'closed', status: 'http/1.1 200 ok' });
    expect(reply.head).toContain('x-own: kept');
    expect(reply.head).toContain(DATE.toLowerCase());
    expect(text(reply)).toBe(PAGE);
    expect(proxy).toMatchObject({ requests: 1, reached: 1, injected: [] });
  });

  test('passes the length of an answer to HEAD', async () => {
    const { headers } = await fetch(proxy.url, { method: 'HEAD' });
    expect(headers.get('content-length')).toBe(String(PAGE.length));
  });

  test.each(['head', 'body'] as const)('delays the %s', async (before) => {
    const { arrivals, ...reply } = await askWith({ kind: 'delay', before, ms: 60 });
    expect(text({ ...reply, arrivals })).toBe(PAGE);
    expect(arrivals.at(-1)).toBeGreaterThanOrEqual(55);
    if (before === 'head') expect(arrivals[0]).toBeGreaterThanOrEqual(55);
    else expect((arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0)).toBeGreaterThanOrEqual(30);
  });

  test('drips the body in small pieces', async () => {
    const reply = await askWith({ kind: 'drip', bytes: 10, everyMs: 2 });
    expect(text(reply)).toBe(PAGE);
    expect(reply.arrivals.length).toBeGreaterThan(3);
  });

  test.each([
    ['request', 0, 0],
    ['upload', 0, 0],
    ['answer', 0, 1],
    ['head', 0, 1],
    ['body', Math.floor(PAGE.length / 2), 1],
  ] as const)('resets the connection at the %s', async (at, bytes, reached) => {
    const reply = await askWith({ kind: 'reset', at });
    expect(reply.ended).toBe('reset');
    expect(reply.head === '').toBe(at !== 'head' && at !== 'body');
    expect(reply.body).toHaveLength(bytes);
    expect(proxy.reached).toBe(reached);
  });

  test('cuts a body short of its length, and closes cleanly', async () => {
    const reply = await askWith({ kind: 'truncate', how: 'length', share: 0.5 });
    expect(reply.ended).toBe('closed');
    expect(length(reply)).toBe(PAGE.length);
    expect(text(reply)).toBe(PAGE.slice(0, PAGE.length / 2));
  });

  test('cuts a chunked body before the final chunk', async () => {
    const reply = await askWith({ kind: 'truncate', how: 'chunked', share: 0.5 });
    expect(reply.ended).toBe('closed');
    expect(reply.head).toContain('transfer-encoding: chunked');
    expect(text(reply)).toContain(PAGE.slice(0, PAGE.length / 2));
    expect(text(reply)).not.toContain('\r\n0\r\n');
  });

  test('cuts a body as if that were all', async () => {
    const reply = await askWith({ kind: 'truncate', how: 'consistent', share: 0.999 });
    expect(text(reply)).toBe(PAGE.slice(0, -1));
    expect(length(reply)).toBe(PAGE.length - 1);
  });

  test('flips bits of the body as transferred', async () => {
    isGzipped = true;
    const reply = await askWith({ kind: 'garble', how: 'bytes', count: 3, seed: 1 });
    const whole = gzipSync(PAGE);
    expect(reply.body).toHaveLength(whole.length);
    const differing = [...reply.body].filter((byte, i) => byte !== whole[i]);
    expect(differing.length).toBeGreaterThanOrEqual(1);
    expect(differing.length).toBeLessThanOrEqual(3);
  });

  test.each([false, true])('calls gzip what is none (gzipped by the service: %s)', async (gzipped) => {
    isGzipped = gzipped;
    const reply = await askWith({ kind: 'garble', how: 'gzip' });
    expect(reply.head).toContain('content-encoding: gzip');
    expect(text(reply)).toBe(PAGE);
  });

  test.each([false, true])('alters one digit of a row and nothing else (gzipped: %s)', async (gzipped) => {
    isGzipped = gzipped;
    const { body } = await askWith({ kind: 'alter', seed: 3 });
    const altered = (gzipped ? gunzipSync(body) : body).toString();
    expect(altered).toHaveLength(PAGE.length);
    expect([...altered].filter((char, i) => char !== PAGE[i])).toHaveLength(1);
    expect(JSON.parse(altered)).toMatchObject({ status: 'SUCCESS', meta: {} });
  });

  test('drops the last rows and leaves a whole page', async () => {
    const reply = await askWith({ kind: 'shorten', rows: 2 });
    expect(JSON.parse(text(reply))).toEqual({ status: 'SUCCESS', data: [{ n: 4711 }], meta: {} });
  });

  test.each([false, true])('rewrites `meta` and leaves the first rows (gzipped: %s)', async (gzipped) => {
    isGzipped = gzipped;
    const read = ({ body }: Reply) => JSON.parse((gzipped ? gunzipSync(body) : body).toString());
    const capped = read(await askWith({ kind: 'envelope', meta: { truncated: true }, rows: 2 }));
    expect(capped).toEqual({ status: 'SUCCESS', data: [{ n: 4711 }, { n: 4712 }], meta: { truncated: true } });
    proxy.follow([
      { on: 2, fault: { kind: 'envelope', meta: null } },
      { on: 3, fault: { kind: 'envelope', rows: 0 } },
    ]);
    const whole = JSON.parse(PAGE);
    expect(read(await ask())).toEqual({ status: 'SUCCESS', data: whole.data });
    expect(read(await ask())).toEqual({ ...whole, data: [] });
  });

  test('sends the body twice', async () => {
    const reply = await askWith({ kind: 'duplicate' });
    expect(text(reply)).toBe(PAGE + PAGE);
    expect(length(reply)).toBe(2 * PAGE.length);
  });

  test.each([429, 500, 502, 503, 504])(
    'answers %i as the API, as a load balancer, as S3, and with nothing',
    async (status) => {
      proxy.follow([
        { on: 1, fault: { kind: 'status', status, body: 'api' } },
        { on: 2, fault: { kind: 'status', status, body: 'html' } },
        { on: 3, fault: { kind: 'status', status, body: 'empty' } },
        { on: 4, fault: { kind: 'status', status, body: 'xml' } },
      ]);
      const [api, html, empty, xml] = [await ask(), await ask(), await ask(), await ask()];
      for (const reply of [api, html, empty, xml]) expect(reply.status.split(' ')[1]).toBe(String(status));
      expect(text(xml)).toMatch(/^<\?xml .*<Error><Code>\w+<\/Code>/);
      expect(JSON.parse(text(api))).toMatchObject({ status: 'ERROR', errorCode: expect.any(String) });
      expect(html.head).toContain('content-type: text/html');
      expect(text(html)).toContain('<html>');
      expect(text(empty)).toBe('');
      expect(proxy.reached).toBe(0);
    },
  );

  test('answers with the code and the reason that it is told', async () => {
    const code = { code: 'INVALID_QUERY', reason: 'UNKNOWN_IDENTIFIER' };
    const reply = await askWith({ kind: 'status', status: 422, body: 'api', ...code });
    expect(reply.status).toContain('422');
    expect(JSON.parse(text(reply))).toMatchObject({ errorCode: 'INVALID_QUERY', reason: 'UNKNOWN_IDENTIFIER' });
  });

  test("writes Retry-After as seconds, as a date on the service's clock, or not at all", async () => {
    const status = { kind: 'status', status: 429, body: 'api' } as const;
    proxy.follow([
      { on: 2, fault: { ...status, retryAfter: { seconds: 7, as: 'number' } } },
      { on: 3, fault: { ...status, retryAfter: { seconds: 7, as: 'date' } } },
      { on: 4, fault: status },
    ]);
    const [, number, date, none] = [await ask(), await ask(), await ask(), await ask()];
    expect(number.head).toContain('retry-after: 7');
    expect(date.head).toContain('retry-after: thu, 19 nov 2026 23:15:07 gmt');
    expect(date.head).toContain(`date: ${DATE.toLowerCase()}`);
    expect(none.head).not.toContain('retry-after');
  });

  test('says that a write is kept, with the MD5 of what came, and does not pass it on', async () => {
    const reply = await askWith({ kind: 'not-kept' });
    const tag = createHash('md5').update('{"sql":"SELECT 1"}').digest('hex');
    expect(reply.head).toContain(`etag: "${tag}"`);
    expect(text(reply)).toBe('');
    expect(proxy.reached).toBe(0);
  });

  test('answers with any text', async () => {
    const body = { text: '<CopyObjectResult>' };
    expect(text(await askWith({ kind: 'status', status: 200, body }))).toBe(body.text);
  });

  test('changes the content type only', async () => {
    const reply = await askWith({ kind: 'header', name: 'content-type', value: 'text/html' });
    expect(reply.head).toContain('content-type: text/html');
    expect(text(reply)).toBe(PAGE);
  });

  test('sends rows without end, until the caller goes', async () => {
    proxy.follow([{ on: 1, fault: { kind: 'endless' } }]);
    let bytes = 0;
    await ask('SELECT 1', (seen, stop) => {
      bytes = seen.length;
      if (bytes > 1_000_000) stop();
    });
    expect(bytes).toBeGreaterThan(1_000_000);
  });

  test('stalls until it closes', async () => {
    proxy.follow([{ on: 1, fault: { kind: 'stall' } }]);
    const reply = ask();
    await expect.poll(() => proxy.injected.length).toBe(1);
    await proxy.close();
    expect((await reply).head).toBe('');
  });

  test('holds from the second request of a kind on until it is healed, and then passes them', async () => {
    proxy.follow(holdFrom(2, /page/));
    expect([text(await ask('page')), text(await ask('other'))]).toEqual([PAGE, PAGE]);
    const held = [ask('page'), ask('page')];
    await proxy.untilHeld();
    await expect.poll(() => proxy.injected.length).toBe(2);
    expect(proxy).toMatchObject({ requests: 4, reached: 2 });
    await proxy.heal();
    expect((await Promise.all(held)).map(text)).toEqual([PAGE, PAGE]);
    expect(text(await ask('page'))).toBe(PAGE);
  });

  test('refuses connections until it is healed', async () => {
    expect((await askWith({ kind: 'refuse' })).ended).toBe('reset');
    await expect.poll(async () => (await ask()).ended).toBe('refused');
    await proxy.heal();
    expect(text(await ask())).toBe(PAGE);
  });

  test('refuses connections for a while', async () => {
    expect((await askWith({ kind: 'refuse', forMs: 30 })).ended).toBe('reset');
    await expect.poll(async () => text(await ask())).toBe(PAGE);
  });

  test.each([301, 307] as const)('redirects with a %i', async (status) => {
    const reply = await askWith({ kind: 'redirect', status, location: '/elsewhere' });
    expect(reply.status).toContain(String(status));
    expect(reply.head).toContain('location: /elsewhere');
  });

  test.each([1, 0.5])(
    'answers in HTTP/1.0, the end of the connection being the end of the body (share %s)',
    async (share) => {
      const reply = await askWith({ kind: 'close-delimited', share });
      expect(reply).toMatchObject({ ended: 'closed', status: 'http/1.0 200 ok' });
      expect(reply.head).not.toMatch(/content-length|transfer-encoding/);
      expect(text(reply)).toBe(PAGE.slice(0, PAGE.length * share));
    },
  );

  test.each([100, 102, 103] as const)('sends an interim %i in front of the answer', async (status) => {
    const reply = await askWith({ kind: 'informational', status });
    expect(reply.status).toContain(String(status));
    expect(text(reply)).toMatch(/^http\/1.1 200 ok/i);
    expect(text(reply)).toContain(PAGE);
  });
});

describe('a fault plan', () => {
  const request = (number: number, sql = ''): SeenRequest => ({
    ...{ number, method: 'POST', path: '/sql', headers: {}, bytes: Buffer.alloc(0), body: '', sql },
  });
  const fault: Fault = { kind: 'duplicate' };
  const chosen = (plan: FaultPlan, requests: readonly SeenRequest[]) => {
    const choose = createFaultChoice(plan);
    return requests.filter((it) => choose(it) !== undefined).map((it) => it.number);
  };
  const four = [request(1, 'a'), request(2, 'b'), request(3, 'b'), request(4, 'c')];

  test.each([
    ['a number', [{ on: 2, fault }], [2]],
    ['numbers', [{ on: [1, 4], fault }], [1, 4]],
    ['a pattern of the SQL', [{ on: /b/, fault }], [2, 3]],
    ['a pattern of the path', [{ on: /^\/sql$/g, fault }], [1, 2, 3, 4]],
    ['a pattern, once', [{ on: /b/, fault, times: 1 }], [2]],
    ['a condition', [{ on: (it: SeenRequest) => it.number > 2, fault }], [3, 4]],
  ] as const)('chooses requests by %s', (_title, plan, numbers) => {
    expect(chosen(plan, four)).toEqual(numbers);
  });

  test('reads the SQL of JSON and of form bodies', async () => {
    proxy.follow([{ on: /SELECT 7/, fault: { kind: 'status', status: 500, body: 'empty' } }]);
    const form = await fetch(`${proxy.url}/sql`, { method: 'POST', body: new URLSearchParams({ sql: 'SELECT 7' }) });
    const json = await fetch(`${proxy.url}/sql`, { method: 'POST', body: '{"sql":"SELECT 7"}' });
    const other = await fetch(`${proxy.url}/sql`, { method: 'POST', body: '{"sql":"SELECT 8"}' });
    expect([form.status, json.status, other.status]).toEqual([500, 500, 200]);
  });

  const kinds: readonly FaultKind[] = ['reset', 'truncate', 'garble', 'status', 'delay'];
  const rates = Object.fromEntries(kinds.map((kind) => [kind, 0.1]));
  const draw = (seed: number) => {
    return Array.from({ length: 2000 }, (_, i) => drawFault({ seed, rates }, i + 1));
  };

  test('drawn from a seed is the same each time, and another from another seed', () => {
    expect(draw(5)).toEqual(draw(5));
    expect(draw(5)).not.toEqual(draw(6));
  });

  test('drawn from a seed keeps to its rates', () => {
    const faults = draw(11);
    for (const kind of kinds) {
      const count = faults.filter((it) => it?.kind === kind).length;
      expect(count, kind).toBeGreaterThan(140);
      expect(count, kind).toBeLessThan(260);
    }
    expect(() => createFaultChoice({ seed: 1, rates: { reset: 0.7, stall: 0.4 } })).toThrow(RangeError);
  });

  test('drawn from a seed tells the seed', () => {
    const lines: string[] = [];
    return startFaultProxy('http://127.0.0.1:9', { seed: 4242, rates: { reset: 1 } }, (line) => lines.push(line)).then(
      async (seeded) => {
        await seeded.close();
        expect(lines.join()).toContain('seed 4242');
      },
    );
  });
});
