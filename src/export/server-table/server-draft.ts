/**
 * The file of a date that the source's server writes into the store by itself (`drop.write: server`). No row passes this
 * machine: it reads the footer and sends it completed. Invariant: nothing of it is published before the server has read the
 * complete object again, with the values that were counted at the source, and has hashed its bytes.
 */
import { randomUUID } from 'node:crypto';
import { rm, stat } from 'node:fs/promises';
import { Fault } from '../../core/errors.ts';
import { hashFile } from '../../core/file-hash.ts';
import type { Engine } from '../../engine/engine.ts';
import { hashObject } from '../../engine/hash-object.ts';
import { type EngineSettings, formatSettings } from '../../engine/literal.ts';
import { namedS3 } from '../../engine/named-s3.ts';
import { fileKey, sealingAttemptKey } from '../../ledger/layout.ts';
import type { StoredFile } from '../../ledger/publish.ts';
import { fetchFooter, readFooter, writeFooter } from '../../seal/footer.ts';
import { finishSummary, selectSummary } from '../../seal/summary.ts';
import { assertChecksum, assertForm, describeFile } from '../../seal/verify-file.ts';
import { checksumParquet, READ_BACK_SETTINGS, SUMMARY_SETTINGS } from '../../seal/write-parquet.ts';
import type { ServerTable } from '../../source/server-table.ts';
import type { Store } from '../../store/store.ts';
import type { DraftFile, WriteRows } from '../draft-file.ts';

interface ServerDraftDeps {
  readonly store: Store;
  readonly source: ServerTable;
  /** Keeps only the settings that the server knows. */
  keepKnown(settings: EngineSettings): EngineSettings;
  readonly signal?: AbortSignal | undefined;
}

interface DraftPlace {
  readonly dataset: string;
  readonly date: string;
  /** That is about to be sealed. */
  readonly revision: number;
  /** On this disk, for footers and small files. */
  readonly path: string;
}

export interface ServerDraft extends DraftFile {
  /** Removes what was not published, here and in the store. Never throws: the next seal of the date removes the rest. */
  discard(): Promise<void>;
}

/** The values of a file must not depend on the server's time zone, nor its columns on the path. */
const READ_SETTINGS: EngineSettings = {
  ...READ_BACK_SETTINGS,
  session_timezone: 'UTC',
  use_hive_partitioning: 0,
  allow_suspicious_low_cardinality_types: 1,
};

/** @param insert the query for the rows in the order of the drop, with its settings, and what computes their checksum at the source */
export function draftOnServer(
  { store, source, keepKnown, signal }: ServerDraftDeps,
  { dataset, date, revision, path }: DraftPlace,
  insert: { readonly sql: string; checksum: WriteRows },
): ServerDraft {
  const attempt = randomUUID();
  const writtenKey = sealingAttemptKey(dataset, date, revision, `${attempt}.written`);
  const key = sealingAttemptKey(dataset, date, revision, attempt);
  const { collection } = source;
  const settings = keepKnown(READ_SETTINGS);
  const parquet = (of: string) => namedS3([of], { collection, format: 'Parquet' });
  const engine: Pick<Engine, 'rows'> = { rows: (sql) => source.rows(sql, { signal, settings }) };
  let stored: StoredFile | undefined;
  const readObject = (of: string) => async (offset: number, length: number) => {
    const bytes = await store.read(of, offset, length);
    if (bytes === undefined) throw gone(store, of);
    return bytes;
  };
  const sizeOf = async (of: string) => {
    const info = await store.head(of);
    if (info === undefined) throw gone(store, of);
    return info.sizeBytes;
  };
  const hashStored = async (of: string, sizeBytes: number): Promise<string> => {
    const hash = await hashObject(engine, { key: of, collection, sizeBytes });
    if (hash !== undefined) return hash;
    const copy = `${path}.whole`;
    try {
      if (!(await store.download(of, copy, signal))) throw gone(store, of);
      if ((await stat(copy)).size !== sizeBytes) throw gone(store, of);
      return await hashFile(copy);
    } finally {
      await rm(copy, { force: true });
    }
  };
  return {
    path,
    engine,
    from: parquet(key),
    async write(columns, duplicates, stop) {
      await source.run(`INSERT INTO FUNCTION ${parquet(writtenKey)} ${insert.sql}`, signal);
      if ((await store.head(writtenKey)) === undefined) {
        throw new Fault(
          'SERVER_COLLECTION',
          `the server wrote ${date}, but ${store.url} does not have it: its named collection ${collection} has another address`,
          {
            kind: 'usage',
            hint: `Set its url to the address of ${store.url}, with the prefix and a / at the end. The object is under _flowdrop/sealing/ there.`,
          },
        );
      }
      return await insert.checksum(columns, duplicates, stop);
    },
    async complete(notes) {
      await fetchFooter(path, await sizeOf(writtenKey), readObject(writtenKey));
      const tail = await writeFooter(path, notes);
      await store.copyWithTail(writtenKey, key, tail.start, tail.bytes);
    },
    async verify(columns, expected) {
      const sizeBytes = await sizeOf(key);
      await fetchFooter(path, sizeBytes, readObject(key));
      const file = describeFile(await readFooter(path));
      const name = `${store.url}/${key}`;
      assertForm(name, file, columns, expected);
      assertChecksum(name, await checksumParquet(engine, parquet(key), columns, settings), expected);
      stored = { key, sizeBytes, sha256: await hashStored(key, sizeBytes) };
      return file;
    },
    async summarize(summaryPath) {
      const sql = `${selectSummary(parquet(key))} ${formatSettings(keepKnown({ ...READ_SETTINGS, ...SUMMARY_SETTINGS }))}`;
      await source.download(sql, 'Parquet', summaryPath, signal);
      await finishSummary(summaryPath);
    },
    async findSealed(sealed) {
      const [{ filename, size, hash }] = sealed.files;
      const at = fileKey(dataset, date, filename);
      if ((await store.head(at))?.sizeBytes !== size) return undefined;
      return hash === `sha256:${await hashStored(at, size)}` ? parquet(at) : undefined;
    },
    get stored() {
      return stored;
    },
    async discard() {
      for (const of of [writtenKey, key]) await store.remove(of).catch(() => undefined);
      await rm(path, { force: true });
    },
  };
}

function gone(store: Store, key: string): Fault {
  return new Fault('SEAL_UNVERIFIED', `${store.url}/${key} is gone or has changed while it was being sealed`, {
    hint: 'Another program removes objects there, or another worker has sealed the date. Run again: nothing was published.',
  });
}
