/**
 * Dates completed under random trouble, over a real engine that is both source and stage: kills, refused and unanswered
 * queries, rows that come late or are corrected, limits forgotten between two tries, tables of both orders under row and
 * scan limits, with and without `meta`. Whatever happens, a date that is complete holds what the source holds, and every
 * date comes to be complete. Each case alone is in `complete-date.slow.test.ts`; whole processes are in `test/chaos`.
 */
import { expect, it } from 'vitest';
import { Fault, isFault } from '../../../src/core/errors.ts';
import type { Stage } from '../../../src/stage/stage.ts';
import { ApiLimits } from '../../../src/state/limits.ts';
import { useDateSource } from '../../support/date-source.ts';
import {
  createEngineSource,
  fillTrades,
  insertTrades,
  isPage,
  tooBroad,
  unreachable,
} from '../../support/engine-source.ts';
import { chooseSeed, chooseSize } from '../../support/nightly.ts';
import { createRandom } from '../../support/random.ts';
import { createJob, createTrade, DATE, type TradeRow } from '../../support/trades.ts';

const NOW = Date.parse('2026-11-20T03:00:00Z');
const SEED = chooseSeed(30);
const SEEDS = Array.from({ length: chooseSize(5, 40) }, (_, i) => SEED + i);
const SYMBOLS = ['SPY', 'SPX', 'QQQ', 'A', 'AA', 'BRK.B', 'BRK', 'ZM', 'TSLA', 'AAPL', 'NVDA', 'VIX', ''];
const MAX_TRIES = 12;
/** From then on nothing happens any more: the date must come to be complete. */
const CALM_FROM = 7;

const job = createJob();
const table = await useDateSource(NOW);
const { engine, limits } = table;

it.each(SEEDS)('a date under random trouble comes to hold what the source holds (seed %d)', async (seed) => {
  const random = createRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const below = (n: number) => Math.floor(random() * n);
  const createRow = (k: number, changes: TradeRow = {}): TradeRow =>
    createTrade(k, {
      symbol: random() < 0.5 ? 'SPY' : pick(SYMBOLS),
      time: `${DATE} ${pick(['09', '10', '15', '16'])}:${pick(['00', '14', '59'])}:${pick(['00', '30', '59'])}`,
      ...changes,
    });
  const rows = Array.from({ length: 300 + below(500) }, (_, k) => createRow(k));
  if (random() < 0.3) {
    for (let k = 0; k < 5; k += 1) rows.push({ ...pick(rows), updated_timestamp: String(1_796_000_000_000 + k) });
  }
  await fillTrades(engine, rows, random() < 0.5 ? 'time' : 'symbol');
  const api = {
    rowLimit: pick([7, 20, 50, 200]),
    meta: random() < 0.6,
    ...(random() < 0.5 ? {} : { scanLimit: 150 + below(300) }),
  };
  const trouble = { refused: random() < 0.3 ? 0.03 : 0, changed: random() < 0.4 ? 0.02 : 0 };
  let changes = 0;
  /** A change between the requests of one count, of which the counted part has already gone by: the next run finds it. */
  let isUnseen = false;
  const change = async () => {
    changes += 1;
    const made = String(1_798_000_000_000 + changes);
    if (random() < 0.5) return await insertTrades(engine, [createRow(10_000 + changes, { updated_timestamp: made })]);
    const [row] = await engine.rows<{ id: string }>(
      `SELECT id FROM RawOptionTrades ORDER BY cityHash64(id, ${changes}) LIMIT 1`,
    );
    await engine.command(
      `ALTER TABLE RawOptionTrades UPDATE premium = premium + 1, updated_timestamp = '${made}' WHERE id = '${row?.id}' SETTINGS mutations_sync = 2`,
    );
  };
  const complete = async (killAt: number, isCalm: boolean): Promise<Stage> => {
    let asked = 0;
    const before = async (sql: string) => {
      asked += 1;
      if (isPage(sql)) isUnseen = false;
      if (asked === killAt) throw new Fault('INTERRUPTED', 'killed here', { kind: 'interrupted' });
      if (isCalm) return;
      if (changes < 4 && random() < trouble.changed) {
        await change();
        isUnseen = !isPage(sql);
      }
      if (random() < trouble.refused) throw tooBroad();
      if (random() < 0.005) throw unreachable();
    };
    return await table.complete(createEngineSource(engine, { ...api, nowMs: NOW, before }), job);
  };
  let stage: Stage | undefined;
  const ends: string[] = [];
  for (let tries = 0; stage === undefined && tries < MAX_TRIES; tries += 1) {
    const killAt = tries < 3 && random() < 0.7 ? 1 + below(40) : -1;
    if (tries > 0 && random() < 0.3) Object.assign(limits, await new ApiLimits('none.json', NOW).load());
    stage = await complete(killAt, tries >= CALM_FROM).catch((error: unknown) => {
      if (!isFault(error)) throw error;
      ends.push(error.code);
      return undefined;
    });
  }
  if (isUnseen) stage = await complete(-1, true);
  const told = JSON.stringify({ seed, ...limits, ...trouble, ends });
  expect(stage, `never complete: ${told}`).toBeDefined();
  expect(await readNewest(stage?.table ?? ''), told).toEqual(await readNewest('RawOptionTrades'));
});

/** What counts of a table: its rows, and of each id the newest version. */
async function readNewest(name: string): Promise<unknown> {
  const [rows] = await engine.rows<{ n: number }>(`SELECT count() AS n FROM ${name}`);
  const newest = await engine.rows(
    `SELECT id, argMax(premium, updated_timestamp) AS premium, argMax(symbol, updated_timestamp) AS symbol FROM ${name} GROUP BY id ORDER BY id`,
  );
  return { rows: rows?.n, newest };
}
