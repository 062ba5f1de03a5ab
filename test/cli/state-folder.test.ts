/**
 * A state folder that cannot be used, as the commands that need one tell it: names under which the system makes nothing, a
 * file or a link in the way, a disk that is read-only. How folders are made is in `test/core/folder.test.ts`.
 */
import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, REPO, workerEnvironment } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { findMountObstacle, mountSmallDisk } from '../support/small-disk.ts';

/** A command that does not end is ended, so that it is told as a failure and leaves nothing running. */
const PATIENCE_MS = 40_000;

const mountObstacle = await findMountObstacle();
if (mountObstacle) console.warn(`SKIPPED: no read-only disk (${mountObstacle})`);

let cwd: string;
let job: string;
const { cleanups, folder } = useCleanups();

beforeAll(async () => {
  cwd = await folder();
  await mkdir(join(cwd, 'jobs'));
  job = await writeJob(join(cwd, 'jobs'), { schedule: 'schedule:\n  cron: "0 3 * * *"\n  timezone: UTC' });
  await copyFile(join(REPO, 'jobs', 'symbol-minute-flow.yaml'), join(cwd, 'jobs', 'symbol-minute-flow.yaml'));
  await writeFile(join(cwd, 'file'), '');
  await symlink(join(cwd, 'nowhere'), join(cwd, 'link'));
  if (mountObstacle) return;
  const disk = await mountSmallDisk(join(cwd, 'disk'), 1 << 20);
  cleanups.push(() => disk.remove());
  await disk.makeReadOnly();
});

async function use(stateDir: string, args: readonly string[]) {
  const env = {
    ...workerEnvironment('http://127.0.0.1:1', 'http://127.0.0.1:1'),
    FLOWDROP_STATE_DIR: stateDir,
    FLOWDROP_STATUS_ADDRESS: 'off',
  };
  return await flowdrop(args, {
    cwd,
    env,
    onStart: (child) => void setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS).unref(),
  });
}

/** The second job has its own SQL, which an engine in the state folder checks. */
const COMMANDS = [
  ['run', 'nightly'],
  ['run', 'symbol-minute-flow'],
  ['backfill', 'nightly'],
  ['report', 'nightly'],
  ['verify', 'nightly'],
  ['start'],
];

it.runIf(process.platform === 'linux')(
  'a state folder below /proc ends every command that needs one at once',
  async () => {
    await mkdir(join(cwd, 'drops'), { recursive: true });
    for (const args of COMMANDS) {
      const { code, stderr } = await use('/proc/flowdrop/state', args);
      expect(stderr, args.join(' ')).toContain(
        'STATE_UNUSABLE: cannot create or write the state folder /proc/flowdrop/state: ENOENT: ',
      );
      expect(stderr).toContain('-> Set FLOWDROP_STATE_DIR to a folder on a local disk');
      expect(code).toBe(1);
    }
  },
  COMMANDS.length * PATIENCE_MS,
);

it.each([
  ['/sys/flowdrop', /EPERM|EACCES|EROFS/],
  ['file', /EEXIST/],
  ['file/state', /ENOTDIR/],
  ['link', /EEXIST/],
  ['link/state', /EEXIST/],
])(
  'a state folder %s that cannot be made is told before the API is asked',
  async (path, code) => {
    const { code: exitCode, stderr } = await use(path, ['--json', 'run', job]);
    expect(stderr).toContain('STATE_UNUSABLE');
    expect(stderr).toMatch(code);
    expect(exitCode).toBe(1);
    expect((await listFiles(cwd)).filter((name) => name.startsWith('nowhere'))).toEqual([]);
  },
  PATIENCE_MS,
);

// Skipped where nothing can be mounted.
it.skipIf(mountObstacle !== undefined)(
  'a state folder on a read-only disk is told, whether it is there or not',
  async () => {
    for (const path of ['disk', 'disk/state']) {
      const { code, stderr } = await use(path, ['run', job]);
      expect(stderr).toMatch(/STATE_UNUSABLE: .*EROFS/);
      expect(code).toBe(1);
    }
  },
  2 * PATIENCE_MS,
);
