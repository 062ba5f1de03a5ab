/**
 * What only the proxy itself can show of its faults: whole pages that are wrong, requests that wait, and plans. That
 * connections break and answers are garbled, `source/faults.test.ts` proves by what the worker makes of them.
 */
import { gzipSync } from 'node:zlib';
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
import { serveHttp } from './http-server.ts';

const PAGE = { status: 'SUCCESS', data: [{ n: 4711 }, { n: 4712 }, { n: 4713 }], meta: {} };

let upstream: Awaited<ReturnType<typeof serveHttp>>;
let proxy: FaultProxy;
let isGzipped: boolean;

beforeEach(async () => {
  isGzipped = false;
  upstream = await serveHttp((_request, response) => {
    const text = JSON.stringify(PAGE);
    response.writeHead(200, { 'x-own': 'kept', ...(isGzipped ? { 'content-encoding': 'gzip' } : {}) });
    response.end(isGzipped ? gzipSync(text) : text);
  });
  proxy = await startFaultProxy(upstream.url);
});
afterEach(async () => {
  await proxy.close();
  await upstream.close();
});

const ask = async (sql = 'SELECT 1') =>
  await fetch(`${proxy.url}/sql`, { method: 'POST', body: JSON.stringify({ sql }), headers: { connection: 'close' } });
const read = async (sql?: string): Promise<unknown> => await (await ask(sql)).json();

describe('the fault proxy', () => {
  test('passes what no rule names unchanged, and counts it', async () => {
    const reply = await ask();
    expect([reply.status, reply.headers.get('x-own'), await reply.json()]).toEqual([200, 'kept', PAGE]);
    expect(proxy).toMatchObject({ requests: 1, reached: 1, injected: [] });
  });

  test.each([false, true])('drops rows and rewrites `meta`, and leaves a whole page (gzipped: %s)', async (gzipped) => {
    isGzipped = gzipped;
    const faults: readonly Fault[] = [
      { kind: 'shorten', rows: 2 },
      { kind: 'envelope', meta: { truncated: true }, rows: 2 },
      { kind: 'envelope', meta: null },
    ];
    proxy.follow(faults.map((fault, index) => ({ on: index + 1, fault })));
    expect(await read()).toEqual({ ...PAGE, data: PAGE.data.slice(0, 1) });
    expect(await read()).toEqual({ ...PAGE, data: PAGE.data.slice(0, 2), meta: { truncated: true } });
    expect(await read()).toEqual({ status: 'SUCCESS', data: PAGE.data });
  });

  test('holds from the second request of a kind on until it is healed, and then passes them', async () => {
    proxy.follow(holdFrom(2, /page/));
    expect([await read('page'), await read('other')]).toEqual([PAGE, PAGE]);
    const held = [read('page'), read('page')];
    await proxy.untilHeld();
    await expect.poll(() => proxy.injected.length).toBe(2);
    expect(proxy).toMatchObject({ requests: 4, reached: 2 });
    await proxy.heal();
    expect([...(await Promise.all(held)), await read('page')]).toEqual([PAGE, PAGE, PAGE]);
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

  test('drawn from a seed is the same each time, and keeps to its rates', () => {
    const kinds: readonly FaultKind[] = ['reset', 'truncate', 'garble', 'status', 'delay'];
    const rates = Object.fromEntries(kinds.map((kind) => [kind, 0.1]));
    const draw = (seed: number) => Array.from({ length: 2000 }, (_, i) => drawFault({ seed, rates }, i + 1));
    expect(draw(5)).toEqual(draw(5));
    expect(draw(5)).not.toEqual(draw(6));
    for (const kind of kinds) {
      const count = draw(11).filter((it) => it?.kind === kind).length;
      expect(Math.abs(count - 200), kind).toBeLessThan(60);
    }
  });
});
