/** The jobs of a real folder as the daemon knows them, where a reading or a name gets in the way. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createJobBoard } from '../../src/daemon/job-board.ts';
import { createJobFiles } from '../../src/daemon/job-files.ts';
import { createTimetable } from '../../src/daemon/timetable.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createSilentLog } from '../support/log.ts';

const SCHEDULE = 'schedule:\n  cron: "0 12 * * *"';
const clock = systemClock;
const log = createSilentLog();

let folder: string;
let remove: () => Promise<void>;
const timetables: { stop(): void }[] = [];
beforeEach(async () => {
  ({ path: folder, remove } = await makeFolder());
});
afterEach(async () => {
  for (const timetable of timetables.splice(0)) timetable.stop();
  await remove();
});

function createBoard(lastRunAt: (job: string) => Promise<number | undefined> = async () => clock.now()) {
  const timetable = createTimetable({
    ...{ clock, log, coordinator: undefined, isPreferred: () => true },
    onTick: () => undefined,
    onLeft: () => undefined,
  });
  timetables.push(timetable);
  const files = createJobFiles({ folder, keptDir: join(folder, 'kept'), assertUsable: () => undefined, log });
  const board = createJobBoard({
    ...{ clock, log, timetable, files, onRemoved: () => undefined },
    lastRunAt: ({ name }) => lastRunAt(name),
  });
  return { board, timetable };
}

it('a file that is not usable never bears the name of a job that is', async () => {
  await writeFile(await writeJob(folder, { name: 'nightly', schedule: SCHEDULE }), 'name: [');
  const other = await writeJob(folder, { name: 'other', schedule: SCHEDULE });
  await writeFile(other, `name: nightly\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: t\n${SCHEDULE}\n`);
  const { board } = createBoard();
  await board.load();
  expect([...board.records.keys()]).toEqual(['nightly']);
  expect(board.unusable().map(({ name }) => name)).toEqual(['nightly.yaml']);
});

it('a reading that fails half-way leaves no job without its schedule', async () => {
  await writeJob(folder, { name: 'first', schedule: SCHEDULE });
  let isBroken = false;
  const { board, timetable } = createBoard(async () => {
    if (isBroken) throw new Error('too many open files');
    return clock.now();
  });
  await board.load();
  const second = await writeJob(folder, { name: 'second', schedule: SCHEDULE });
  await writeFile(second, `name: second\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: s\n${SCHEDULE}\n`);
  isBroken = true;
  await board.reload();
  isBroken = false;
  await board.reload();
  expect(timetable.next('second')).toBeGreaterThan(clock.now());
});
