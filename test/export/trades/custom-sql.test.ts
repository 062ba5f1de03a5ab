import { beforeEach, describe, expect, it } from 'vitest';
import { DAY_START, formatWindow } from '../../../src/calendar/window.ts';
import type { Engine } from '../../../src/engine/engine.ts';
import { probeGroups, probeRows } from '../../../src/export/trades/probe.ts';
import type { SqlJob } from '../../../src/job/job.ts';
import { type DayCounts, dayCountsSchema } from '../../../src/plan/counts.ts';
import { buildPage } from '../../../src/plan/statement.ts';
import { openStage, type Stage } from '../../../src/stage/stage.ts';
import { findSplitKey } from '../../../src/stage/window-conflicts.ts';
import { StateFile } from '../../../src/state/job-state.ts';
import type { ApiLimits } from '../../../src/state/limits.ts';
import { createFlowJob, useDateSource } from '../../support/date-source.ts';
import { createEngineSource, fillTrades, insertTrades } from '../../support/engine-source.ts';
import { parseSqlJob } from '../../support/jobs.ts';
import { openSql } from '../../support/run.ts';
import { createPage, createTrades, DATE, windowAt } from '../../support/trades.ts';

const ROWS = 3_000;
const NOW = Date.parse('2026-11-20T03:00:00Z');
/** Groups of ten minutes, in a form that no text shows. */
const TEN_MINUTES =
  'SELECT symbol, toString(toDateTime(intDiv(toUnixTimestamp(toDateTime(time)), 600) * 600)) AS start, sum(premium) AS value FROM RawOptionTrades WHERE {window} GROUP BY symbol, start';

const flowJob = (grain: string) => createFlowJob({ sql: TEN_MINUTES, grain, time: 'start' });
const rowJob = (sql: string) =>
  parseSqlJob(
    'rows.yaml',
    `name: rows\nsource:\n  api: historical\n  sql: "${sql}"\n  types: {symbol: string}\ndrop: {to: out, dataset: rows}\n`,
  );

const table = useDateSource(NOW);
let engine: Engine;
let limits: ApiLimits;

beforeEach(async () => {
  ({ engine, limits } = table);
  await fillTrades(engine, createTrades(ROWS));
});

const sourceOf = (rowLimit: number) => createEngineSource(engine, { rowLimit, meta: true, nowMs: NOW });

const complete = (of: SqlJob, rowLimit: number): Promise<Stage> => table.complete(sourceOf(rowLimit), of);

describe('groups that are longer than the grain', () => {
  it('and whose grain is cut by their key fail, with the group and its windows', async () => {
    await expect(complete(flowJob('minute'), 350)).rejects.toMatchObject({
      code: 'GROUP_TORN',
      message: expect.stringMatching(
        /^2026-11-19: the group with start "2026-11-19 09:30:00", symbol "SYM\d+" arrived in two windows, \S+ and \S+, so/,
      ),
    });
  });

  it('and have rows where no group was counted fail, with the group and the window', async () => {
    // An earlier run staged the only window that groups were counted in.
    const [job, source] = [flowJob('minute'), sourceOf(10_000)];
    await new StateFile<DayCounts>(table.countsPath, dayCountsSchema).write([
      ...(await probeRows(openSql(job, source, limits), DATE)),
    ]);
    const stage = await openStage(engine, job, DATE, source.url);
    const window = { date: DATE, from: DAY_START, to: { second: 34_260 } };
    await stage.put(window, await source.ask(buildPage(job, window, 'open')));
    await expect(table.complete(source, job)).rejects.toMatchObject({
      code: 'GROUP_TORN',
      message: expect.stringMatching(
        /^2026-11-19: the group with start "2026-11-19 09:30:00", symbol "SYM\d+" has rows in 09:31:00\.\.\S+, where no group was counted, so its numbers would be incomplete$/,
      ),
      hint: expect.stringContaining('choose a longer `grain`'),
    });
  });

  it('and were counted in two spans fail, with the place', async () => {
    const timeProfile = [34_200, 34_260].map((second) => ({ second, share: 0.5 }));
    Object.assign(limits, { axis: 'time', dateRows: ROWS, passedRows: 1600, refusedRows: 2000, timeProfile });
    await expect(probeGroups(openSql(flowJob('minute'), sourceOf(10_000), limits), DATE)).rejects.toMatchObject({
      code: 'GROUP_TORN',
      message: expect.stringContaining('groups whose "start" is in second 34200 of the day arrive in two windows'),
    });
  });

  it('are whole with a grain that holds them', async () => {
    const stage = await complete(flowJob('hour'), 350);
    const [ours] = await engine.rows(`SELECT count() AS n, sum(value) AS v FROM ${stage.table}`);
    const [whole] = await engine.rows(
      `SELECT count() AS n, sum(value) AS v FROM (${TEN_MINUTES.replace('{window}', '1')})`,
    );
    expect(ours).toEqual(whole);
  });
});

it('a torn group is found in whichever pass it is', async () => {
  const job = flowJob('minute');
  if (job.source.kind !== 'aggregate') throw new Error('not a job of groups');
  const stage = await openStage(engine, job, DATE, 'engine://trades');
  const groups = Array.from({ length: 50 }, (_, k) => ({ start: `${DATE} 09:30:00`, symbol: `S${k}`, value: k }));
  await stage.put(windowAt(0), createPage(groups));
  for (const passKeys of [1_000, 7]) expect(await findSplitKey(stage, passKeys)).toBeUndefined();
  await stage.put(windowAt(1), createPage(groups.slice(31, 32)));
  for (const passKeys of [1_000, 7]) {
    expect(await findSplitKey(stage, passKeys)).toMatchObject({
      key: { start: `${DATE} 09:30:00`, symbol: 'S31' },
      windows: [formatWindow(windowAt(0)), formatWindow(windowAt(1))],
    });
  }
});

describe('rows by SQL of ones own', () => {
  it('whose ids are none fail, for all but one of each would be dropped', async () => {
    const job = rowJob('SELECT symbol AS id, date, time, symbol FROM RawOptionTrades WHERE {window}');
    await expect(complete(job, 1_000)).rejects.toMatchObject({
      code: 'IDS_REPEATED',
      message: expect.stringMatching(
        /^2026-11-19: \d+ of 3000 rows repeat an id of the same answer; window \S.* has \d+ rows with \d+ ids\. For example: id "SYM\d+" has \d+ rows \(SYM.*\)$/,
      ),
      hint: expect.stringContaining('with `id` unchanged'),
    });
  });

  it('of a source that repeats a few ids are complete', async () => {
    await insertTrades(engine, createTrades(20));
    const stage = await complete(rowJob('SELECT id, date, time, symbol FROM RawOptionTrades WHERE {window}'), 1_000);
    expect(await stage.totals()).toEqual({ rows: ROWS + 20, ids: ROWS });
  });
});
