/** A date from counts to a proved stage, over an engine that is both the source's table and the stage. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { type Learnt, loadLearnt } from '../../src/run/learnt.ts';
import { completeDate } from '../../src/run/sql/complete.ts';
import { probeRows } from '../../src/run/sql/probe.ts';
import { discardStages } from '../../src/stage/list.ts';
import { openStage, type Stage } from '../../src/stage/stage.ts';
import type { EngineSource } from './engine-source.ts';
import { createSilentLog } from './log.ts';
import { DATE } from './trades.ts';

export interface DateSource {
  readonly engine: Engine;
  /** Of this test: nothing is known when it begins. */
  readonly learnt: Learnt;
  /** Where the counts from before the first page are kept. */
  readonly countsPath: string;
  /** Counts the date, completes it and returns its stage. */
  complete(source: EngineSource, job: SqlJob): Promise<Stage>;
}

/**
 * To be called outside of any test. Each test begins without a stage and without learnt limits; what the table has is up
 * to the file.
 */
export function useDateSource(nowMs: number): DateSource {
  let engine: Engine;
  let folder: string;
  let learnt: Learnt;
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
    learnt = await loadLearnt(join(folder, 'none.json'), 'engine://trades', nowMs);
  });
  return {
    get engine() {
      return engine;
    },
    get learnt() {
      return learnt;
    },
    get countsPath() {
      return countsPath();
    },
    async complete(source, job) {
      const deps = { source, learnt, log: createSilentLog(), onEvent: () => undefined };
      const counts = await probeRows(deps, job, DATE);
      const stage = await openStage(engine, job, DATE, source.url);
      await completeDate(deps, job, stage, counts, countsPath());
      return stage;
    },
  };
}
