/** The file of a date before it is published. */

import type { Engine } from '../engine/engine.ts';
import type { Job } from '../job/job.ts';
import type { DropColumn } from '../seal/drop-columns.ts';
import { type DropChecksum, writeParquet } from '../seal/write-parquet.ts';
import type { Stage } from '../stage/stage.ts';

export interface DraftFile {
  /** On this disk. Names of other files of the date begin with it. */
  readonly path: string;
  readonly write: WriteRows;
}

/**
 * Writes the rows as one sorted Parquet file and returns the checksum that it must have.
 * @param duplicates rows beyond one for each trade: they are not written
 */
export type WriteRows = (
  columns: readonly DropColumn[],
  duplicates: number,
  signal?: AbortSignal,
) => Promise<DropChecksum>;

/** Writes what is staged. */
export function draftStaged(engine: Engine, job: Job, stage: Stage, path: string): DraftFile {
  return {
    path,
    write: async (columns, duplicates, signal) =>
      writeParquet(engine, job, { table: stage.table, duplicates }, columns, path, signal),
  };
}

/** Where a copy of the sealed file is while both are compared. */
export function sealedCopy(path: string): string {
  return `${path}.sealed`;
}
