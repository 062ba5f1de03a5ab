/** What a run in one process needs: a real engine that is source and stage, a real store, and nobody to mail to. */

import { join } from 'node:path';
import type { Log } from '../../src/core/log.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { ExportRun } from '../../src/run/run.ts';
import type { Source } from '../../src/source/source.ts';
import { JobState } from '../../src/state/job-state.ts';
import { ApiLimits } from '../../src/state/limits.ts';
import type { Store } from '../../src/store/store.ts';
import { createSilentLog } from './log.ts';

export interface RunParts {
  readonly job: SqlJob;
  readonly engine: Engine;
  readonly store: Store;
  readonly source: Source;
  /** For the state of the run. */
  readonly folder: string;
  readonly log?: Log;
}

/** A context whose clock is the source's. */
export async function createRun(parts: RunParts): Promise<ExportRun> {
  const { job, engine, store, source, folder, log = createSilentLog() } = parts;
  const refuse = () => Promise.reject(new RangeError('an export mails nothing'));
  return {
    runId: 'run-1',
    ...{ opened: { kind: 'sql', job, source }, source, engine, log },
    ledger: new Ledger(store, job.drop.dataset),
    mailer: { url: '', send: refuse, verify: refuse, close: async () => {} },
    mailFrom: '',
    clock: { now: () => source.serverNow(), sleep: async () => {} },
    // The rows are of one morning. What checks all clocks is in `test/flow/clocks.slow.test.ts`.
    clockRule: 'source',
    redact: (text: string) => text,
    onEvent: () => undefined,
    limits: new ApiLimits(join(folder, 'limits.json'), source.url, source.serverNow()),
    state: new JobState(folder, job.name),
    templatesDir: '',
    publicUrl: undefined,
    version: '1',
  };
}
