/**
 * Priority where several processes share the API's budget: requests for a date that expires soon go first. Backfills of
 * other dates wait a little longer, but are never starved.
 */
import type { SnapshotClient } from '../source/snapshot.ts';
import type { Source } from '../source/source.ts';

/** One night's work and a retry: a date that expires later can wait. */
const URGENT_MS = 24 * 3_600_000;

/** The source, with urgent requests once the date expires soon. */
export function hurry(source: Source, expiresAtMs: number): Source {
  return {
    ...source,
    ask: (sql, options) =>
      source.ask(sql, { ...options, urgent: isUrgent(source, expiresAtMs) || options?.urgent === true }),
  };
}

/** The same for snapshots. Their dates are assumed to expire as trades do. */
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
