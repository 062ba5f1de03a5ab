/**
 * The bounded version of `npm run chaos`: eight runs in which each kind of trouble comes at least once, each from a seed
 * of its own. A failure names the command that repeats it alone. What single faults lead
 * to is tested where they belong (`source/`, `store/`, `flow/kill.test.ts`); here is only whether the drops are the source
 * in the end.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dropKey, fileKey } from '../../src/ledger/layout.ts';
import { queryDuckDb } from '../support/drop.ts';
import { hasRealDay, makeFolder } from '../support/flowdrop.ts';
import { startS3 } from '../support/s3-server.ts';
import { judgeSealed, type SealedState } from './judge.ts';
import { describeResult, describeTotals } from './report.ts';
import { createSettledRows, SETTLED } from './rows.ts';
import { type ChaosResult, runChaos } from './run.ts';
import { KINDS, type Kind, SCENARIOS } from './scenario.ts';
import { ChaosSources } from './source.ts';
import { closeTables } from './table.ts';

/** The same every time, so that a change lands or not by what it is. */
const firstSeed = 620_173;
const { server: s3 } = await startS3();

const RUNS: readonly { readonly name: string; readonly kinds: readonly Kind[] }[] = [
  { name: 'table', kinds: ['rows-appear', 'rows-change', 'kill', 'failover'] },
  { name: 'table-portal-symbol', kinds: ['rows-vanish', 'rows-replaced', 'odd-cells', 'api-clock', 'own-clock'] },
  { name: 'table-s3', kinds: ['store-lies', 's3-answers', 'sleep'] },
  { name: 'mails', kinds: ['unmount', 'store-loses', 'mail-server'] },
  { name: 'two-workers-s3', kinds: ['network', 'kill'] },
  { name: 'disk-of-state', kinds: ['disk'] },
  { name: 's3-bytes', kinds: ['s3-bytes'] },
  { name: 'table-portal', kinds: ['lag', 'rows-twice', 'rows-redated'] },
];
const planned = RUNS.map(({ name, kinds }, at) => {
  const scenario = SCENARIOS.find((each) => each.name === name);
  if (!scenario) throw new RangeError(`there is no scenario ${name}`);
  const isPossible = (scenario.store === 'directory' || s3) && (scenario.source.data !== 'real' || hasRealDay);
  return { scenario, kinds, seed: firstSeed + at, isPossible: Boolean(isPossible) };
});

/** As many as the reference machine has cores. */
const LANES = 2;
/** They take about a minute; a machine that has much else to do takes many times as long, which is no failure. */
const RUNS_TIMEOUT_MS = 1_200_000;

describe(`chaos, seeds ${firstSeed} to ${firstSeed + RUNS.length - 1}`, () => {
  const results = new Map<number, ChaosResult>();

  beforeAll(async () => {
    const left = planned.filter(({ isPossible }) => isPossible);
    // Services of its own, because their logs are what pages are counted by.
    const runLane = async () => {
      const { path, remove } = await makeFolder();
      const sources = new ChaosSources(path);
      for (let next = left.shift(); next; next = left.shift()) {
        const result = await runChaos({ sources, s3 }, next.scenario, next.seed, next.kinds);
        results.set(next.seed, result);
        console.log(describeResult(result));
      }
      await sources.close();
      await remove();
    };
    await Promise.all(Array.from({ length: LANES }, runLane));
    console.log(describeTotals([...results.values()]));
  }, RUNS_TIMEOUT_MS);

  afterAll(closeTables);

  it('draws every kind of trouble', () => {
    expect(new Set(RUNS.flatMap(({ kinds }) => kinds))).toEqual(new Set(KINDS));
  });

  for (const { scenario, kinds, seed, isPossible } of planned) {
    // Skipped where there is no real day or no S3 server, which their supports say aloud; CI throws without the latter.
    it.skipIf(!isPossible)(
      `under ${kinds.join(' and ')} the scenario ${scenario.name} ends in the source's rows`,
      () => {
        const result = results.get(seed);
        expect(result?.problems, result && describeResult(result)).toEqual([]);
        expect(result?.equalDates).toBeGreaterThan(0);
      },
    );
  }
});

describe('the judge of what is sealed between two attempts', () => {
  const rows = createSettledRows();
  const lag = { request: 2, minutes: 20 };

  /** @param sealed ids of the drop */
  const judge = async (
    sealed: readonly string[],
    doubles: readonly string[],
    manifest = { condition: 'available' },
  ) => {
    const { path, remove } = await makeFolder();
    const [drop, record] = [dropKey('trades', SETTLED), fileKey('trades', SETTLED, 'manifest.json')];
    const files = new Map([drop, record].map((key, at) => [key, join(path, String(at))]));
    const fetch = async (key: string) => files.get(key) ?? '';
    await writeFile(await fetch(record), JSON.stringify(manifest));
    await writeFile(join(path, 'ids.json'), sealed.map((id) => JSON.stringify({ id })).join('\n'));
    await queryDuckDb(`COPY (FROM read_json('${path}/ids.json')) TO '${await fetch(drop)}' (FORMAT parquet)`);
    const run: SealedState = {
      place: { list: async () => [...files.keys()], fetch },
      source: { date: SETTLED, table: { rows, doubles: new Set(doubles), lags: [] } },
      problems: [],
    };
    await judgeSealed(run, { lag });
    await remove();
    return run.problems.join();
  };
  const ids = rows.map(({ id }) => id);

  it.each([
    ['nothing, when all rows are there once', ids, [], /^$/],
    ['rows that lack at the end', ids.slice(0, -40), [], /was sealed without 40 of its rows after \S+ 15:40:00/],
    ['rows that were loaded twice', [...ids, 'again'], ['again'], /1 rows of \S+ were sealed that were loaded twice/],
  ])('tells of %s', async (_what, sealed, doubles, words) => {
    expect(await judge(sealed, doubles)).toMatch(words);
  });

  it('tells of a date that is degraded without a reason', async () => {
    expect(await judge(ids, [], { condition: 'degraded' })).toMatch(/is degraded, and does not say why/);
  });
});
