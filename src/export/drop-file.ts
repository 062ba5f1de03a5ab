/** The file of a date before it is published: what is staged, as one sorted Parquet file on this disk. */
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { makeFolder } from '../core/atomic-file.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { ExportRun } from '../run/run.ts';
import { type DropColumn, listDropColumns } from '../seal/drop-columns.ts';
import { type DropChecksum, writeParquet } from '../seal/write-parquet.ts';
import type { Stage } from '../stage/stage.ts';

/** The columns of the file. @param sealedNulls of rows that come from a sealed drop */
export async function listStagedColumns(
  { opened }: Pick<ExportRun, 'opened'>,
  stage: Pick<Stage, 'extraFields' | 'quarantine'>,
  sealedNulls: Manifest['nulls'] = [],
): Promise<readonly DropColumn[]> {
  const { nulls } = await stage.quarantine();
  const withNulls = [...nulls, ...sealedNulls].map(({ column }) => column);
  return listDropColumns(opened.job.source.columns, await stage.extraFields(), withNulls);
}

/**
 * The file may be written while the source counts the date once more: most recounts agree, and writing takes longer than any
 * other step of a seal. Invariant: `write` returns only a file of the rows as they are staged now. Whoever changes them calls
 * `stop` before, and a recount that does not agree costs nothing but the work.
 */
export class DropFile {
  readonly #run: ExportRun;
  readonly #stage: Stage;
  /** Names of other files of the date begin with it. */
  readonly path: string;
  #control = new AbortController();
  #written: Promise<{ columns: readonly DropColumn[]; checksum: DropChecksum } | undefined> | undefined;

  constructor(run: ExportRun, stage: Stage) {
    this.#run = run;
    this.#stage = stage;
    this.path = run.state.drop(stage.date);
  }

  /** All rows are staged. Never throws: a file that cannot be written now is written when the date is sealed. */
  start(): void {
    if (this.#written !== undefined) return;
    this.#control = new AbortController();
    const { signal } = this.#control;
    const write = async () => {
      await makeFolder(dirname(this.path));
      const columns = await listStagedColumns(this.#run, this.#stage);
      return { columns, checksum: await this.#write(columns, 0, signal) };
    };
    this.#written = write().catch(() => undefined);
  }

  /** The rows are going to change. */
  async stop(): Promise<void> {
    this.#control.abort(new Error('the staged rows change'));
    await this.#written;
    this.#written = undefined;
  }

  /**
   * The file, and the checksum that it must have.
   * @param duplicates rows beyond one for each trade: they are not written
   */
  async write(columns: readonly DropColumn[], duplicates: number): Promise<DropChecksum> {
    const early = await this.#written;
    this.#written = undefined;
    if (early !== undefined && duplicates === 0 && isDeepStrictEqual(early.columns, columns)) return early.checksum;
    return await this.#write(columns, duplicates);
  }

  /** Removes what nobody has asked for. */
  async discard(): Promise<void> {
    if (this.#written === undefined) return;
    await this.stop();
    await rm(this.path, { force: true });
  }

  async #write(columns: readonly DropColumn[], duplicates: number, signal?: AbortSignal): Promise<DropChecksum> {
    const { engine, opened } = this.#run;
    const rows = { table: this.#stage.table, duplicates };
    return await writeParquet(engine, opened.job, rows, columns, this.path, signal);
  }
}
