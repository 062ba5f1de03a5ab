/**
 * `npm run soak [-- --hours N] [--minutes N]`: a day of the daemon under a moved clock. Four jobs are due every 15 minutes;
 * each run is a process that ends at once, for want of a key. Around each tick the status page and the metrics are read.
 * Each hour its memory is taken as the system counts it, and its heap after a collection (without compiled functions, see
 * `heap-preload.mjs`). It fails when the first is above what an idle daemon may take, or the second grows.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseWallClock } from '../../src/calendar/wall-clock.ts';
import { startDaemon } from '../support/daemon.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { readResidentMb } from '../support/processes.ts';

const JOBS = ['first', 'second', 'third', 'fourth'];
/** Before a tick, so that the daemon's own timer for it runs out. */
const LEAD_MS = 1_500;
/** What the idle daemon may take, megabytes. */
const MOST_MB = 120;
/**
 * What the heap may grow by in an hour of 16 runs, megabytes: a kilobyte a run. The first half of a day is left out: it fills
 * what is bounded, as the 50 runs of a job that are kept for the page.
 */
const MOST_GROWTH_MB = 0.016;

const { values } = parseArgs({
  options: { hours: { type: 'string', default: '24' }, minutes: { type: 'string', default: '15' } },
});
const [hours, minutes] = [Number(values.hours), Number(values.minutes)];
if (!(hours > 1) || !(minutes >= 1) || 60 % minutes !== 0) throw new Error('--hours is above 1, --minutes divides 60');

const begun = performance.now();
const folder = await makeFolder();
// A Tuesday with a session.
const startMs = parseWallClock('2027-11-09', 0);
const clock = await createMovedClock(folder.path, startMs - LEAD_MS);
for (const name of JOBS) {
  const schedule = `schedule:\n  cron: "*/${minutes} * * * *"\n  retry: off`;
  await writeJob(folder.path, { name, to: name, reports: '', schedule });
}
const heapFile = join(folder.path, 'heap');
const env = {
  NODE_OPTIONS: `${clock.env['NODE_OPTIONS']} --import=${new URL('../support/heap-preload.mjs', import.meta.url).href}`,
  HEAP_FILE: heapFile,
  FLOWDROP_API_URL: 'http://127.0.0.1:9',
  FLOWDROP_MAX_RUNS: '4',
};
const daemon = await startDaemon(folder.path, { ...clock.env, ...env });
try {
  // The tick that it missed, then each one.
  await daemon.until(JOBS.length, 'finished');
  const samples: number[] = [];
  const heaps: number[] = [];
  const perHour = 60 / minutes;
  for (let tick = 1; tick <= hours * perHour; tick += 1) {
    await daemon.untilIdle();
    const ended = daemon.of('finished').length;
    await clock.moveTo(startMs + tick * minutes * 60_000 - LEAD_MS, daemon.pid);
    await daemon.until(ended + JOBS.length, 'finished');
    for (const path of ['/', '/metrics', '/healthz']) await (await fetch(`${daemon.url}${path}`)).arrayBuffer();
    if (tick % perHour !== 0) continue;
    await daemon.untilIdle();
    samples.push(await readResidentMb(daemon.pid));
    process.kill(daemon.pid, 'SIGUSR2');
    await daemon.untilIdle();
    heaps.push(Number(await readFile(heapFile, 'utf8')) / 2 ** 20);
    console.log(
      `hour ${tick / perHour}: ${samples.at(-1)?.toFixed(1)} MB, heap ${heaps.at(-1)?.toFixed(2)} MB, ${daemon.of('finished').length} runs`,
    );
  }
  const growth = fitSlope(heaps.slice(heaps.length / 2));
  const most = Math.max(...samples);
  const outcomes = new Set(daemon.of('finished').map(({ outcome }) => String(outcome)));
  console.log(
    `${hours} hours, ${daemon.of('finished').length} runs (${[...outcomes].join(', ')}), ` +
      `${daemon.of('clock-jump').length} jumps, ${Math.round((performance.now() - begun) / 1000)} s`,
  );
  console.log(
    `resident: first ${samples[0]?.toFixed(1)}, last ${samples.at(-1)?.toFixed(1)}, most ${most.toFixed(1)} MB; ` +
      `heap: first ${heaps[0]?.toFixed(2)}, last ${heaps.at(-1)?.toFixed(2)}, growth ${growth.toFixed(4)} MB an hour`,
  );
  process.exitCode = most <= MOST_MB && growth <= MOST_GROWTH_MB ? 0 : 1;
} finally {
  await daemon.stop();
  await folder.remove();
}

/** Slope of the straight line with the least squares, per step. */
function fitSlope(ys: readonly number[]): number {
  const middle = (ys.length - 1) / 2;
  const mean = ys.reduce((sum, y) => sum + y, 0) / ys.length;
  const [rise, run] = ys.reduce(([a, b], y, x) => [a + (x - middle) * (y - mean), b + (x - middle) ** 2] as const, [
    0, 0,
  ] as readonly [number, number]);
  return rise / run;
}
