/**
 * The file of a date, written while the source counts the date once more: most recounts agree, and writing takes longer than
 * any other step of a seal. Invariant: `write` returns only a file of the rows as they are staged now. Whoever changes them
 * calls `stop` before, and a recount that does not agree costs nothing but the work.
 */
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { makeFolder } from '../../core/atomic-file.ts';
import type { Job } from '../../job/job.ts';
import type { DropColumn } from '../../seal/drop-columns.ts';
import type { DropChecksum } from '../../seal/write-parquet.ts';
import type { DraftFile } from '../draft-file.ts';
import { listStagedColumns, type SealedRows } from '../seal-date.ts';

interface WrittenFile {
  readonly columns: readonly DropColumn[];
  readonly checksum: DropChecksum;
}

export class EarlyFile {
  readonly #job: Job;
  readonly #stage: SealedRows;
  readonly #draft: DraftFile;
  #control = new AbortController();
  #written: Promise<WrittenFile | undefined> | undefined;

  /** @param draft writes what is staged */
  constructor(job: Job, stage: SealedRows, draft: DraftFile) {
    this.#job = job;
    this.#stage = stage;
    this.#draft = draft;
  }

  /** All rows are staged. Never throws: a file that cannot be written now is written when the date is sealed. */
  start(): void {
    if (this.#written !== undefined) return;
    this.#control = new AbortController();
    this.#written = this.#writeFile(this.#control.signal).catch(() => undefined);
  }

  async #writeFile(signal: AbortSignal): Promise<WrittenFile> {
    await makeFolder(dirname(this.#draft.path));
    const columns = await listStagedColumns(this.#job, this.#stage);
    return { columns, checksum: await this.#draft.write(columns, 0, signal) };
  }

  /** The rows are going to change. */
  async stop(): Promise<void> {
    this.#control.abort(new Error('the staged rows change'));
    await this.#written;
    this.#written = undefined;
  }

  /** As `WriteRows`. */
  async write(columns: readonly DropColumn[], duplicates: number): Promise<DropChecksum> {
    const early = await this.#written;
    this.#written = undefined;
    if (early !== undefined && duplicates === 0 && isDeepStrictEqual(early.columns, columns)) return early.checksum;
    return await this.#draft.write(columns, duplicates);
  }

  /** Removes what nobody has asked for. */
  async discard(): Promise<void> {
    if (this.#written === undefined) return;
    await this.stop();
    await rm(this.#draft.path, { force: true });
  }
}
