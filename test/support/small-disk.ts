/**
 * A small disk of its own under a folder, to be filled up or made read-only: a `tmpfs`, which needs the right to mount.
 * Where that is missing there is no small disk, and `findMountObstacle` says why. A limit on the size of files, which
 * works everywhere, is `limitFileSize`. Invariant: whatever was mounted is unmounted by `remove`.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, open, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const FILLER = '.filler';

export interface SmallDisk {
  /** Leaves so many bytes free. @returns whether the disk was filled */
  fill(leaveBytes: number): Promise<boolean>;
  /** @returns whether the system did it: it refuses while a file is open for writing */
  makeReadOnly(): Promise<boolean>;
  /** Writable again, and with room. */
  heal(): Promise<void>;
  remove(): Promise<void>;
}

let obstacle: Promise<string | undefined> | undefined;

/** Why small disks cannot be had here, if so; asked of the system once, by mounting one. */
export function findMountObstacle(): Promise<string | undefined> {
  obstacle ??= (async () => {
    if (process.platform !== 'linux') return 'tmpfs is of Linux';
    const folder = await mkdtemp(join(tmpdir(), 'flowdrop-mount-'));
    try {
      await (await mountSmallDisk(folder, 1 << 20)).remove();
      return undefined;
    } catch (error) {
      return `tmpfs cannot be mounted: ${String((error as { stderr?: unknown }).stderr ?? error).trim()}`;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  })();
  return obstacle;
}

/** @throws when the system does not let us mount */
export async function mountSmallDisk(folder: string, sizeBytes: number): Promise<SmallDisk> {
  await mkdir(folder, { recursive: true });
  await run('mount', ['-t', 'tmpfs', '-o', `size=${sizeBytes}`, 'tmpfs', folder]);
  const remount = (mode: 'ro' | 'rw') => run('mount', ['-o', `remount,${mode}`, folder]);
  const filler = join(folder, FILLER);
  return {
    async fill(leaveBytes) {
      const { bavail, bsize } = await statfs(folder);
      const bytes = bavail * bsize - leaveBytes;
      if (bytes <= 0) return false;
      const file = await open(filler, 'w');
      try {
        for (let left = bytes; left > 0; left -= 1 << 20) await file.write(Buffer.alloc(Math.min(left, 1 << 20)));
        return true;
      } catch {
        // Somebody else took the room first: the disk is full, which was asked for.
        return true;
      } finally {
        await file.close();
      }
    },
    async makeReadOnly() {
      return await remount('ro').then(
        () => true,
        () => false,
      );
    },
    async heal() {
      await remount('rw');
      await rm(filler, { force: true });
    },
    async remove() {
      await run('umount', ['-l', folder]);
    },
  };
}

/** No file of this process may grow beyond so many bytes; writes fail with EFBIG, since Node ignores the signal. */
export async function limitFileSize(pid: number, bytes: number): Promise<void> {
  await run('prlimit', ['--pid', String(pid), `--fsize=${bytes}`]);
}
