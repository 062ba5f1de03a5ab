/** A date from counts to a proved stage, over an engine that is both the source's table and the stage. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { settle } from '../../src/export/export-dates.ts';
import { type CompletedDate, fetchedDate } from '../../src/export/trades/fetched-date.ts';
import { probeRows } from '../../src/export/trades/probe.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { dayCountsSchema } from '../../src/plan/counts.ts';
import { openStage, type Stage } from '../../src/stage/stage.ts';
import { discardStages } from '../../src/stage/stage-table.ts';
import { StateFile } from '../../src/state/job-state.ts';
import { ApiLimits } from '../../src/state/limits.ts';
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

export interface DateSource {
  readonly engine: Engine;
  /** Of this test: nothing is known when it begins. */
  readonly limits: ApiLimits;
  /** Where the counts from before the first page are kept. */
  readonly countsPath: string;
  /** Events of this test's log, by name. */
  readonly logged: readonly string[];
  /** Counts the date, completes it and returns its stage. */
  complete(source: EngineSource, job: SqlJob): Promise<Stage>;
  /** The same with what was proved. */
  prove(source: EngineSource, job: SqlJob): Promise<{ readonly stage: Stage; readonly completed: CompletedDate }>;
}

/**
 * To be called outside of any test. Each test begins without a stage and without learnt limits; what the table has is up
 * to the file.
 */
export function useDateSource(nowMs: number): DateSource {
  let engine: Engine;
  let folder: string;
  let limits: ApiLimits;
  let logged: string[];
  const countsPath = () => join(folder, 'counts.json');
  beforeAll(async () => {
    engine = await openEmbeddedEngine();
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-date-'));
  });
  afterAll(async () => {
    await engine.close();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    await discardStages(engine, DATE);
    await rm(countsPath(), { force: true });
    logged = [];
    limits = await new ApiLimits(join(folder, 'none.json'), nowMs).load();
  });
  const log = pino({ level: 'trace' }, { write: (line) => logged.push(String(JSON.parse(line).event)) });
  const prove: DateSource['prove'] = async (source, job) => {
    const run = { ...openSql(job, source, limits, { log, clock: createFakeClock() }), onEvent: () => undefined };
    const counts = await probeRows(run, DATE);
    const stage = await openStage(engine, job, DATE, source.url);
    return {
      stage,
      completed: await settle(fetchedDate(run, stage, counts, new StateFile(countsPath(), dayCountsSchema))),
    };
  };
  return {
    get engine() {
      return engine;
    },
    get limits() {
      return limits;
    },
    get countsPath() {
      return countsPath();
    },
    get logged() {
      return logged;
    },
    async complete(source, job) {
      return (await prove(source, job)).stage;
    },
    prove,
  };
}
