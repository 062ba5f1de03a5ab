/**
 * The file of a date before it is published. It is on this disk (`draftOnDisk`), or in the store, where a server has
 * written it (`server-table/server-draft.ts`): sealing a date takes the same steps for both.
 */

import type { Engine } from '../engine/engine.ts';
import { parquetFile } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import { fetchFile } from '../ledger/history.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { StoredFile } from '../ledger/publish.ts';
import type { DropColumn } from '../seal/drop-columns.ts';
import { type FooterNotes, writeFooter } from '../seal/footer.ts';
import { writeSummary } from '../seal/summary.ts';
import { type VerifiedFile, verifyParquet } from '../seal/verify-file.ts';
import { type DropChecksum, writeParquet } from '../seal/write-parquet.ts';
import type { Stage } from '../stage/stage.ts';
import type { Store } from '../store/store.ts';

export interface DraftFile {
  /** On this disk: the file, or the footer of one in the store. Names of other files of the date begin with it. */
  readonly path: string;
  /** Reads the file. */
  readonly engine: Pick<Engine, 'rows'>;
  /** The file as `engine` reads it. */
  readonly from: string;
  readonly write: WriteRows;
  /** Completes the footer that the engine wrote. @throws Fault `SEAL_UNVERIFIED`, StoreFault */
  complete(notes: FooterNotes): Promise<void>;
  /** Reads the file back. @throws Fault `SEAL_UNVERIFIED` if it differs; then nothing may be published */
  verify(columns: readonly DropColumn[], expected: DropChecksum): Promise<VerifiedFile>;
  /** Writes the summary of the file to a path on this disk. */
  summarize(path: string): Promise<void>;
  /** The sealed drop as `engine` reads it; `undefined` if the store does not have it as its manifest says. */
  findSealed(sealed: Manifest): Promise<string | undefined>;
  /** Where the complete file is in the store; `undefined`: on this disk. */
  readonly stored: StoredFile | undefined;
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

interface DiskDeps {
  readonly engine: Engine;
  readonly store: Store;
  readonly signal?: AbortSignal | undefined;
}

/** Writes what is staged. */
export function draftStaged(deps: DiskDeps, job: Job, stage: Stage, path: string): DraftFile {
  return draftOnDisk(deps, path, async (columns, duplicates, signal) =>
    writeParquet(deps.engine, job, { table: stage.table, duplicates }, columns, path, signal),
  );
}

/** @param write writes to the path */
export function draftOnDisk({ engine, store, signal }: DiskDeps, path: string, write: WriteRows): DraftFile {
  return {
    path,
    engine,
    from: parquetFile(path),
    write,
    async complete(notes) {
      await writeFooter(path, notes);
    },
    verify: (columns, expected) => verifyParquet(engine, path, columns, expected),
    summarize: (summaryPath) => writeSummary(engine, path, summaryPath),
    async findSealed(sealed) {
      const sealedPath = sealedCopy(path);
      return (await fetchFile(store, sealed, sealed.files[0], sealedPath, signal))
        ? parquetFile(sealedPath)
        : undefined;
    },
    stored: undefined,
  };
}

/** Where a copy of the sealed file is while both are compared. */
export function sealedCopy(path: string): string {
  return `${path}.sealed`;
}
