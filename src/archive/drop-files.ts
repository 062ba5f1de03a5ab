/**
 * The files of a dataset as the engine reads them: one pattern matches all of them, and each is identified by its path.
 * Invariant: no character of a name acts as a pattern. A directory is read through a symbolic link that we create. From
 * S3 the engine reads ranges of the objects itself, with the store's credentials in a statement that no caller can see.
 */
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../core/errors.ts';
import { quoteString } from '../engine/literal.ts';
import { dropKey } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { StoreAccess } from '../store/access.ts';

export interface SealedFiles {
  /** Table function over the files of all dates and revisions. @param structure columns to read, with their types */
  tableSql(structure: string): string;
  /** The engine's path (`_path`) of the file with a date's rows. */
  pathOf(drop: SealedDrop): string;
  /** Texts that must be hidden in messages: credentials, folders. */
  readonly secrets: readonly string[];
}

/** As its manifest names it: in a table each revision of a date has a file of its own. */
export type SealedDrop = Pick<Manifest, 'date' | 'files'>;

/** Characters that the engine reads as a pattern. */
const PATTERN = /[*?{}]/;
const LINK = 'drops';

/** @param folder our own folder, for the link @throws Fault `ARCHIVE_LOCATION_INVALID` (usage) */
export async function openDropFiles(access: StoreAccess, dataset: string, folder: string): Promise<SealedFiles> {
  if (access.kind === 'directory') {
    assertPlain(dataset);
    const link = join(folder, LINK);
    await symlink(join(access.path, dataset), link);
    return {
      tableSql: (structure) =>
        `file(${quoteString(`${link}/session=*/${dataset}*.parquet`)}, Parquet, ${quoteString(structure)})`,
      pathOf: ({ date, files: [{ filename }] }) => `${link}/session=${date}/${filename}`,
      secrets: [folder],
    };
  }
  const root = access.prefix === '' ? '' : `${access.prefix}/`;
  assertPlain(root + dataset);
  const base = `${access.bucketUrl}/${encodePath(`${root}${dataset}`)}`;
  const { accessKeyId, secretAccessKey, sessionToken } = access;
  const credentials = [accessKeyId, secretAccessKey, ...(sessionToken === undefined ? [] : [sessionToken])];
  return {
    tableSql: (structure) => {
      const args = [`${base}/session=*/${encodePath(dataset)}*.parquet`, ...credentials, 'Parquet', structure];
      return `s3(${args.map(quoteString).join(', ')})`;
    },
    pathOf: ({ date, files: [{ filename }] }) => `${access.bucket}/${root}${dropKey(dataset, date, filename)}`,
    secrets: [...credentials, folder],
  };
}

function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

function assertPlain(path: string): void {
  if (!PATTERN.test(path)) return;
  throw new Fault(
    'ARCHIVE_LOCATION_INVALID',
    `${path} has one of * ? { } in it, which the engine takes for a pattern`,
    {
      kind: 'usage',
      hint: 'Query a copy whose name has none of them.',
    },
  );
}
