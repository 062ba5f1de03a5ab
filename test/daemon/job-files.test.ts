/** The jobs of a real folder as the daemon knows them, where a reading or a name gets in the way. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Fault } from '../../src/core/errors.ts';
import { createDaemon } from '../../src/daemon/daemon.ts';
import { createFilesReader } from '../../src/daemon/job-files.ts';
import { readJob } from '../../src/job/job-folder.ts';
import { useCleanups } from '../support/cleanups.ts';
import { writeJob } from '../support/jobs.ts';
import { createKeptLog, createSilentLog } from '../support/log.ts';
import { createOutside } from './loop.ts';

const SCHEDULE = 'schedule:\n  cron: "0 12 * * *"';
const { cleanups, folder: makeFolder } = useCleanups(afterEach);
let folder: string;
beforeEach(async () => {
  folder = await makeFolder();
});

const open = (changes: Partial<Parameters<typeof createFilesReader>[0]> = {}) =>
  createFilesReader({
    ...{ folder, keptDir: join(folder, 'kept'), assertUsable: () => undefined, checkSql: async () => undefined },
    log: createSilentLog(),
    ...changes,
  });

/** The text of another job in a file of its own. */
const textOf = (name: string) =>
  `name: ${name}\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: t\n${SCHEDULE}\n`;

async function start(lastRunAt: () => Promise<number> = async () => systemClock.now()) {
  const outside = createOutside();
  const daemon = createDaemon({
    ...outside,
    readFiles: open(),
    historyOf: (job) => ({ ...outside.historyOf(job), lastRunAt }),
  });
  const ended = new AbortController();
  const running = daemon.run(ended.signal);
  cleanups.push(async () => {
    ended.abort();
    await running;
  });
  await vi.waitUntil(() => daemon.view().jobs.length > 0);
  return daemon;
}

it('a file that is not usable never bears the name of a job that is', async () => {
  await writeFile(await writeJob(folder, { name: 'nightly', schedule: SCHEDULE }), 'name: [');
  const other = await writeJob(folder, { name: 'other', schedule: SCHEDULE });
  await writeFile(other, textOf('nightly'));
  const daemon = await start();
  expect(daemon.view().jobs.map(({ name, fault }) => [name, fault !== null])).toEqual([
    ['nightly', false],
    ['nightly.yaml', true],
  ]);
});

it('a reading that fails half-way leaves no job without its schedule', async () => {
  await writeJob(folder, { name: 'first', schedule: SCHEDULE });
  let failures = 0;
  let isBroken = false;
  const daemon = await start(async () => {
    if (!isBroken) return systemClock.now();
    failures += 1;
    throw new Error('too many open files');
  });
  isBroken = true;
  await writeFile(join(folder, 'second.yaml'), textOf('second').replace('dataset: t', 'dataset: s'));
  void daemon.reload();
  await vi.waitUntil(() => failures > 0);
  expect(daemon.view().jobs.map(({ name }) => name)).toEqual(['first']);
  isBroken = false;
  void daemon.reload();
  await vi.waitUntil(() => daemon.view().jobs.length === 2);
  expect(Date.parse(daemon.view().jobs[1]?.next_run ?? '')).toBeGreaterThan(systemClock.now());
});

it('a text whose own SQL is refused does not take the place of the one before, also after a restart', async () => {
  const sql = (condition: string) =>
    `  sql: SELECT id FROM RawOptionTrades WHERE ${condition}\n  types: { symbol: string }`;
  const checked: string[] = [];
  const checkSql: Parameters<typeof createFilesReader>[0]['checkSql'] = async ({ source }, path) => {
    checked.push(path);
    if ('sql' in source && source.sql.includes('NOT'))
      throw new Fault('JOB_INVALID', 'NOT is refused', { kind: 'usage' });
  };
  const file = await writeJob(folder, { name: 'own', schedule: SCHEDULE, source: sql('{window}') });
  const read = open({ checkSql });
  await read();
  await read();
  expect(checked).toEqual([file]);
  await writeJob(folder, { name: 'own', schedule: SCHEDULE, source: sql('NOT {window}') });
  const kept = { path: join(folder, 'kept', 'own.yaml'), fault: 'NOT is refused' };
  expect((await read()).jobs).toMatchObject([kept]);
  // The child that checks it takes a second: not at each reading.
  expect((await read()).jobs).toMatchObject([kept]);
  expect(checked).toEqual([file, file]);
  expect((await open({ checkSql })()).jobs).toMatchObject([kept]);
});

it('a copy that cannot be kept is told once, and again where it could be meanwhile', async () => {
  await writeJob(folder, { name: 'own', schedule: SCHEDULE });
  const { log: kept, records } = createKeptLog();
  const keptDir = join(folder, 'kept');
  const read = open({ log: kept });
  for (const times of [1, 2]) {
    await writeFile(keptDir, 'no folder');
    for (const _ of [1, 2]) await read();
    expect(records.map(({ event }) => event)).toEqual(Array.from({ length: times }, () => 'keep-failed'));
    await rm(keptDir);
    for (const _ of [1, 2]) await read();
    await rm(keptDir, { recursive: true });
  }
});

it('the kept copy of a job names its logo and templates beside the job file, not beside the copy', async () => {
  const file = join(folder, 'nightly.yaml');
  const report = 'reports: [{template: flow, to: [a@example.com], logo: brand/logo.svg, templates: brand}]';
  await writeFile(file, `name: nightly\nsource: {api: historical}\ndrop: {to: drops, dataset: t}\n${report}\n`);
  const read = open();
  await read();
  await writeFile(file, 'name: [');
  // Twice: what is no copy is removed by each reading.
  for (const _ of [1, 2]) {
    const [job] = (await read()).jobs;
    expect(job?.path).toBe(join(folder, 'kept', 'nightly.yaml'));
    const { look } = (await readJob(job?.path ?? '', folder)).reports[0] ?? {};
    expect(look).toMatchObject({ logo: join(folder, 'brand/logo.svg'), templates: join(folder, 'brand') });
  }
});
