/**
 * One small JSON document of the state folder. Invariant: readers see a complete document or none. A truncated or
 * damaged document, or one of another version, counts as absent, because its content can be rebuilt.
 */
import { rm } from 'node:fs/promises';
import type { z } from 'zod';
import { writeWholeFile } from '../core/atomic-file.ts';
import { readJsonFile } from '../core/json-file.ts';

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
