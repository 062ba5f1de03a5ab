/**
 * Random days whose sealed rows move at the source: late, corrected with and without a newer update mark, replaced under
 * other ids (a few or all), loaded twice, gone; at both entry points, in both orders of the table, with a run that fails or is stopped in its audit. After
 * the next run every row of the source is in the drop. Requests are printed beside those of exporting the same dates anew.
 */
import { afterAll, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import { fillTrades, insertTrades, unreachable } from '../../support/engine-source.ts';
import { chooseSeed, chooseSize } from '../../support/nightly.ts';
import { createRandom } from '../../support/random.ts';
import { createTrade, type TradeRow } from '../../support/trades.ts';
import { DATES, type DayOptions, LIMIT, openAuditedDays } from './audited-days.ts';

const DAYS = chooseSize(6, 90);
const SEED = chooseSeed(1);
const SEEDS = Array.from({ length: Math.ceil(DAYS / DATES.length) }, (_, k) => SEED + k);
/** Narrow scans count each date in parts. */
const TIMEOUT_MS = 300_000;
/** Count, cuts and recount of a date, beside its pages. */
const USUAL = 3;

const engine = await openEmbeddedEngine();
afterAll(async () => await engine.close());

it.each(SEEDS)(
  'random days of seed %d equal their source after the next run',
  async (seed) => {
    const random = createRandom(seed);
    const below = (most: number) => Math.floor(random() * most);
    const pick = <One>(...all: readonly One[]) => all[below(all.length)] as One; // Below the length.
    const order = pick<'time' | 'symbol'>('time', 'symbol');
    const options: DayOptions = {
      api: pick<'historical' | 'portal'>('historical', 'portal'),
      rule: pick<'repair' | 'mirror'>('repair', 'repair', 'mirror'),
      // A scan of a third of a day, loaded twice: of a table in the order of symbols, no smaller part of SPY can be asked for.
      ...(random() < 0.4 ? { scanLimit: 330 } : {}),
    };
    const days = await openAuditedDays(engine);
    try {
      const sizes = DATES.map(() => 150 + below(300));
      // Over some hours: cells of few rows, and of many.
      const createRow = (date: string, k: number, changes: TradeRow = {}) => {
        const changed = createTrade(k * (1 + (seed % 40)), k % 3 === 0 ? { symbol: 'SPY', ...changes } : changes);
        return days.moveTo(changed, date);
      };
      const rows = DATES.flatMap((date, at) => Array.from({ length: sizes[at] ?? 0 }, (_, k) => createRow(date, k)));
      await fillTrades(engine, rows, order);
      await days.run(options);
      const vanished = new Map<string, readonly string[]>();
      const doubled = new Map<string, readonly unknown[]>();
      let full = 0;
      for (const [at, date] of DATES.entries()) {
        const moved = await moveRows(date, { below, createRow, rows: sizes[at] ?? 0 });
        vanished.set(date, moved.gone);
        if (moved.isDoubled)
          doubled.set(
            date,
            (await days.rows(date)).map(({ id }) => id),
          );
        if (moved.count > 0) full += Math.ceil((sizes[at] ?? 0) / LIMIT) + USUAL;
      }
      const trouble = pick('none', 'fault', 'stop');
      const nth = 1 + below(6);
      let requests = 0;
      if (trouble !== 'none') {
        const stop = new AbortController();
        const beforeAudit = (request: number) => {
          if (request !== nth) return;
          if (trouble === 'stop') stop.abort();
          else throw unreachable();
        };
        await days.run({ ...options, signal: stop.signal, beforeAudit }).catch((error: { kind?: unknown }) => {
          expect(error.kind).toBe('interrupted');
        });
        requests += days.auditRequests();
      }
      const { audits } = await days.run(options);
      requests += days.auditRequests();
      for (const date of DATES) {
        const before = doubled.get(date);
        if (before !== undefined) {
          expect((await days.rows(date)).map(({ id }) => id)).toEqual(before);
          expect([date, audits[date]?.result]).toEqual([date, 'differs']);
          expect(await days.entry(date)).toMatchObject({ condition: 'degraded' });
          continue;
        }
        const gone = options.rule === 'mirror' ? [] : (vanished.get(date) ?? []);
        await days.expectEqual(date, gone);
        expect([date, audits[date]?.result]).toEqual([date, gone.length > 0 ? 'differs' : 'equal']);
        expect(await days.verify(date)).toEqual([]);
      }
      await days.run(options);
      expect((await days.run(options)).dates).toEqual([]);
      process.stdout.write(
        `seed ${seed}: ${options.api} by ${order}, ${options.rule}, ${options.scanLimit ? 'narrow scans' : 'wide scans'}, ${trouble}: ${requests} request(s) in audits, ${full} to export the same dates anew\n`,
      );
    } finally {
      await days.close();
    }
  },
  TIMEOUT_MS,
);

interface Draw {
  readonly below: (most: number) => number;
  readonly createRow: (date: string, k: number, changes?: TradeRow) => TradeRow;
  readonly rows: number;
}

async function moveRows(date: string, { below, createRow, rows }: Draw) {
  const ids = new Set<string>();
  const choose = (count: number) =>
    Array.from({ length: count }, () => createRow(date, below(rows)))
      .filter((row) => !ids.has(String(row['id'])) && ids.add(String(row['id'])))
      .map((row) => String(row['id']));
  const list = (of: readonly string[]) => of.map((id) => `'${id}'`).join(', ');
  const late = Array.from({ length: below(5) }, (_, k) =>
    createRow(date, below(rows), { id: `late-${k}`, price: 1_000 + k }),
  );
  const marked = choose(below(20));
  const silent = choose(below(4));
  const gone = choose(below(3));
  const fate = below(6);
  // All of them now and then: what is chosen before keeps its id.
  const replaced = choose(fate === 0 ? rows * 4 : below(3));
  const isDoubled = fate === 1;
  await insertTrades(engine, late);
  const where = (of: readonly string[]) => `WHERE id IN (${list(of)}) SETTINGS mutations_sync = 2`;
  const update = 'ALTER TABLE RawOptionTrades UPDATE';
  if (marked.length > 0)
    await engine.command(`${update} premium = premium * 3, updated_timestamp = '1799000000000' ${where(marked)}`);
  if (silent.length > 0) await engine.command(`${update} price = price + 1 ${where(silent)}`);
  if (isDoubled)
    await engine.command(
      `INSERT INTO RawOptionTrades SELECT * REPLACE (concat('twice-', id) AS id) FROM RawOptionTrades WHERE date = '${date}'`,
    );
  if (replaced.length > 0)
    await engine.command(
      `INSERT INTO RawOptionTrades SELECT * REPLACE (concat('again-', id) AS id) FROM (SELECT * FROM RawOptionTrades WHERE id IN (${list(replaced)}))`,
    );
  const old = [...gone, ...replaced];
  if (old.length > 0) await engine.command(`DELETE FROM RawOptionTrades WHERE id IN (${list(old)})`);
  return { gone, isDoubled, count: late.length + marked.length + silent.length + old.length };
}
