/**
 * A chain that is too large for one answer: nothing lost, nothing doubled, and its requests, date by date, beside the
 * fewest. Against a client that filters as the specification says, a real stage, and limits that learn. The same at the
 * service is in `test/flow`.
 */
import { afterAll, beforeEach, expect, it } from 'vitest';
import { addDays } from '../../../src/calendar/wall-clock.ts';
import type { Fault } from '../../../src/core/errors.ts';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import { fetchSnapshots } from '../../../src/export/snapshots/snapshot-dates.ts';
import { parseJob } from '../../../src/job/parse.ts';
import type { SnapshotClient } from '../../../src/source/snapshot.ts';
import { SourceFault } from '../../../src/source/source.ts';
import { openStage } from '../../../src/stage/stage.ts';
import { ApiLimits } from '../../../src/state/limits.ts';
import { unreachable } from '../../support/engine-source.ts';
import { createRandom } from '../../support/random.ts';
import { openSnapshots } from '../../support/run.ts';
import { createPage } from '../../support/trades.ts';

interface Contract {
  readonly option_symbol: string;
  readonly expiration_date: string;
  readonly put_call: string;
  readonly strike: number;
}

const MONDAY = '2026-11-16';
const job = parseJob(
  'c.yaml',
  'name: chain\nsource: {api: chain, symbols: [SPX]}\ndrop: {to: out, dataset: chain}\nfamilies: {SPX: [SPX]}\n',
);
const engine = await openEmbeddedEngine();
let limits: ApiLimits;

afterAll(async () => await engine.close());
beforeEach(() => {
  limits = new ApiLimits('none.json', 0);
});

/** As listed: near expirations have narrow strikes around the price, the monthly ones reach further. */
function listChain(contracts: number, price = 400): readonly Contract[] {
  const found: Contract[] = [];
  for (let week = 0; found.length < contracts; week += 1) {
    const expiration = addDays('2026-11-20', 7 * week);
    const isMonthly = week % 4 === 0;
    for (let step = isMonthly ? -30 : -12; step <= (isMonthly ? 30 : 12); step += 1) {
      for (const side of ['C', 'P']) {
        if (found.length === contracts) break;
        const strike = Math.round(price * (1 + step * 0.0125) * 2) / 2;
        const id = `SPX${expiration.slice(2).replaceAll('-', '')}${side}${String(Math.round(strike * 1000)).padStart(8, '0')}`;
        found.push({ option_symbol: id, expiration_date: expiration, put_call: side === 'C' ? 'CALL' : 'PUT', strike });
      }
    }
  }
  return found;
}

/** Fetches a date and compares it. @param fails whether a request fails for good, and with it the run; then there is a next one */
async function fetchDate(
  date: string,
  chain: readonly Contract[],
  limit: number,
  fails = () => false,
): Promise<number> {
  let requests = 0;
  const source: Pick<SnapshotClient, 'ask' | 'canNarrow'> = {
    canNarrow: true,
    ask: async ({ symbol, filter = {} }) => {
      if (symbol !== 'SPX') return { kind: 'missing', reason: 'SYMBOL_NOT_FOUND', rows: 0 };
      requests += 1;
      if (fails()) throw unreachable();
      const { putCall, strikeMin = 0, strikeMax = Number.POSITIVE_INFINITY } = filter;
      const rows = chain.filter(
        (row) =>
          (putCall === undefined || row.put_call === putCall) &&
          row.strike * 1000 >= strikeMin &&
          row.strike * 1000 <= strikeMax,
      );
      if (rows.length <= limit) return { kind: 'rows', ...createPage(rows.map((row) => ({ ...row }))) };
      throw new SourceFault('REQUEST_TOO_BROAD', 'the API answered HTTP 422 REQUEST_TOO_BROAD', { action: 'split' });
    },
  };
  const stage = await openStage(engine, job, date, 'api://chain');
  const opened = openSnapshots(job, source as SnapshotClient, limits);
  const run = async (): Promise<unknown> =>
    await fetchSnapshots({ ...opened, onEvent: () => undefined }, stage).catch((error: Fault) => {
      if (error.code !== 'API_UNREACHABLE') throw error;
      return run();
    });
  await run();
  const staged = await engine.rows<{ id: string }>(`SELECT option_symbol AS id FROM ${stage.table} ORDER BY id`);
  expect(staged.map(({ id }) => id)).toEqual(chain.map((row) => row.option_symbol).sort());
  await stage.discard();
  return requests;
}

/** Fewest ranges of strikes that fit: the endpoint filters by nothing finer that holds for contracts still unknown. */
function countFewest(chain: readonly Contract[], limit: number): number {
  const byStrike = new Map<number, number>();
  for (const { strike } of chain) byStrike.set(strike, (byStrike.get(strike) ?? 0) + 1);
  let [ranges, open] = [1, 0];
  for (const [, contracts] of [...byStrike].sort(([a], [b]) => a - b)) {
    if (open + contracts > limit) [ranges, open] = [ranges + 1, 0];
    open += contracts;
  }
  return ranges;
}

it.each([
  [1000, 150],
  [3000, 150],
  [900, 240],
  [6000, 500],
])(
  'a chain of %i contracts, %i in an answer, takes at most 1.3 times the fewest requests from the second date on',
  async (contracts, limit) => {
    for (let day = 0; day < 4; day += 1) {
      const chain = listChain(contracts + 7 * day);
      const used = await fetchDate(addDays(MONDAY, day), chain, limit);
      const fewest = countFewest(chain, limit);
      const most = day === 0 ? 5 * fewest : 1.3 * fewest;
      expect(used, `date ${day + 1}: ${used} of ${fewest}`).toBeLessThanOrEqual(most);
    }
  },
);

it.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'a chain is complete after runs in which any requests fail, whatever was staged and cut (seed %i)',
  async (seed) => {
    const random = createRandom(seed);
    // The outermost parts are open: beyond the largest strike of an option symbol, too.
    const outermost = [0.001, 1_000_000].flatMap((strike) =>
      ['CALL', 'PUT'].map((put_call) => {
        return { option_symbol: `SPX ${put_call} ${strike}`, expiration_date: '2026-12-18', put_call, strike };
      }),
    );
    const chain = [...listChain(300 + Math.floor(random() * 600)), ...outermost];
    const limit = 20 + Math.floor(random() * 100);
    await fetchDate(MONDAY, chain, limit, () => random() < 0.2);
    await fetchDate(addDays(MONDAY, 1), chain, limit, () => random() < 0.2);
  },
);

it('a chain of which one side of a single strike is more than an answer fails, and says so', async () => {
  const [one] = listChain(1);
  const chain = Array.from({ length: 200 }, (_, k) => ({ ...one, option_symbol: `SPX ${k}`, strike: 4512.5 }));
  await expect(fetchDate('2026-12-01', chain as readonly Contract[], 150)).rejects.toMatchObject({
    code: 'SNAPSHOT_TOO_BROAD',
    message: expect.stringContaining('SPX CALL 4512.5..4512.5 is too large for the API'),
  });
});

/** As a service shows that knows only contracts with trades: near the price most of them, far from it hardly any. */
function thin(chain: readonly Contract[], seed: number): readonly Contract[] {
  const random = createRandom(seed);
  return chain.filter(({ strike }) => random() < 0.75 * Math.exp(-Math.abs(strike / 400 - 1) / 0.15));
}

it.each([150, 100, 240])(
  'a chain of contracts with trades, of which most are near the price, limit %d, takes at most 1.25 times the fewest in all dates but the first',
  async (limit) => {
    let [fewest, used] = [0, 0];
    for (let day = 0; day < 8; day += 1) {
      const chain = thin(listChain(3000), 7 + day);
      const asked = await fetchDate(addDays('2026-11-19', day), chain, limit);
      if (day > 0) [fewest, used] = [fewest + countFewest(chain, limit), used + asked];
    }
    expect(used, `${used} of ${fewest}`).toBeLessThanOrEqual(1.25 * fewest);
  },
);

it.each([
  { what: 'grew by half', contracts: 1500, limit: 150, most: 35 },
  { what: 'shrank to one answer', contracts: 120, limit: 150, most: 8 },
  { what: 'moved to other strikes', contracts: 1000, limit: 150, price: 900, most: 60 },
  { what: 'met a lower limit', contracts: 1000, limit: 70, most: 45 },
])('what was learnt is never trusted: a chain that $what overnight is complete', async (change) => {
  const { contracts, limit, price, most } = change;
  await fetchDate(MONDAY, listChain(1000), 150);
  expect(await fetchDate(addDays(MONDAY, 1), listChain(contracts, price), limit)).toBeLessThanOrEqual(most);
  await fetchDate(addDays(MONDAY, 2), listChain(contracts, price), limit);
});
