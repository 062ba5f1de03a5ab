/**
 * The bounded version of `npm run simulate`: lives of a dataset drawn from seeds, in which each date ends equal to the source
 * or recorded as lost, and each mail goes once; and lives that were spoilt on purpose, to see that the judge notices.
 * `npm run simulate -- --life SEED` tells one.
 */
import { cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LIFE_MOVES } from '../chaos/rows.ts';
import { queryDuckDb } from '../support/drop.ts';
import type { TradeRow } from '../support/trades.ts';
import { drawLife } from './draw.ts';
import { judgeLife, type Lived } from './judge.ts';
import { simulateLife } from './simulate.ts';
import { createTotals } from './tally.ts';
import { World } from './world.ts';

const LIVES = 10;
const SEGMENT_LIVES = 3;
const SEED = 620_235;
/** They take half a minute; a machine that has much else to do takes many times as long, which is no failure. */
const TIMEOUT_MS = 1_200_000;

let world: World;
const totals = createTotals();
beforeAll(async () => {
  world = await World.open();
});
afterAll(async () => {
  console.log(totals.describe());
  await world.close();
});

describe('simulated lives', () => {
  it(
    'end with every date equal to the source or recorded as lost, and each mail sent once',
    async () => {
      const moved = new Set<string>();
      for (let seed = SEED; seed < SEED + LIVES; seed += 1) {
        const result = await simulateLife(world, seed);
        totals.add(result);
        expect(result.problems, `life ${seed}\n${result.story.join('\n')}`).toEqual([]);
        for (const move of result.moves) moved.add(move);
      }
      expect([...moved]).toEqual(
        expect.arrayContaining(['lag at the close', 'failover to a replica behind', ...LIFE_MOVES]),
      );
    },
    TIMEOUT_MS,
  );

  it.each(['own-day', 'session'] as const)(
    'end so too where the market trades all segments, with evenings dated by %s',
    async (evenings) => {
      for (let seed = SEED; seed < SEED + SEGMENT_LIVES; seed += 1) {
        const result = await simulateLife(world, seed, undefined, evenings);
        totals.add(result);
        expect(result.problems, `life ${seed}\n${result.story.join('\n')}`).toEqual([]);
      }
    },
    TIMEOUT_MS,
  );

  it(
    'are the same each time for a seed',
    async () => {
      const tell = async () => {
        const { story } = await simulateLife(world, QUIET);
        // Pages that arrive during an insert go in together, so the number of steps depends on the machine's speed.
        return story.map((line) => line.replace(/\d+ steps/, 'steps'));
      };
      expect(await tell()).toEqual(await tell());
    },
    TIMEOUT_MS,
  );
});

/** A life with mails, without trouble in its runs, and with a date that is cared for. */
const QUIET = findQuiet();

function findQuiet(): number {
  for (let seed = 1; ; seed += 1) {
    const { events, recipients, cared } = drawLife(seed);
    const isQuiet = events.every((event) => event.kind === 'run' && event.trouble === undefined);
    if (isQuiet && recipients.length > 0 && cared.size > 0) return seed;
  }
}

/** Rewrites a drop of the life. @param from makes the query, of the rows as they are */
async function rewriteDrop(lived: Lived, from: (rows: string) => string): Promise<Lived> {
  const [date] = lived.drawn.cared;
  const path = join(lived.storeFolder, `trades/session=${date}/trades.parquet`);
  const rows = `(SELECT * FROM read_parquet('${path}', hive_partitioning = false))`;
  await queryDuckDb(`COPY (${from(rows)}) TO '${path}.new' (FORMAT parquet)`);
  await rename(`${path}.new`, path);
  return lived;
}

/** Of the life's first date that was cared for. */
async function changeManifest(lived: Lived, changes: Readonly<Record<string, unknown>>): Promise<Lived> {
  const [date] = lived.drawn.cared;
  const path = join(lived.storeFolder, `_flowdrop/trades/session=${date}/manifest.json`);
  await writeFile(path, JSON.stringify({ ...JSON.parse(await readFile(path, 'utf8')), ...changes }));
  return { ...lived, drawn: { ...lived.drawn, lagging: date } };
}

/** The first row of a date is said to be of the last one now, whose drop has it. */
async function moveRow(lived: Lived): Promise<Lived> {
  const [from = ''] = lived.drawn.cared;
  const to = lived.drawn.dates.at(-1) ?? '';
  const [row] = lived.versions(from).at(-1)?.rows ?? [];
  if (row === undefined) throw new RangeError(`${from} has no rows`);
  const change = (date: string, act: (rows: Map<string, TradeRow>) => void) => {
    const rows = new Map(lived.versions(date).at(-1)?.rows);
    act(rows);
    return [...lived.versions(date), { atMs: lived.versions(date).at(-1)?.atMs ?? 0, rows }];
  };
  const versions = new Map([
    [from, change(from, (rows) => rows.delete(row[0]))],
    [to, change(to, (rows) => rows.set(...row))],
  ]);
  const [old, path] = [from, to].map((date) => join(lived.storeFolder, `trades/session=${date}/trades.parquet`));
  await queryDuckDb(
    `COPY (FROM read_parquet('${path}', hive_partitioning = false) UNION ALL FROM read_parquet('${old}', hive_partitioning = false) WHERE id = '${row[0]}') TO '${path}.new' (FORMAT parquet)`,
  );
  await rename(`${path}.new`, path ?? '');
  return { ...lived, versions: (date) => versions.get(date) ?? lived.versions(date) };
}

const FIRST = (rows: string) => `(SELECT min(id) FROM ${rows})`;

const SPOILT: readonly (readonly [string, (lived: Lived) => Promise<Lived>, RegExp])[] = [
  [
    'a row that is taken out of a sealed file',
    (lived) => rewriteDrop(lived, (rows) => `SELECT * FROM ${rows} WHERE id <> ${FIRST(rows)}`),
    /differs from the source: 1 rows lack/,
  ],
  [
    'a value that is another one',
    (lived) =>
      rewriteDrop(
        lived,
        (rows) => `SELECT * REPLACE (if(id = ${FIRST(rows)}, price + 1, price) AS price) FROM ${rows}`,
      ),
    /differs from the source: 1 rows have other values/,
  ],
  [
    'a row that is there twice',
    (lived) => rewriteDrop(lived, (rows) => `FROM ${rows} UNION ALL SELECT * FROM ${rows} WHERE id = ${FIRST(rows)}`),
    /1 rows repeat an id/,
  ],
  [
    'a row that the source never had',
    (lived) =>
      rewriteDrop(
        lived,
        (rows) => `FROM ${rows} UNION ALL SELECT * REPLACE ('made-up' AS id) FROM ${rows} WHERE id = ${FIRST(rows)}`,
      ),
    /1 rows are not of the source/,
  ],
  [
    'a date without its manifest',
    async (lived) => {
      const [date] = lived.drawn.cared;
      await rm(join(lived.storeFolder, `_flowdrop/trades/session=${date}/manifest.json`));
      return lived;
    },
    /is not sealed/,
  ],
  [
    'a mail that went twice',
    async (lived) => ({ ...lived, mails: [...lived.mails, ...lived.mails.slice(0, 1)] }),
    /went 2 times, and nothing in run \d+ explains it/,
  ],
  ['a mail that did not go', async (lived) => ({ ...lived, mails: lived.mails.slice(1) }), /got no mail of/],
  ['a row that stands in two drops', moveRow, /keeps 1 rows that are of \S+ now/],
  [
    'a revision that lacked its last rows',
    (lived) => changeManifest(lived, { rows: 3 }),
    /r1 is whole with 3 of \d+ rows/,
  ],
  [
    'a date that is held without a reason',
    (lived) => changeManifest(lived, { condition: 'degraded' }),
    /r1 is degraded without a reason/,
  ],
  [
    'a lagging date that nothing was said about',
    async (lived) => ({ ...(await changeManifest(lived, {})), behind: new Set([0]) }),
    /lagged, and the run of \S+ says nothing/,
  ],
  [
    'a mail of a change that is held',
    (lived) => changeManifest(lived, { held: 'its rows are gone' }),
    /r1 was mailed, and it is held/,
  ],
  [
    'a run that failed without trouble',
    async (lived) => ({
      ...lived,
      runs: lived.runs.map((run) => ({ ...run, finished: run.finished && { ...run.finished, shortfall: 'failed' } })),
    }),
    /had no trouble and failed/,
  ],
];

describe('the judge of a life', () => {
  let lived: Lived;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-judged-'));
    const { problems } = await simulateLife(world, QUIET, async (seen) => {
      await cp(seen.storeFolder, join(folder, 'whole'), { recursive: true });
      const versions = new Map(seen.drawn.dates.map((date) => [date, seen.versions(date)]));
      lived = { ...seen, versions: (date) => versions.get(date) ?? [] };
    });
    expect(problems).toEqual([]);
  }, TIMEOUT_MS);
  afterAll(async () => await rm(folder, { recursive: true, force: true }));

  it.each(SPOILT)('tells of %s', async (_what, spoil, words) => {
    const storeFolder = await mkdtemp(join(folder, 'spoilt-'));
    await cp(join(folder, 'whole'), storeFolder, { recursive: true });
    const { problems } = await judgeLife(await spoil({ ...lived, storeFolder }));
    expect(problems.join('\n')).toMatch(words);
  });
});
