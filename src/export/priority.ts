/**
 * Who goes first where several processes share the API's budget: what is asked for a date that is about to leave the
 * lookback. Backfills of dates with days to live wait a little longer then; they are never kept out.
 */
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';

/** A night's work, and a retry: what expires later can wait for its turn. */
const URGENT_MS = 24 * 3_600_000;

/** The source, asked in a hurry from the moment that the date is about to expire. */
export function hurry(source: Source, expiresAtMs: number): Source {
  return {
    ...source,
    ask: (sql, options) =>
      source.ask(sql, { ...options, urgent: isUrgent(source, expiresAtMs) || options?.urgent === true }),
  };
}

/** The same for snapshots. Their dates expire as trades do, as far as is known. */
export function hurrySnapshots(client: SnapshotClient, expiresAtMs: number): SnapshotClient {
  return {
    ...client,
    ask: (request, options) =>
      client.ask(request, { ...options, urgent: isUrgent(client, expiresAtMs) || options?.urgent === true }),
  };
}

function isUrgent(source: Pick<Source, 'serverNow'>, expiresAtMs: number): boolean {
  return expiresAtMs - source.serverNow() < URGENT_MS;
}
