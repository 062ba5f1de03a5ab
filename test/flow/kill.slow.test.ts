/**
 * SIGKILL at random moments of a run over the real day, started again each time until it seals. What is sealed must be
 * the source row for row, and no window that was staged may be asked for again.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { isTemporaryName } from '../../src/core/atomic-file.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { useCleanups } from '../support/cleanups.ts';
import { readInput, readWithDuckDb } from '../support/drop.ts';
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

const KILLS = chooseSize(5, 20);
/** A run of this day takes two to three seconds at this rate; kills fall anywhere in it, start and end included. */
const RATE = '100';
const MAX_KILL_MS = 3_000;
/** Rows of a page: small, so that there are many windows to be killed between. */
const PAGE_ROWS = 25;
/** Requests that a run has in flight at most, which it has when answers take a second: on a loaded machine they do. */
const MAX_IN_FLIGHT = 12;

const seed = chooseSeed(620_173);
const { folder, keep } = useCleanups();

// Skipped only where the real day is not at hand, which `support/flowdrop.ts` says aloud.
describe.skipIf(!hasRealDay)('a run that is killed', () => {
  it(`at ${KILLS} random points seals the same rows and fetches no staged window twice (seed ${seed})`, async () => {
    const random = createRandom(seed);
    const day = ['--data', REAL_DAY_FILE, '--as-of', '2016-06-01T21:00:00Z'];
    const service = await keep(startService([...day, '--row-limit', String(PAGE_ROWS)]));
    const cwd = await folder();
    const env = { ...service.env, FLOWDROP_REQUESTS_PER_SECOND: RATE };
    let kills = 0;
    let runs = 0;
    while (kills < KILLS) {
      // A day that sealed before its kill makes room for the next, in a dataset of its own.
      const job = await writeJob(cwd, { name: `day-${runs}`, to: `drops-${runs}`, reports: '' });
      const before = service.requests.length;
      const killed = await runUntilSealed({ cwd, env, job, random, killsLeft: KILLS - kills });
      await expectWhole(join(cwd, `drops-${runs}`));
      const manifest = await readManifest(join(cwd, `drops-${runs}`), REAL_DAY);
      expectNoStagedWindowAskedAgain(service, before, manifest, { kills: killed, isLearning: runs === 0 });
      kills += killed;
      runs += 1;
    }
    expect(kills).toBeGreaterThanOrEqual(KILLS);
    console.log(`killed ${kills} times over ${runs} sealed days (seed ${seed})`);
  }, 1_200_000);
});

interface KillPlan {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly job: string;
  readonly random: () => number;
  readonly killsLeft: number;
}

/** @returns the number of kills that hit a running process */
async function runUntilSealed(plan: KillPlan): Promise<number> {
  let kills = 0;
  for (let attempt = 0; ; attempt += 1) {
    expect(attempt, 'runs without coming to an end').toBeLessThan(100);
    const delayMs = kills < plan.killsLeft ? 200 + plan.random() * MAX_KILL_MS : undefined;
    const run = await flowdrop(['run', plan.job], {
      cwd: plan.cwd,
      env: plan.env,
      onStart: (child) => {
        if (delayMs !== undefined) void sleep(delayMs, undefined, { ref: false }).then(() => child.kill('SIGKILL'));
      },
    });
    if (run.code === 0) return kills;
    expect(run.code, run.stderr).toBeNull();
    kills += 1;
  }
}

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

/**
 * Every page that the service answered is either a window of the manifest or was lost between answer and stage by a
 * kill: at most those in flight then. On the first day the row limit is not known yet: until it has been learnt and saved,
 * each run may have as many answers again that are truncated. Were staged windows asked for again, it would be half a day
 * for each kill.
 */
function expectNoStagedWindowAskedAgain(
  service: TestService,
  before: number,
  manifest: Manifest,
  { kills, isLearning }: { readonly kills: number; readonly isLearning: boolean },
): void {
  const pages = service.requests
    .slice(before)
    .filter(({ sql, status }) => status === 200 && sql?.startsWith('SELECT id, symbol,'));
  expect(pages.length).toBeGreaterThanOrEqual(manifest.windows.length);
  const truncated = isLearning ? (kills + 1) * MAX_IN_FLIGHT : 0;
  expect(pages.length).toBeLessThanOrEqual(manifest.windows.length + kills * MAX_IN_FLIGHT + truncated);
  expect(manifest.windows.length).toBeGreaterThanOrEqual(Math.ceil(2295 / PAGE_ROWS));
}
