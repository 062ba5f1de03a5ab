/** What a run writes of itself for others, and when it is believed. A run that writes it is tested in `test/flow`. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readProgress, writeProgress } from '../../src/state/progress.ts';
import { type RunProgress, runProgressSchema } from '../../src/state/run-progress.ts';
import { RunTotals } from '../../src/state/totals.ts';
import { createVirtualClock, FAKE_START } from '../support/fake-clock.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';

let folder: string;
let remove: () => Promise<void>;
beforeAll(async () => {
  ({ path: folder, remove } = await makeFolder());
});
afterAll(async () => await remove());

const STATS = { requests: 9, retries: 1, rateLimited: 2, bytes: 100, answerMs: 5 };

const write = (path: string, clock = createVirtualClock(), totals = new RunTotals(clock)) =>
  writeProgress({ path, runId: 'run-1', clock, log: createSilentLog(), totals, stats: STATS });

describe('the progress of a run', () => {
  it('is written once a second, in the shape that the daemon reads, and taken away at the end', async () => {
    const path = join(folder, 'written.json');
    const clock = createVirtualClock();
    const totals = new RunTotals(clock);
    const file = write(path, clock, totals);
    const readAt = async (ms: number) => {
      // The writer sleeps one second after each writing: time goes on only while it does.
      await clock.run(clock.sleep(ms));
      await expect
        .poll(async () => (await readProgress(path, clock.now()))?.updated_at)
        .toBe(new Date(clock.now()).toISOString());
      return await readProgress(path, clock.now());
    };
    await expect.poll(() => existsSync(path)).toBe(true);
    totals.note({ kind: 'planned', dates: ['2026-11-18'], rows: 1000, pages: 2 });
    totals.note({ kind: 'date', date: '2026-11-18', rows: 1000, staged: 500, pages: 2 });
    const progress = await readAt(1000);
    expect(runProgressSchema.parse(progress)).toEqual(progress);
    expect(progress).toMatchObject({
      run_id: 'run-1',
      pid: process.pid,
      started_at: new Date(FAKE_START).toISOString(),
    });
    expect(progress).toMatchObject({ phase: 'fetching', rows: 500, total_rows: 1000, requests: 9, rate_limited: 2 });
    await file.stop();
    expect(existsSync(path)).toBe(false);
    await file.stop();
  });

  it('keeps no run from going on where it cannot be written', async () => {
    const file = write(join(folder, 'no-such-folder', 'progress.json'), undefined);
    await file.stop();
    await mkdir(join(folder, 'taken.json', 'inside'), { recursive: true });
    const other = write(join(folder, 'taken.json'));
    await other.stop();
    expect(existsSync(join(folder, 'taken.json', 'inside'))).toBe(true);
  });

  it('is nothing when there is none, when it is garbage, of old, or of a process that is gone', async () => {
    const path = join(folder, 'read.json');
    expect(await readProgress(path, FAKE_START)).toBeUndefined();
    const file = write(path);
    await expect.poll(() => existsSync(path)).toBe(true);
    const whole = JSON.parse(await readFile(path, 'utf8')) as RunProgress;
    await file.stop();
    const read = async (text: string, nowMs = FAKE_START) => {
      await writeFile(path, text);
      return await readProgress(path, nowMs);
    };
    const text = JSON.stringify(whole);
    expect(await read(text)).toEqual(whole);
    expect(await read(text, FAKE_START + 120_000)).toEqual(whole);
    expect(await read(text, FAKE_START + 121_000)).toBeUndefined();
    expect(await read(text.slice(0, -5))).toBeUndefined();
    expect(await read('{}')).toBeUndefined();
    expect(await read(JSON.stringify({ ...whole, updated_at: 'yesterday' }))).toBeUndefined();
    // Above the largest number that Linux gives to a process.
    for (const pid of [0, -1, 1.5, 4_194_305]) expect(await read(JSON.stringify({ ...whole, pid }))).toBeUndefined();
  });
});
