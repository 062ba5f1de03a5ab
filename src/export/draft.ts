/** Builds the manifest of a date before it is published: file, query, windows and clock. Pure. */
import type { Job } from '../job/job.ts';
import { QUARANTINE_FILENAME } from '../ledger/layout.ts';
import { type CheckResult, hashSchema, MANIFEST_VERSION, type ManifestDraft } from '../ledger/manifest.ts';
import type { DropColumn } from '../seal/drop-columns.ts';
import type { FileFacts } from '../seal/parquet-reader.ts';
import type { Quarantine } from '../stage/quarantine.ts';

interface DraftFacts {
  readonly date: string;
  readonly columns: readonly DropColumn[];
  readonly file: FileFacts;
  /** Why the date is incomplete; `undefined`: it is complete. */
  readonly degradedReason: string | undefined;
  readonly quarantine: Quarantine;
  readonly sourceRows: number | null;
  readonly recount: ManifestDraft['recount'];
  readonly duplicates: number;
  /** Distinct ids, if rows share some. */
  readonly ids: number | undefined;
  readonly times: Pick<ManifestDraft, 'min_time' | 'max_time'>;
  readonly checks: readonly CheckResult[];
  readonly summary: string | null;
  readonly counts: string | undefined;
  /** Rows that the source no longer has. */
  readonly kept: number | undefined;
  /** SQL of a page that spans the whole day. */
  readonly query: string;
  readonly sourceUrl: string;
  /** Oldest visible instant on the exchange's clock; empty where there is none. */
  readonly lookbackEdge: string;
  readonly windows: readonly { readonly window: string; readonly rows: number }[];
  /** Windows for which the source has no rows. */
  readonly missing: NonNullable<ManifestDraft['missing']>;
  readonly requests: number;
  readonly startedAtMs: number;
  readonly sealedAtMs: number;
  readonly rowLimit: number;
  readonly version: string;
}

export function draftManifest(job: Job, facts: DraftFacts): ManifestDraft {
  const { schema } = facts.file;
  return {
    manifest_version: MANIFEST_VERSION,
    job_id: job.name,
    dataset: job.drop.dataset,
    date: facts.date,
    table: job.drop.table ?? undefined,
    condition: facts.degradedReason === undefined ? 'available' : 'degraded',
    degraded_reason: facts.degradedReason,
    rows: facts.file.rows,
    source_rows: facts.sourceRows,
    recount: facts.recount,
    duplicates: facts.duplicates,
    ids: facts.ids,
    ...facts.times,
    schema,
    schema_hash: hashSchema(schema),
    extra_columns: facts.columns.slice(job.source.columns.length).map((column) => column.name),
    sort: [...job.drop.sort],
    compression: job.drop.compression,
    row_groups: facts.file.row_groups,
    row_group_offsets: facts.file.row_group_offsets,
    statistics: facts.file.statistics,
    ...describeOddities(facts.quarantine),
    checks: [...facts.checks],
    summary: facts.summary,
    counts: facts.counts,
    kept: facts.kept,
    filter: 'where' in job.source && job.source.where !== '' ? job.source.where : undefined,
    query: { sql: facts.query, entry_point: job.source.api, url: facts.sourceUrl },
    windows: [...facts.windows].sort((a, b) => (a.window < b.window ? -1 : 1)),
    ...(facts.missing.length > 0 ? { missing: [...facts.missing] } : {}),
    requests: facts.requests,
    started_at: new Date(facts.startedAtMs).toISOString(),
    sealed_at: new Date(facts.sealedAtMs).toISOString(),
    lookback_edge: facts.lookbackEdge,
    row_limit: facts.rowLimit,
    flowdrop_version: facts.version,
  };
}

/** Rows that were quarantined, rewritten, or null where they should not be. */
function describeOddities({
  rows,
  ids,
  premium,
  reasons,
  rewritten,
  nulls,
}: Quarantine): Pick<ManifestDraft, 'quarantine' | 'rewritten' | 'nulls'> {
  return {
    ...(rows > 0
      ? {
          quarantine: {
            ...{ filename: QUARANTINE_FILENAME, rows, ids, premium: premium?.dollars },
            reasons: reasons.map((each) => ({ ...each })),
          },
        }
      : {}),
    ...(rewritten.length > 0 ? { rewritten: rewritten.map((each) => ({ ...each })) } : {}),
    ...(nulls.length > 0 ? { nulls: nulls.map((each) => ({ ...each })) } : {}),
  };
}

/**
 * The job as stored in the file's metadata. Leaves out the job file's path, which belongs to one machine, and the mail
 * addresses, which readers of the data should not see.
 */
export function describeJob(job: Job): string {
  const { file: _, reports: __, alerts: ___, ...rest } = job;
  return JSON.stringify(rest);
}
