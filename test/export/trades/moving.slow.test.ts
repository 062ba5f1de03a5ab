/**
 * Rows that move while a date is fetched: they appear, vanish, are replaced under other ids, or are corrected under their
 * own, at any moment, in both orders of the table and at both entry points. One run holds what the source holds, and each
 * window that was touched costs two requests at most. Random trouble of every other kind is in `complete-random.slow.test.ts`.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import type { SqlJob } from '../../../src/job/job.ts';
import { SourceFault } from '../../../src/source/source.ts';
import { openStage, type Stage } from '../../../src/stage/stage.ts';
import { createFlowJob, expectSameGroups, useDateSource } from '../../support/date-source.ts';
import {
  createEngineSource,
  type EngineSource,
  type EngineSourceOptions,
  fillTrades,
  insertTrades,
  isCount,
  isPage,
} from '../../support/engine-source.ts';
import { parseSqlJob } from '../../support/jobs.ts';
import { chooseSeed, chooseSize } from '../../support/nightly.ts';
import { createRandom } from '../../support/random.ts';
import { createJob, createTrade, createTrades, DATE, type TradeRow } from '../../support/trades.ts';

const ROWS = 1_000;
/** No multiple of the rows of a second, of which two are in a page. */
const LIMIT = 80;
const PAGES = Math.ceil(ROWS / 60);
/** Along the symbols, whose windows may end between any two of their seconds. */
const FEWEST = Math.ceil(ROWS / LIMIT);
const NOW = Date.parse('2026-11-20T03:00:00Z');
const job = createJob();
const flow = createFlowJob();
const table = await useDateSource(NOW);
const { engine, limits } = table;

/** Half of the rows are of one symbol, which has several windows along the symbols. */
const half = (k: number): TradeRow => (k % 2 ? { symbol: 'SPY' } : {});

beforeEach(async () => await fillTrades(engine, createTrades(ROWS, half)));

const sourceOf = (options: Partial<EngineSourceOptions> = {}): EngineSource =>
  createEngineSource(engine, { rowLimit: LIMIT, meta: true, nowMs: NOW, ...options });

const CHOSEN = 'cityHash64(id, 7) % 50 = 0';

const setValues = async (changes: string, where = CHOSEN) =>
  await engine.command(`ALTER TABLE RawOptionTrades UPDATE ${changes} WHERE ${where} SETTINGS mutations_sync = 2`);
/** The source keeps prices as texts, some of them in another form than it sends. */
const keepPricesAsText = async (where: string) => {
  await engine.command('ALTER TABLE RawOptionTrades MODIFY COLUMN price String SETTINGS mutations_sync = 2');
  await setValues("price = concat(price, if(position(price, '.') = 0, '.00', '00'))", where);
};
const withdraw = async (where = CHOSEN) => await engine.command(`DELETE FROM RawOptionTrades WHERE ${where}`);
/** Cancelled and reported again in the same second, with the same numbers and times. */
const replaceIds = async (where = CHOSEN) => {
  // Chosen by the old ids: beside a renamed column a condition would mean the new ones.
  const chosen = `(SELECT * FROM RawOptionTrades WHERE ${where})`;
  await engine.command(`INSERT INTO RawOptionTrades SELECT * REPLACE (concat('again-', id) AS id) FROM ${chosen}`);
  await withdraw(`${where} AND NOT startsWith(id, 'again-')`);
};

/** Trades like some of those that there are. */
const createLate = (isChosen: (k: number) => boolean): readonly TradeRow[] =>
  createTrades(ROWS, (k) => ({ ...half(k), id: `late-${k}` })).filter((_, k) => isChosen(k));

const MOVES = {
  appear: async () =>
    await insertTrades(
      engine,
      createLate((k) => k % 51 === 0),
    ),
  vanish: async () => await withdraw(),
  'are replaced under other ids': async () => await replaceIds(),
  // Nothing of the record says that it was.
  'are corrected under their ids': async () => await setValues('premium = premium + 1'),
} as const;

/** When rows move: before the first page, which the counts then no longer fit; at a page in the middle of the fetch; or at the recount. */
const MOMENTS = {
  'before the first page': (sql: string) => isPage(sql),
  'while pages are fetched': (sql: string, source: EngineSource) =>
    isPage(sql) && source.pages().length === Math.floor(PAGES / 2),
  'after the last page': (sql: string, source: EngineSource) => source.pages().length >= FEWEST && isCount(sql),
} as const;

/** Every column that the drop has, row by row. */
async function expectSameRows(stage: Stage, of: string = `RawOptionTrades WHERE date = '${DATE}'`): Promise<void> {
  const columns = job.source.columns.map(({ name }) => `toString(${name})`).join(', ');
  const read = async (from: string) =>
    await engine.rows<{ h: string }>(`SELECT toString(cityHash64(${columns})) AS h FROM ${from} ORDER BY h`);
  expect(await read(stage.table)).toEqual(await read(of));
}

/** Calls `move` once, before the first query for which `isTime` holds. */
function movingSource(
  options: Partial<EngineSourceOptions>,
  isTime: (sql: string, source: EngineSource) => boolean,
  move: () => Promise<unknown>,
): EngineSource {
  let isMoved = false;
  const source: EngineSource = sourceOf({
    ...options,
    before: async (sql) => {
      if (isMoved || !isTime(sql, source)) return;
      isMoved = true;
      await move();
    },
  });
  return source;
}

const CASES = (['time', 'symbol'] as const).flatMap((axis) =>
  // Along symbols, an answer without `meta` is the next test's.
  (axis === 'time' ? [true, false] : [true]).flatMap((meta) =>
    (Object.keys(MOMENTS) as (keyof typeof MOMENTS)[]).flatMap((moment) =>
      (Object.keys(MOVES) as (keyof typeof MOVES)[])
        // Ids and values leave the numbers of rows as they are.
        .filter((move) => moment !== 'before the first page' || move === 'appear' || move === 'vanish')
        .map((move) => ({ axis, meta, moment, move })),
    ),
  ),
);

describe('rows that move', () => {
  it.each(CASES)('along $axis, meta $meta, $moment: those that $move are sealed as they are', async (one) => {
    Object.assign(limits, { axis: one.axis, rowLimit: LIMIT });
    await fillTrades(engine, createTrades(ROWS, half), one.axis);
    const source = movingSource({ meta: one.meta }, MOMENTS[one.moment], MOVES[one.move]);
    await expectSameRows(await table.complete(source, job));
    // Count, pages and recount; two for each window, of which all are touched; and one recount for each round.
    const usual = PAGES + 2;
    expect(source.asked.length).toBeLessThanOrEqual(usual + 2 * PAGES + 4);
  });

  it.each([1, 5, 20])('cost two requests for each window touched: %d withdrawn', async (rows) => {
    const ids = await engine.rows<{ id: string }>(
      `SELECT id FROM RawOptionTrades ORDER BY cityHash64(id) LIMIT ${rows}`,
    );
    const list = ids.map(({ id }) => `'${id}'`).join(', ');
    const source = movingSource({}, MOMENTS['while pages are fetched'], () => withdraw(`id IN (${list})`));
    await expectSameRows(await table.complete(source, job));
    expect(source.asked.length).toBeLessThanOrEqual(PAGES + 2 + 2 * Math.min(rows, PAGES) + 2);
    expect(table.logged).toContain('rows-withdrawn');
  });

  it('in all windows but one cost no count of each page that is full, where no `meta` says that it is whole', async () => {
    Object.assign(limits, { axis: 'symbol', rowLimit: LIMIT });
    await fillTrades(engine, createTrades(ROWS, half), 'symbol');
    // The last window is of symbols behind these.
    const late = createLate((k) => k % 17 === 0).filter(({ symbol }) => String(symbol) < 'SYM30');
    const source = movingSource({ meta: false }, MOMENTS['after the last page'], () => insertTrades(engine, late));
    await expectSameRows(await table.complete(source, job));
    expect(source.pages().length).toBeGreaterThan(FEWEST + 8);
    expect(source.asked.filter((sql) => sql.startsWith('SELECT count() AS rows FROM')).length).toBeLessThanOrEqual(2);
  });

  it.each(Object.keys(MOVES) as (keyof typeof MOVES)[])(
    'behind the groups of an aggregating job, that %s, are in its sums',
    async (move) => {
      for (const moment of [MOMENTS['while pages are fetched'], MOMENTS['after the last page']]) {
        const source = movingSource({ rowLimit: 500 }, (sql) => moment(sql, atPages(source)), MOVES[move]);
        await expectSameGroups(engine, await table.complete(source, flow));
      }
    },
  );
});

/** Of few pages, as if they were many: the first is the middle, the second the last. */
function atPages(source: EngineSource): EngineSource {
  const pages = source.pages();
  return { ...source, pages: () => (pages.length > 1 ? Array(PAGES).fill('') : Array(Math.floor(PAGES / 2)).fill('')) };
}

describe('rows that are gone', () => {
  it('at one count and back at the next come home: the replica only lagged', async () => {
    let counts = 0;
    const source = sourceOf({
      before: async (sql) => {
        if (!isCount(sql)) return;
        counts += 1;
        if (counts === 2) await engine.command(`CREATE OR REPLACE TABLE gone AS RawOptionTrades`);
        if (counts === 2) await engine.command(`INSERT INTO gone SELECT * FROM RawOptionTrades WHERE ${CHOSEN}`);
        if (counts === 2) await withdraw();
        if (counts === 3) await engine.command('INSERT INTO RawOptionTrades SELECT * FROM gone');
      },
    });
    await expectSameRows(await table.complete(source, job));
    expect(source.asked.slice(-2).every(isCount)).toBe(true);
    expect(table.logged).not.toContain('rows-withdrawn');
  });

  it('and are many are no withdrawal: the date fails, and what is staged stays', async () => {
    const source = movingSource({}, MOMENTS['after the last page'], () => withdraw('cityHash64(id) % 10 = 0'));
    await expect(table.complete(source, job)).rejects.toMatchObject({
      ...{ code: 'SOURCE_SHRANK', kind: 'failed' },
      message: expect.stringMatching(/had 1000 rows when the run began and has \d+ now.* more than 5% are gone/),
    });
    const stage = await openStage(engine, job, DATE, source.url);
    expect(await stage.totals()).toEqual({ rows: ROWS, ids: ROWS });
  });

  it('and were most of a symbol are no withdrawal, however few they are of the date', async () => {
    const others = createTrades(5_000, (k) => ({ id: `other-${k}`, symbol: `A${k % 40}` }));
    await insertTrades(engine, others);
    Object.assign(limits, { axis: 'symbol', rowLimit: 10_000 });
    const source = movingSource(
      { rowLimit: 10_000 },
      (sql) => isCount(sql) && source.pages().length > 0,
      () => withdraw("symbol = 'A1'"),
    );
    await expect(table.complete(source, job)).rejects.toMatchObject({
      code: 'SOURCE_SHRANK',
      message: expect.stringContaining('symbol A1 had 125 and has 0'),
    });
  });
});

describe('what a recount proves', () => {
  it.each([
    { name: 'a table', of: job },
    {
      name: 'SQL of single trades, with columns of its own named as ours are inside',
      of: parseSqlJob(
        'own.yaml',
        'name: own\nsource:\n  api: historical\n  sql: "SELECT id, symbol, date, time, premium, size * 2 AS n, substring(id, 1, 3) AS day, price AS cell FROM RawOptionTrades WHERE {window}"\n  types: {symbol: string, premium: double, n: int64, day: string, cell: double}\ndrop: {to: out, dataset: own}\n',
      ),
    },
    {
      name: 'few columns under a condition',
      of: parseSqlJob(
        'few.yaml',
        'name: few\nsource: {api: portal, columns: [id, date, time, size], where: "size > 25"}\ndrop: {to: out, dataset: few}\n',
      ),
    },
    { name: 'groups', of: flow },
  ])('is ids and values of $name, in the requests that a date takes', async ({ of }) => {
    // Numbers of every form.
    await setValues('premium = premium / 7, price = if(cityHash64(id) % 3 = 0, 1e21, -price / 3)', '1');
    await setValues('delta = nan, gamma = inf', 'size % 2 = 0');
    Object.assign(limits, { rowLimit: 2_000 });
    const source = sourceOf({ rowLimit: 2_000, meta: of.source.api === 'historical' });
    const { completed } = await table.prove(source, of as SqlJob);
    expect(completed.recount?.proved).toBe('ids and values');
    expect(completed.recount?.columns.length).toBeGreaterThan(0);
    expect(completed.recount?.value_hash).toMatch(/^\d+$/);
    expect(source.asked).toHaveLength(of === flow ? 4 : 3);
    expect(table.logged).toEqual([]);
  });

  const refuse = (part: string) => (sql: string) => {
    if (sql.includes(part)) {
      throw new SourceFault('INVALID_QUERY', `the API answered HTTP 422 INVALID_QUERY: no ${part}`, { action: 'stop' });
    }
  };

  it.each([
    { name: 'ids where values cannot be hashed', part: 'value_hash', proof: 'ids', wasted: 1 },
    { name: 'counts where nothing can', part: 'cityHash64', proof: 'counts', wasted: 2 },
  ])('is $name, which is told once and not tried the next night', async ({ part, proof, wasted }) => {
    const source = sourceOf({ before: refuse(part) });
    const { completed, stage } = await table.prove(source, job);
    await expectSameRows(stage);
    expect(completed.recount?.proved).toBe(proof);
    expect(source.asked.filter(isCount)).toHaveLength(2 + wasted);
    expect(table.logged).toEqual(['recount-weaker']);
    await stage.discard();
    const next = sourceOf({ before: refuse(part) });
    expect((await table.prove(next, job)).completed.recount?.proved).toBe(proof);
    expect(next.asked.filter(isCount)).toHaveLength(2);
    expect(table.logged).toEqual(['recount-weaker']);
  });

  it('is ids where the source sends all prices in another form than it keeps, and costs one page', async () => {
    await keepPricesAsText('1');
    const source = sourceOf();
    const { completed, stage } = await table.prove(source, job);
    expect((await stage.totals()).rows).toBe(ROWS);
    expect(completed.recount?.proved).toBe('ids');
    expect(table.logged).toEqual(['recount-weaker']);
    expect(source.pages()).toHaveLength(new Set(source.pages()).size);
    expect(source.asked.filter((sql) => sql.includes('flowdrop_id_hash'))).toHaveLength(1);
    expect(source.asked.filter(isCount)).toHaveLength(2);
    await stage.discard();
    const next = sourceOf();
    expect((await table.prove(next, job)).completed.recount?.proved).toBe('ids');
    expect(next.asked.filter(isCount)).toHaveLength(2);
  });

  it('is ids where they are all of one symbol that is larger than a page', async () => {
    Object.assign(limits, { axis: 'symbol', rowLimit: LIMIT });
    await fillTrades(
      engine,
      createTrades(ROWS, () => ({ symbol: 'SPY' })),
      'symbol',
    );
    await keepPricesAsText('1');
    const { completed, stage } = await table.prove(sourceOf(), job);
    expect((await stage.totals()).rows).toBe(ROWS);
    expect(completed.recount?.proved).toBe('ids');
  });

  it('is ids of one date of which a single row is in another form, and values of the next', async () => {
    const one = '(SELECT min(id) FROM RawOptionTrades)';
    await keepPricesAsText(`id = ${one}`);
    const source = sourceOf();
    const { completed, stage } = await table.prove(source, job);
    expect((await stage.totals()).rows).toBe(ROWS);
    expect(completed.recount?.proved).toBe('ids');
    expect(limits.recountProofs).toEqual({});
    expect(source.asked.length).toBeLessThanOrEqual(PAGES + 2 + 6);
    await stage.discard();
    await setValues("price = '1.5'", `id = ${one}`);
    expect((await table.prove(sourceOf(), job)).completed.recount?.proved).toBe('ids and values');
  });
});

const SEED = chooseSeed(70);
const SEEDS = Array.from({ length: chooseSize(5, 40) }, (_, k) => SEED + k);
it.each(SEEDS)('a source with random moves is sealed as it is in the end, in one run (seed %d)', async (seed) => {
  const random = createRandom(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const order = pick(['time', 'symbol'] as const);
  const options = { rowLimit: pick([30, 60, 200]), meta: random() < 0.5 };
  const of = random() < 0.25 ? flow : job;
  Object.assign(limits, { axis: of === flow ? 'time' : order, rowLimit: options.rowLimit });
  const rows = 300 + Math.floor(random() * 300);
  const createRow = (k: number, changes: TradeRow = {}) => createTrade(k * 7, { ...half(k), ...changes });
  await fillTrades(
    engine,
    Array.from({ length: rows }, (_, k) => createRow(k)),
    order,
  );
  let left = 3;
  const move = async () => {
    left -= 1;
    const few = `cityHash64(id, ${left}, ${seed}) % 150 = 0`;
    const at = 10_000 * left;
    switch (pick(['appear', 'vanish', 'replaced', 'corrected'] as const)) {
      case 'appear':
        return await insertTrades(
          engine,
          Array.from({ length: 10 }, (_, k) => createRow(Math.floor(random() * rows), { id: `late-${at + k}` })),
        );
      case 'vanish':
        return await withdraw(few);
      case 'replaced':
        return await replaceIds(few);
      default:
        return await setValues(`price = price + 1, size = size + ${left}`, few);
    }
  };
  // Every moment is as likely, but none after the third recount: a source that never rests is not sealed.
  let counts = 0;
  const source = sourceOf({
    ...options,
    before: async (sql) => {
      if (isCount(sql)) counts += 1;
      if (left > 0 && counts > 0 && counts < 3 && random() < 0.1) await move();
    },
  });
  const stage = await table.complete(source, of);
  if (of === flow) await expectSameGroups(engine, stage);
  else await expectSameRows(stage);
});
