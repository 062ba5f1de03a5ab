/** A date from counts to a proved stage, over an engine that is both the source's table and the stage. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, expect } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { settle } from '../../src/export/export-dates.ts';
import { fetchedDate } from '../../src/export/trades/fetched-date.ts';
import { probeRows } from '../../src/export/trades/probe.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { dayCountsSchema } from '../../src/plan/counts.ts';
import { openStage, type Stage } from '../../src/stage/stage.ts';
import { discardStages } from '../../src/stage/stage-table.ts';
import { StateFile } from '../../src/state/job-state.ts';
import { ApiLimits } from '../../src/state/limits.ts';
import { useCleanups } from './cleanups.ts';
import type { EngineSource } from './engine-source.ts';
import { createFakeClock } from './fake-clock.ts';
import { parseSqlJob } from './jobs.ts';
import { openSql } from './run.ts';
import { DATE } from './trades.ts';

/** Sums by minute and symbol, which no longer tell their trades. */
export const BY_MINUTE =
  'SELECT symbol, substring(time, 1, 16) AS minute, sum(premium) AS value FROM RawOptionTrades WHERE {window} GROUP BY symbol, minute';

/** A job of these groups. */
export function createFlowJob({ sql = BY_MINUTE, grain = 'minute', time = 'minute', isSplit = true } = {}): SqlJob {
  const keys = isSplit ? '\n  split: [symbol]' : '';
  const source = `sql: "${sql}"\n  grain: ${grain}\n  time: ${time}${keys}\n  types: {value: double}`;
  const text = `name: flow\nsource:\n  api: historical\n  ${source}\ndrop: {to: out, dataset: flow}\n`;
  return parseSqlJob('flow.yaml', text);
}

/** Compares groups by minute in the stage with those of the source. */
export async function expectSameGroups(engine: Engine, stage: Stage, where = '1'): Promise<void> {
  const read = async (from: string) =>
    await engine.rows(`SELECT symbol, minute, value FROM ${from} ORDER BY symbol, minute`);
  expect(await read(stage.table)).toEqual(await read(`(${BY_MINUTE.replace('{window}', where)})`));
}

/**
 * To be called outside of any test. Each test begins without a stage and without learnt limits; what the table has is up
 * to the file.
 */
export async function useDateSource(nowMs: number) {
  const { folder, keep } = useCleanups();
  const engine = await keep(openEmbeddedEngine());
  const countsPath = join(await folder(), 'counts.json');
  const limits = new ApiLimits('none.json', nowMs);
  const logged: string[] = [];
  beforeEach(async () => {
    await discardStages(engine, DATE);
    await rm(countsPath, { force: true });
    logged.length = 0;
    Object.assign(limits, new ApiLimits('none.json', nowMs));
  });
  const log = pino({ level: 'trace' }, { write: (line) => logged.push(String(JSON.parse(line).event)) });
  /** Counts the date, and completes it. */
  const prove = async (source: EngineSource, job: SqlJob) => {
    const run = { ...openSql(job, source, limits, { log, clock: createFakeClock() }), onEvent: () => undefined };
    const counts = await probeRows(run, DATE);
    const stage = await openStage(engine, job, DATE, source.url);
    const date = fetchedDate(run, stage, counts, new StateFile(countsPath, dayCountsSchema));
    return { stage, completed: await settle(date) };
  };
  return {
    engine,
    /** Of this test: nothing is known when it begins. */
    limits,
    /** Where the counts from before the first page are kept. */
    countsPath,
    /** Events of this test's log, by name. */
    logged: logged as readonly string[],
    prove,
    complete: async (source: EngineSource, job: SqlJob): Promise<Stage> => (await prove(source, job)).stage,
  };
}
