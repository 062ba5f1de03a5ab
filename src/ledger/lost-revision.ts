/**
 * The record that a replaced revision can no longer be read, or not all of it: `lost.json` beside its manifest in the
 * history. Invariant: once a loss is on record it is no new damage, and it stays visible. Written when a damaged drop is
 * replaced, and by `verify --repair` for a history that was damaged later.
 */
import { z } from 'zod';
import { tryParseJson } from '../core/json-file.ts';
import type { Store } from '../store/store.ts';
import { historyKey, LOST_FILENAME } from './layout.ts';

const lostRevisionSchema = z.looseObject({
  /** Names of the lost files; `null`: all of it, its manifest included. */
  files: z.array(z.string()).nullable(),
  /** Why, in words. */
  reason: z.string(),
});

export type LostRevision = Pick<z.infer<typeof lostRevisionSchema>, 'files' | 'reason'>;

/** `undefined` without a record, and for one that cannot be read: then the damage is reported again. */
export async function readLost(
  store: Store,
  dataset: string,
  date: string,
  revision: number,
): Promise<LostRevision | undefined> {
  const bytes = await store.get(historyKey(dataset, date, revision, LOST_FILENAME));
  return bytes && lostRevisionSchema.safeParse(tryParseJson(Buffer.from(bytes).toString('utf8'))).data;
}

export async function writeLost(
  store: Store,
  dataset: string,
  date: string,
  revision: number,
  lost: LostRevision,
): Promise<void> {
  const bytes = Buffer.from(`${JSON.stringify(lost, undefined, 2)}\n`);
  await store.put(historyKey(dataset, date, revision, LOST_FILENAME), { bytes }, { contentType: 'application/json' });
}

/** `revision 1 is lost (trades.parquet): it was damaged when revision 2 replaced it`. */
export function describeLost(revision: number, { files, reason }: LostRevision): string {
  return `revision ${revision} is lost${files === null ? '' : ` (${files.join(', ')})`}: ${reason}`;
}
