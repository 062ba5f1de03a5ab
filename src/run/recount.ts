/**
 * A sealed date beside what its source counts now, for `verify --deep`: single trades, groups and a server's own table
 * each by the count that their run was proved by. Snapshots have no count. Nothing is fetched and nothing changed.
 */

import { sumCounts } from '../plan/counts.ts';
import type { Manifest } from '../seal/manifest.ts';
import type { Learnt } from './learnt.ts';
import { lookbackOf } from './lookback.ts';
import type { OpenedSource } from './opened.ts';
import { probeGroups, probeRows } from './sql/probe.ts';
import { type Recount, recountDate } from './sql/recount.ts';
import { buildTableCounts, hasId } from './table/statement.ts';

/** A source whose rows can be counted. */
export type CountedSource = Exclude<OpenedSource, { kind: 'snapshots' }>;

type SealedCounts = Pick<Manifest, 'date' | 'rows' | 'source_rows'>;

export interface RecountDeps {
  readonly learnt: Learnt;
  readonly signal?: AbortSignal | undefined;
}

/**
 * What differs, in words; `undefined` for a date that the source no longer has whole.
 * @throws SourceFault, EngineFault; Fault `SCAN_TOO_BROAD`, `SERVER_TOO_OLD`, `TABLE_UNFIT`
 */
export async function compareWithSource(
  deps: RecountDeps,
  opened: CountedSource,
  sealed: SealedCounts,
): Promise<readonly string[] | undefined> {
  const { firstWhole } = lookbackOf(opened.job.source, opened.source.serverNow());
  if (sealed.date < firstWhole) return undefined;
  if (opened.kind === 'table') return compareIds(sealed, await countTable(deps, opened, sealed.date));
  const { source, job } = opened;
  const asked = { source, ...deps };
  if (job.source.kind === 'rows') {
    return compareIds(sealed, await recountDate(asked, job, sealed.date, sealed.source_rows ?? sealed.rows));
  }
  const groups = sumCounts(await probeGroups(asked, job, sealed.date)).rows;
  const trades = sumCounts(await probeRows(asked, job, sealed.date)).rows;
  // A late trade may be of a group that there was already.
  return [
    ...(groups === sealed.rows ? [] : [`the source now gives ${groups} groups, the drop has ${sealed.rows}`]),
    ...compareRows(sealed, trades),
  ];
}

/** Without ids each row of the table is one of the drop. */
async function countTable(
  { signal }: RecountDeps,
  { source, job }: Extract<OpenedSource, { kind: 'table' }>,
  date: string,
): Promise<Recount> {
  const { types } = await source.describe(signal);
  const counting = buildTableCounts(job.source, types, date, date);
  const [counted] = await source.rows<{ n: number; u: number }>(counting, signal ? { signal } : {});
  const rows = Number(counted?.n ?? 0);
  return { rows, ids: hasId(job.source) ? Number(counted?.u ?? 0) : undefined };
}

function compareIds(sealed: SealedCounts, now: Recount): readonly string[] {
  // Where they were counted in parts, only rows add up.
  if (now.ids === undefined) return compareRows(sealed, now.rows);
  if (now.ids === sealed.rows) return [];
  return [`the source now has ${now.ids} distinct ids, the drop ${sealed.rows} rows`];
}

function compareRows({ source_rows: had }: SealedCounts, has: number): readonly string[] {
  if (had === null || has === had) return [];
  return [`the source now has ${has} rows, it had ${had} when the date was sealed`];
}
