/**
 * The temporary folder of one service: its data, unless a data folder is named, and its engines' files. Invariant: the
 * service removes it at the end; the next service removes what a killed one left behind.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pid } from 'node:process';
import { isProcessAlive } from '../core/liveness.ts';

const PREFIX = 'flowdrop-service-';
const OWNED = new RegExp(`^${PREFIX}(\\d+)-`);

export async function makeServiceFolder(): Promise<string> {
  await removeLeft();
  return await mkdtemp(join(tmpdir(), `${PREFIX}${pid}-`));
}

export async function removeServiceFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}

async function removeLeft(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const owner = Number(OWNED.exec(name)?.[1]);
    if (!Number.isInteger(owner) || isProcessAlive(owner)) continue;
    // Another user's folder: it stays, because it is not ours to remove.
    await removeServiceFolder(join(tmpdir(), name)).catch(() => {});
  }
}
