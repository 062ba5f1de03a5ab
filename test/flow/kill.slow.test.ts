/**
 * Runs that are ended at random moments, and started again. SIGKILL over the real day until it seals: what is sealed is
 * the source row for row, and no window that was staged is asked for again. SIGINT and SIGTERM while it seals: the run
 * leaves at once instead of after the statement that the engine computes. Stops between pages are in
 * `backfill.slow.test.ts`.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { isTemporaryName } from '../../src/core/atomic-file.ts';
import { dropKey, manifestKey } from '../../src/ledger/layout.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb, readInput, readWithDuckDb } from '../support/drop.ts';
import {
  flowdrop,
  hasRealDay,
  listFiles,
  REAL_DAY,
  REAL_DAY_FILE,
  readManifest,
  startService,
  type TestService,
} from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { chooseSeed, chooseSize } from '../support/nightly.ts';
import { createRandom } from '../support/random.ts';
import { readNewestRun } from '../support/run-record.ts';

const TIMEOUT_MS = 1_200_000;
const seed = chooseSeed(620_173);
const { folder, keep } = useCleanups();

/** Pages that a service has answered. */
const pagesOf = ({ requests }: TestService) =>
  requests.filter(({ sql, status }) => status === 200 && sql?.startsWith('SELECT id,')).length;

const KILLS = chooseSize(5, 20);
/** A run of the real day takes two to three seconds at this rate; kills fall anywhere in it, start and end included. */
const RATE = '100';
const MAX_KILL_MS = 3_000;
/** Rows of a page: small, so that there are many windows to be killed between. */
const KILL_PAGE_ROWS = 25;
/** Requests that a run has in flight at most, which it has when answers take a second: on a loaded machine they do. */
const MAX_IN_FLIGHT = 12;

// Skipped only where the real day is not at hand, which `support/flowdrop.ts` says aloud.
it.skipIf(!hasRealDay)(
  `a run that is killed at ${KILLS} random points seals the same rows and fetches no staged window twice (seed ${seed})`,
  async () => {
    const random = createRandom(seed);
    const day = ['--data', REAL_DAY_FILE, '--as-of', '2016-06-01T21:00:00Z'];
    const service = await keep(startService([...day, '--row-limit', String(KILL_PAGE_ROWS)]));
    const cwd = await folder();
    const env = { ...service.env, FLOWDROP_REQUESTS_PER_SECOND: RATE };
    /** @returns the number of kills that hit a running process */
    const runUntilSealed = async (job: string, most: number): Promise<number> => {
      for (let kills = 0; ; kills += 1) {
        const delayMs = kills < most ? 200 + random() * MAX_KILL_MS : undefined;
        const run = await flowdrop(['run', job], {
          cwd,
          env,
          onStart: (child) => {
            if (delayMs !== undefined) void sleep(delayMs, undefined, { ref: false }).then(() => child.kill('SIGKILL'));
          },
        });
        if (run.code === 0) return kills;
        expect(run.code, run.stderr).toBeNull();
      }
    };
    let kills = 0;
    let runs = 0;
    for (; kills < KILLS; runs += 1) {
      // A day that sealed before its kill makes room for the next, in a dataset of its own.
      const job = await writeJob(cwd, { name: `day-${runs}`, to: `drops-${runs}`, reports: '' });
      const before = pagesOf(service);
      const killed = await runUntilSealed(job, KILLS - kills);
      const store = join(cwd, `drops-${runs}`);
      await expectWhole(store);
      // Every page that was answered is either a window of the manifest or was lost between answer and stage by a kill: at
      // most those in flight then. On the first day the row limit is not known: until it has been learnt and saved, each run
      // may have as many answers again that are truncated. Were staged windows asked for again, it would be half a day for
      // each kill.
      const { windows } = await readManifest(store, REAL_DAY);
      const truncated = runs === 0 ? (killed + 1) * MAX_IN_FLIGHT : 0;
      const pages = pagesOf(service) - before;
      expect(windows.length).toBeGreaterThanOrEqual(Math.ceil(2295 / KILL_PAGE_ROWS));
      expect(pages).toBeGreaterThanOrEqual(windows.length);
      expect(pages).toBeLessThanOrEqual(windows.length + killed * MAX_IN_FLIGHT + truncated);
      kills += killed;
    }
    console.log(`killed ${kills} times over ${runs} sealed days (seed ${seed})`);
  },
  TIMEOUT_MS,
);

async function expectWhole(store: string): Promise<void> {
  const input = await readInput(REAL_DAY_FILE);
  const partition = join(store, 'trades', `session=${REAL_DAY}`);
  // What a killed write leaves is hidden from readers and goes with a later write, when nobody can be writing it.
  const files = (await listFiles(partition)).filter((name) => !isTemporaryName(name));
  expect(files).toEqual(['trades.parquet']);
  expect(await listFiles(join(store, '_flowdrop', 'trades', `session=${REAL_DAY}`))).toEqual(
    expect.arrayContaining(['manifest.json', 'summary.parquet']),
  );
  const rows = await readWithDuckDb(join(partition, 'trades.parquet'));
  expect(rows.length).toBe(input.size);
  for (const row of rows) expect(row).toEqual(input.get(String(row['id'])));
}

const ROWS = 150_000;
const DATE = '2026-11-05';
const STOPS = chooseSize(4, 20);
/** On a machine of its own it takes a tenth of this; beside other tests an answer of the engine alone may take a second. */
const MAX_LEAVING_MS = 5_000;
/** Of the time that sealing takes undisturbed: later it may be over before the signal is heard. */
const LAST_MOMENT = 0.6;

/** Runs a job. @param stop a signal, so long after the recount, which is when sealing begins */
async function run(
  cwd: string,
  job: string,
  { env }: TestService,
  stop?: { readonly signal: NodeJS.Signals; readonly afterMs: number },
) {
  let [recountedAtMs, signalledAtMs] = [0, 0];
  const finished = await flowdrop(['run', '--no-report', job], {
    cwd,
    env,
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

it(
  `a run that is stopped while it seals leaves at once, and the next one seals the same rows (seed ${seed})`,
  async () => {
    const random = createRandom(seed);
    const served = ['--generate', '1', '--generate-rows', String(ROWS), '--row-limit', '10000'];
    const service = await keep(startService([...served, '--as-of', '2026-11-06T02:00:00Z']));
    const cwd = await folder();
    const drop = (to: string) => join(cwd, to, dropKey('trades', DATE));
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
    expect(await listFiles(join(cwd, 'stopped', 'trades'))).toEqual([`session=${DATE}/trades.parquet`]);
    const [one, other] = [drop('stopped'), drop('control')];
    const [difference] = await queryDuckDb(
      `SELECT count(*)::INTEGER AS n FROM ((FROM '${one}' EXCEPT ALL FROM '${other}') UNION ALL (FROM '${other}' EXCEPT ALL FROM '${one}'))`,
    );
    expect(difference).toEqual({ n: 0 });
    const told = leavingMs.map((ms) => Math.round(ms)).join(', ');
    console.log(
      `sealing took ${Math.round(sealingMs)} ms; stopped in it, the run left after ${told} ms (seed ${seed})`,
    );
  },
  TIMEOUT_MS,
);
