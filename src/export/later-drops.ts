/**
 * Drops that were sealed after another one: rows that vanish from one date may be among theirs, because the source has given
 * them another date. Such rows are no loss, and are not kept beside their new place.
 */
import { rm } from 'node:fs/promises';
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { parquetFile } from '../engine/literal.ts';
import type { Ledger } from '../ledger/ledger.ts';

/**
 * Calls `use` with a table of the ids of these drops; `undefined` if there are none.
 * @param since ISO instant: what was sealed before cannot have the rows, because they were still of this date
 * @param path local; names of the copies begin with it, which are removed afterwards
 * @throws StoreFault
 */
export async function withLaterDrops<Result>(
  ledger: Ledger,
  date: string,
  since: string,
  path: string,
  use: (ids: string | undefined) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const copies: string[] = [];
  const ids: string[] = [];
  // The source has no dates further apart.
  const [from, to] = [addDays(date, -LOOKBACK_DAYS), addDays(date, LOOKBACK_DAYS)];
  try {
    for (const other of await ledger.dates()) {
      if (other === date || other < from || other > to) continue;
      const manifest = await ledger.validManifest(other);
      if (manifest === undefined || manifest.rows === 0 || manifest.sealed_at < since) continue;
      if (!manifest.schema.some(({ name }) => name === 'id')) continue;
      const copy = `${path}.${other}`;
      copies.push(copy);
      const isThere = await ledger.fetchFile(other, manifest.files[0], copy, signal);
      if (isThere) ids.push(`SELECT id FROM ${parquetFile(copy)}`);
    }
    return await use(ids.length === 0 ? undefined : `(${ids.join(' UNION ALL ')})`);
  } finally {
    for (const copy of copies) await rm(copy, { force: true });
  }
}
