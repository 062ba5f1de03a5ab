/**
 * The catalog of a data folder: which sources were loaded completely, and how the tables are built. Invariant: the data
 * contains only sources of the catalog; the rest of an interrupted load is removed before the next load.
 */
import { join } from 'node:path';
import { z } from 'zod';
import { readFileIfExists, writeWholeFile } from '../../core/atomic-file.ts';
import { describeError, Fault } from '../../core/errors.ts';

const sourceSchema = z.object({
  /** Id of the source, e.g. `sha256:...` of a file; also the partition of its rows. */
  id: z.string(),
  /** For people: the file's name or the generated date. */
  name: z.string(),
  table: z.enum(['trades', 'chains']),
  rows: z.number().int(),
  /** Dates of the source, each with the time of its first trade. */
  dates: z.array(z.object({ date: z.string(), first_time: z.string() })),
});
export type LoadedSource = z.infer<typeof sourceSchema>;

const catalogSchema = z.object({
  version: z.literal(1),
  order: z.enum(['time', 'symbol']),
  /** Rows per granule of the index. */
  granularity: z.number().int().positive(),
  sources: z.array(sourceSchema),
});
export type Catalog = z.infer<typeof catalogSchema>;

const CATALOG_FILE = 'catalog.json';

/** @throws Fault `DATA_DIR_INVALID` (kind `usage`) when there is a catalog that is invalid */
export async function readCatalog(folder: string): Promise<Catalog | undefined> {
  const path = join(folder, CATALOG_FILE);
  const text = await readFileIfExists(path);
  if (text === undefined) return undefined;
  try {
    return catalogSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new Fault('DATA_DIR_INVALID', `${path} is not a catalog of version 1: ${describeError(cause)}`, {
      kind: 'usage',
      cause,
      hint: 'Choose another --data-dir, or remove this one and load again.',
    });
  }
}

export async function writeCatalog(folder: string, catalog: Catalog): Promise<void> {
  await writeWholeFile(join(folder, CATALOG_FILE), `${JSON.stringify(catalog, null, 2)}\n`);
}
