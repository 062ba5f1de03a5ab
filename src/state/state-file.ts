/** The state folder, the folders of single commands in it, and its small JSON documents. */
import { constants } from 'node:fs';
import { access, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { z } from 'zod';
import { makeFolder, readJsonFile, writeWholeFile } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';

/**
 * One small JSON document of the state folder. Invariant: readers see a complete document or none. A truncated or damaged
 * document, or one of another version, counts as absent, because its content can be rebuilt.
 */
export class StateFile<T> {
  readonly path: string;
  readonly #schema: z.ZodType<T>;

  constructor(path: string, schema: z.ZodType<T>) {
    this.path = path;
    this.#schema = schema;
  }

  /** `undefined` when the file is absent or invalid. @throws the system error when the file cannot be read */
  async read(): Promise<T | undefined> {
    return await readJsonFile(this.path, this.#schema);
  }

  /** @throws the system error when the disk cannot be written */
  async write(value: T): Promise<void> {
    await writeWholeFile(this.path, `${JSON.stringify(value, undefined, 2)}\n`);
  }

  /** Writes the result of `change`, if it differs. @param empty the document if the file is absent */
  async change(empty: T, change: (before: T) => T): Promise<void> {
    const before = (await this.read()) ?? empty;
    const after = change(before);
    if (JSON.stringify(before) !== JSON.stringify(after)) await this.write(after);
  }

  async remove(): Promise<void> {
    await rm(this.path, { force: true });
  }
}

/**
 * Checks that the state folder is usable, before anything is opened: otherwise the first of many files would fail with an
 * unclear error. Creates it if it is absent. It does not check free disk space, which can run out at any time; that error
 * is reported where it happens. Idempotent. @throws Fault `STATE_UNUSABLE`
 */
export async function assertStateFolder(path: string): Promise<void> {
  try {
    await makeFolder(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new Fault('STATE_UNUSABLE', `cannot create or write the state folder ${path}: ${describeError(cause)}`, {
      cause,
      hint: 'Set FLOWDROP_STATE_DIR to a folder on a local disk that this user can write or create. A file or a broken link must not have that name.',
    });
  }
}

/** An older folder belongs to a killed command: a folder in use gains and loses files all the time. */
const STALE_AFTER_MS = 24 * 3_600_000;
const SCRATCH = 'verify-';

/** A folder for the files of one command; the caller removes it. Also removes old folders of killed commands. */
export async function makeScratchFolder(stateDir: string, nowMs: number): Promise<string> {
  for (const name of (await readdir(stateDir)).filter((one) => one.startsWith(SCRATCH))) {
    const path = join(stateDir, name);
    const found = await stat(path).catch(() => undefined);
    // Ignorable: another command may remove it at the same moment, or else the next command does.
    if (found && nowMs - found.mtimeMs > STALE_AFTER_MS) await rm(path, { recursive: true, force: true });
  }
  return await mkdtemp(join(stateDir, SCRATCH));
}
