/**
 * SIGINT and SIGTERM at random moments of sealing: the run leaves at once instead of after the statement that the engine
 * computes, says how to go on, and the next one seals what is staged. Stops between pages are in `backfill.slow.test.ts`,
 * SIGKILL is in `kill.slow.test.ts`.
 */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { quoteString } from '../../src/engine/literal.ts';
import { manifestKey } from '../../src/ledger/layout.ts';
import { useCleanups } from '../support/cleanups.ts';
import {
  type Finished,
  flowdrop,
  listFiles,
  readManifest,
  startService,
  type TestService,
} from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { chooseSeed, chooseSize } from '../support/nightly.ts';
import { createRandom } from '../support/random.ts';
import { readNewestRun } from '../support/run-record.ts';

const ROWS = 150_000;
const PAGE_ROWS = 10_000;
const DATE = '2026-11-05';
const STOPS = chooseSize(4, 20);
/** On a machine of its own it takes a tenth of this; beside other tests an answer of the engine alone may take a second. */
const MAX_LEAVING_MS = 5_000;
/** Of the time that sealing takes undisturbed: later it may be over before the signal is heard. */
const LAST_MOMENT = 0.6;

const seed = chooseSeed(620_173);
const { folder, keep } = useCleanups(afterEach);

interface Timed extends Finished {
  readonly recountedAtMs: number;
  readonly signalledAtMs: number;
  readonly endedAtMs: number;
}

interface Stop {
  readonly signal: NodeJS.Signals;
  /** After the recount, which is when sealing begins. */
  readonly afterMs: number;
}

async function run(cwd: string, job: string, service: TestService, stop?: Stop): Promise<Timed> {
  let [recountedAtMs, signalledAtMs] = [0, 0];
  const finished = await flowdrop(['run', '--no-report', job], {
    cwd,
    env: service.env,
    onStart: (child) => {
      if (child.stderr === null) throw new Error('it has no stderr');
      createInterface({ input: child.stderr }).on('line', (line) => {
        if (!line.includes('"event":"recounted"')) return;
        recountedAtMs = performance.now();
        if (stop === undefined) return;
        setTimeout(() => {
          signalledAtMs = performance.now();
          child.kill(stop.signal);
        }, stop.afterMs);
      });
    },
  });
  return { ...finished, recountedAtMs, signalledAtMs, endedAtMs: performance.now() };
}

const pagesOf = (service: TestService) => service.requests.filter(({ sql }) => sql?.startsWith('SELECT id,')).length;

async function checksum(path: string): Promise<unknown> {
  const engine = await openEmbeddedEngine();
  try {
    const sql = `SELECT count() AS rows, toString(sum(cityHash64(*))) AS hash FROM file(${quoteString(path)}, Parquet)`;
    return await engine.rows(sql);
  } finally {
    await engine.close();
  }
}

it(`a run that is stopped while it seals leaves at once, and the next one seals the same rows (seed ${seed})`, async () => {
  const random = createRandom(seed);
  const served = ['--generate', '1', '--generate-rows', String(ROWS), '--row-limit', String(PAGE_ROWS)];
  const service = await keep(startService([...served, '--as-of', '2026-11-06T02:00:00Z']));
  const cwd = await folder();
  const drop = (to: string) => join(cwd, to, 'trades', `session=${DATE}`);
  const control = await run(cwd, await writeJob(cwd, { name: 'control', to: 'control', reports: '' }), service);
  expect(control.code, control.stderr).toBe(0);
  const sealingMs = control.endedAtMs - control.recountedAtMs;

  const job = await writeJob(cwd, { name: 'stopped', to: 'stopped', reports: '' });
  const leavingMs: number[] = [];
  let pages: number | undefined;
  for (let stops = 0; stops < STOPS && !existsSync(join(cwd, 'stopped', manifestKey('trades', DATE))); stops += 1) {
    const signal = stops % 2 === 0 ? 'SIGINT' : 'SIGTERM';
    const afterMs = ((stops + random()) / STOPS) * LAST_MOMENT * sealingMs;
    const stopped = await run(cwd, job, service, { signal, afterMs });
    const said = `${signal} after ${Math.round(afterMs)} of ${Math.round(sealingMs)} ms: ${stopped.stderr}`;
    // The machine was busier at the control, and this run was done before the signal came.
    if (stopped.code === 0) break;
    expect(stopped.code, said).toBe(130);
    expect(stopped.stderr, said).not.toContain('date-failed');
    leavingMs.push(stopped.endedAtMs - stopped.signalledAtMs);
    expect(leavingMs.at(-1), said).toBeLessThan(MAX_LEAVING_MS);
    expect((await readNewestRun(join(cwd, '.flowdrop'), 'stopped'))?.outcome, said).toBe('interrupted');
    // Everything is staged by now: no later run may ask for a page.
    pages ??= pagesOf(service);
    expect(pagesOf(service), said).toBe(pages);
  }
  expect(leavingMs.length).toBeGreaterThan(0);
  const last = await run(cwd, job, service);
  expect(last.code, last.stderr).toBe(0);
  expect(pagesOf(service)).toBe(pages);
  expect(await readManifest(join(cwd, 'stopped'), DATE)).toMatchObject({ rows: ROWS, condition: 'available' });
  expect(await listFiles(drop('stopped'))).toEqual(['trades.parquet']);
  expect(await checksum(join(drop('stopped'), 'trades.parquet'))).toEqual(
    await checksum(join(drop('control'), 'trades.parquet')),
  );
  const told = leavingMs.map((ms) => Math.round(ms)).join(', ');
  console.log(`sealing took ${Math.round(sealingMs)} ms; stopped in it, the run left after ${told} ms (seed ${seed})`);
}, 1_200_000);
