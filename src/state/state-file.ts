/**
 * One small JSON document of the state folder. Invariant: readers see it whole or not at all; one that was cut short,
 * damaged or written by another version counts as none, because what is in it can be learnt or done again.
 */
import { rm } from 'node:fs/promises';
import type { z } from 'zod';
import { writeFileAtomic } from '../core/atomic-file.ts';
import { readJsonFile } from '../core/json-file.ts';

export class StateFile<T> {
  readonly path: string;
  readonly #schema: z.ZodType<T>;

  constructor(path: string, schema: z.ZodType<T>) {
    this.path = path;
    this.#schema = schema;
  }

  /** `undefined` when there is none that can be used. @throws what the system says of a file that cannot be read */
  async read(): Promise<T | undefined> {
    return await readJsonFile(this.path, this.#schema);
  }

  /** @throws what the system says of a disk that cannot be written */
  async write(value: T): Promise<void> {
    await writeFileAtomic(this.path, `${JSON.stringify(value, undefined, 2)}\n`);
  }

  /** Writes what `change` makes of the document, when it makes another one. @param empty where there is none */
  async change(empty: T, change: (before: T) => T): Promise<void> {
    const before = (await this.read()) ?? empty;
    const after = change(before);
    if (JSON.stringify(before) !== JSON.stringify(after)) await this.write(after);
  }

  async remove(): Promise<void> {
    await rm(this.path, { force: true });
  }
}
