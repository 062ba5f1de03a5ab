/** Operators who cannot be told at once: real children that fail until what they need is there, and files on a disk. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { type Chores, createChores } from '../../src/daemon/chores.ts';
import { createRecord } from '../../src/daemon/job-record.ts';
import { createTelling, type Telling } from '../../src/daemon/telling.ts';
import { createUntold } from '../../src/daemon/unfinished.ts';
import { parseJob } from '../../src/job/parse.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { createSilentLog } from '../support/log.ts';
import { jobText } from './loop.ts';

/** As `flowdrop alert` does it: it fails while the server is away, and writes down what it told. */
const TELLS = `
const { existsSync, appendFileSync } = require('node:fs');
if (!existsSync('server')) { console.error('the mail server is away'); process.exit(1); }
appendFileSync('told', process.argv.slice(-2).join(' ') + '\\n');
`;
const MINUTE = 60_000;
const log = createSilentLog();

let folder: string;
let remove: () => Promise<void>;
let chores: Chores | undefined;
let nowMs = 0;
let executable = process.execPath;
beforeEach(async () => {
  ({ path: folder, remove } = await makeFolder());
  nowMs = Date.parse('2026-11-20T22:30:00Z');
  executable = process.execPath;
});
afterEach(async () => {
  chores?.stop();
  await chores?.untilIdle();
  await remove();
});

function create() {
  const tries: Promise<void>[] = [];
  const real = createChores(
    (args) => ({
      ...{ executable, cwd: folder, env: { PATH: process.env['PATH'] } },
      args: ['-e', TELLS, '--', ...args],
    }),
    systemClock,
  );
  chores = real;
  const record = createRecord({
    job: parseJob('a.yaml', jobText('a', 'cron: "0 12 * * *"')),
    path: 'a',
    fault: undefined,
  });
  const telling = createTelling({
    ...{ clock: { ...systemClock, now: () => nowMs }, log },
    chores: {
      async sendAlert(file, args) {
        const sent = real.sendAlert(file, args);
        tries.push(sent.catch(() => undefined));
        await sent;
      },
    },
    untold: createUntold((job) => join(folder, `${job}.json`), log),
    hasAlerts: () => true,
    recordOf: () => record,
    isStopping: () => false,
  });
  return { telling, tries };
}

const settle = async (tries: readonly Promise<void>[], count: number) => {
  await vi.waitFor(() => expect(tries).toHaveLength(count), { timeout: 30_000 });
  await Promise.all(tries);
  await new Promise((resolve) => setImmediate(resolve));
};
const beat = (telling: Telling, ms: number) => {
  nowMs += ms;
  telling.retry();
};
const readTold = async () => await readFile(join(folder, 'told'), 'utf8').catch(() => '');

it('a death that nobody could be told of is tried again, ever more seldom, and told once', async () => {
  const { telling, tries } = create();
  telling.owe('a', 'died', 'was ended by SIGKILL');
  await settle(tries, 1);
  for (const [count, minutes] of [
    [2, 1],
    [3, 2],
    [4, 4],
  ] as const) {
    beat(telling, minutes * MINUTE - 1);
    expect(tries).toHaveLength(count - 1);
    beat(telling, 1);
    await settle(tries, count);
  }
  await writeFile(join(folder, 'server'), '');
  // A clock that was set back does not put it off.
  beat(telling, -365 * 24 * 60 * MINUTE);
  await settle(tries, 5);
  await vi.waitFor(async () => expect(await readdir(folder)).not.toContain('a.json'));
  beat(telling, 24 * 60 * MINUTE);
  expect(tries).toHaveLength(5);
  expect(await readTold()).toBe('--died was ended by SIGKILL\n');
});

it('a child that cannot be started is no message told', async () => {
  const { telling, tries } = create();
  executable = join(folder, 'nothing');
  telling.owe('a', 'broken', 'line 3');
  await settle(tries, 1);
  executable = process.execPath;
  await writeFile(join(folder, 'server'), '');
  telling.owe('a', 'broken', 'line 4');
  expect(tries).toHaveLength(1);
  beat(telling, MINUTE);
  await settle(tries, 2);
  // It is still broken, in whatever way.
  telling.owe('a', 'broken', 'line 5');
  beat(telling, 24 * 60 * MINUTE);
  expect(tries).toHaveLength(2);
  expect(await readTold()).toBe('--broken line 4\n');
  telling.drop('a', 'broken');
  telling.owe('a', 'broken', 'line 6');
  await settle(tries, 3);
});

it('a death that is over before it got through is told by nobody', async () => {
  const { telling, tries } = create();
  telling.owe('a', 'died', 'was ended by SIGKILL');
  await settle(tries, 1);
  telling.drop('a', 'died');
  await writeFile(join(folder, 'server'), '');
  beat(telling, 24 * 60 * MINUTE);
  expect(tries).toHaveLength(1);
  await vi.waitFor(async () => expect(await readdir(folder)).toEqual(['server']));
});

it('a death that nobody was told of is told by the next daemon', async () => {
  const first = create();
  first.telling.owe('a', 'died', 'was ended by SIGKILL');
  await settle(first.tries, 1);
  await vi.waitFor(async () => expect(await readdir(folder)).toContain('a.json'));
  await writeFile(join(folder, 'server'), '');
  const second = create();
  await second.telling.recall('a');
  await settle(second.tries, 1);
  expect(await readTold()).toBe('--died was ended by SIGKILL\n');
  await vi.waitFor(async () => expect(await readdir(folder)).not.toContain('a.json'));
  const third = create();
  await third.telling.recall('a');
  expect(third.tries).toHaveLength(0);
});
