/**
 * The manifest of a drop. It is written last, so a date is sealed exactly when it has one. Field names follow
 * Databento's `manifest.json` where it has them (`job_id`, `files[].filename, size, hash`). Unknown members are kept. Also
 * its failed checks in words: why a sealed date is in doubt although it has what the source has. Log, status, report and
 * alert say the same.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { tryParseJson } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import { SEALED_CONDITIONS } from '../plan/conditions.ts';
import { changesSchema } from '../state/documents.ts';

/** The only version that is written and read. */
export const MANIFEST_VERSION = 3;

/** A restatement every minute reaches it after 694 days: a document with a higher revision is damaged. */
const MAX_REVISION = 1_000_000;

const revisionSchema = z.int().positive().max(MAX_REVISION);

const fileSchema = z.looseObject({
  /** File name in the partition's folder. */
  filename: z.string().regex(/^(?!\.{1,2}$)[^/]+$/),
  size: z.int().nonnegative(),
  hash: z.string().startsWith('sha256:'),
});

const checkResultSchema = z.looseObject({
  check: z.string(),
  on_failure: z.enum(['warn', 'fail']),
  passed: z.boolean(),
  /** Measured value and its bound, in the unit of the check. */
  found: z.number(),
  allowed: z.number(),
  column: z.string().optional(),
  tolerance: z.number().optional(),
  /** Of the check `baseline`: what is unlike the sessions before, at most 20 of `found`, in words and numbers. */
  findings: z
    .array(
      z.looseObject({
        about: z.string(),
        symbol: z.string().optional(),
        column: z.string().optional(),
        found: z.number(),
        usual: z.number(),
        says: z.string(),
      }),
    )
    .optional(),
  /** The sessions that it was compared with; fewer than three say nothing, and the check passes. */
  sessions: z.array(z.string()).optional(),
});

const recountSchema = z.looseObject({
  /** `ids and values`, `ids`, or `counts`: what the source and the fetched rows have in common. */
  proved: z.string(),
  /** Columns whose values were compared. */
  columns: z.array(z.string()),
  /** Sums of 64-bit hashes over the source's rows, computed by the source: equal rows have equal sums. */
  id_hash: z.string().optional(),
  value_hash: z.string().optional(),
});

/** Values of a column that were converted without loss, such as 12.0 to a whole number. */
const rewrittenSchema = z.looseObject({ column: z.string(), form: z.string(), rows: z.int().nonnegative() });

const nullsSchema = z.looseObject({
  column: z.string(),
  rows: z.int().nonnegative(),
  /** Completes a sentence that begins with the column's name; absent for nulls that the source sent. */
  reason: z.string().optional(),
});

const quarantineSchema = z.looseObject({
  /** Name of the file with the quarantined rows, one of `files`. */
  filename: z.string(),
  rows: z.int().nonnegative(),
  /** Distinct ids of these rows that no row of the drop has. */
  ids: z.int().nonnegative(),
  /** Dollars, of the rows whose premium can be read; absent if the drop has no column `premium`. */
  premium: z.number().optional(),
  /** Rows by fault; `column` is empty when the whole row is bad. */
  reasons: z.array(z.looseObject({ column: z.string(), reason: z.string(), rows: z.int().nonnegative() })),
});

/** Of a column of the drop. Absent bounds are unknown, or the column has only nulls. */
const statisticsSchema = z.looseObject({
  column: z.string(),
  /** Compressed size in the file. */
  bytes: z.int().nonnegative(),
  nulls: z.int().nonnegative(),
  /** A number, a text, a date, a time with milliseconds (`Z` at the end if UTC), or a long integer as text. */
  min: z.union([z.string(), z.number()]).optional(),
  max: z.union([z.string(), z.number()]).optional(),
});

export const manifestSchema = z.looseObject({
  manifest_version: z.literal(MANIFEST_VERSION, `this flowdrop reads version ${MANIFEST_VERSION} only`),
  job_id: z.string(),
  dataset: z.string(),
  date: z.string(),
  revision: revisionSchema,
  condition: z.enum(SEALED_CONDITIONS),
  /** The job's `drop.table`; absent without one. In a table each revision has a file name of its own. */
  table: z.enum(['iceberg']).optional(),
  /** Why the drop is incomplete; absent for an available one. */
  degraded_reason: z.string().optional(),
  /**
   * The drop's file first, then the summary, the counts and the quarantine if they exist. A tuple, so that the first always exists.
   */
  files: z.tuple([fileSchema], fileSchema),
  /** Rows in the file. */
  rows: z.int().nonnegative(),
  /** Row count of the source when the date was sealed; null when the source could no longer be asked. */
  source_rows: z.int().nonnegative().nullable(),
  /** What the last count at the source proved about the rows; absent without a count. */
  recount: recountSchema.optional(),
  /** Rows left out because another row has the same trade: the row with the newest `updated_timestamp` stays. */
  duplicates: z.int().nonnegative(),
  /** Distinct ids of the rows; present only if rows share an id or have none. */
  ids: z.int().nonnegative().optional(),
  /** First and last `time` of the rows, in the exchange's wall clock; null for a drop without rows or without time. */
  min_time: z.string().nullable(),
  max_time: z.string().nullable(),
  schema: z.array(
    z.looseObject({
      name: z.string(),
      type: z.string(),
      nullable: z.boolean(),
      /** Stable in all drops of the dataset. */
      field_id: z.int().positive(),
    }),
  ),
  schema_hash: z.string(),
  /** Columns that are not in the contract, kept unchanged. */
  extra_columns: z.array(z.string()),
  sort: z.array(z.string()),
  compression: z.string(),
  row_groups: z.int().nonnegative(),
  /** In the order of `schema`. */
  statistics: z.array(statisticsSchema),
  /** Invalid rows, stored beside the drop; absent when there are none. */
  quarantine: quarantineSchema.optional(),
  /** Values that were converted; absent when there are none. */
  rewritten: z.array(rewrittenSchema).optional(),
  /**
   * Nulls in columns that have none by contract, and values of model columns that could not be read, with the reason;
   * absent when there are none.
   */
  nulls: z.array(nullsSchema).optional(),
  /** Results of the job's checks on these rows. */
  checks: z.array(checkResultSchema),
  /** Rows that the source no longer had when an audit restated the date, and that it kept; absent when there are none. */
  kept: z.int().positive().optional(),
  /**
   * Why the rows are still those of the replaced revision, although the source has others; absent unless the date is held.
   */
  held: z.string().optional(),
  /** End of the last segment that the rows cover, `16:15`; absent unless like sessions have rows of later segments. */
  through: z.string().optional(),
  /** Name of the file with the daily aggregates; null when the rows are not single trades. */
  summary: z.string().nullable(),
  /** Name of the file with the source's counts by cell, which audits compare; absent without a count at the source. */
  counts: z.string().optional(),
  /** The job's condition `where`: the drop has only rows that meet it. Absent without one. */
  filter: z.string().optional(),
  /** SQL of a page for the whole date instead of a window, and the entry point that answered it. */
  query: z.looseObject({ sql: z.string(), entry_point: z.string(), url: z.string() }),
  windows: z.array(z.looseObject({ window: z.string(), rows: z.int().nonnegative() })),
  /** Windows without data at the source, and why: symbols of snapshot jobs. */
  missing: z.array(z.object({ window: z.string(), reason: z.string() })).optional(),
  /** Requests used for the date, counts and recounts included. */
  requests: z.int().nonnegative(),
  started_at: z.string(),
  sealed_at: z.string(),
  /** Oldest visible instant when the date was recounted, in the exchange's wall clock. */
  lookback_edge: z.string(),
  row_limit: z.int().nonnegative(),
  flowdrop_version: z.string(),
  /** The revision that this one replaces. */
  supersedes: revisionSchema.nullable(),
  /** Differences from the replaced revision; null when its object could not be read. */
  changes: changesSchema.nullable().optional(),
  /** SHA-256 over the canonical JSON of all other members, so that every edit is found. */
  manifest_hash: z.string(),
});

/** The members that this version knows. Unknown members are kept, but no code may depend on them. */
type Known<T> = { [Name in keyof T as string extends Name ? never : Name]: T[Name] };

export type Manifest = Known<z.infer<typeof manifestSchema>>;
export type ManifestFile = Manifest['files'][number];
export type CheckResult = z.infer<typeof checkResultSchema>;

type PublishedKey = 'files' | 'revision' | 'supersedes';
/** What is known of a drop before it is published: publishing adds the files, and the revision. */
export type ManifestDraft = Omit<Manifest, PublishedKey | 'manifest_hash'>;

export function invalidManifest(message: string): Fault {
  return new Fault('MANIFEST_INVALID', message, {
    hint: 'Another program edited or wrote it. While the source has the whole date, the next run or `flowdrop verify JOB --repair` exports it again; otherwise restore the object from a backup.',
  });
}

/**
 * A manifest, if its own hash is right and it is of its place; and in words what is wrong with it.
 * @param where URL of the store and key @param place which drop it must be of; without a revision: of any
 */
export function readSigned(
  bytes: Uint8Array,
  where: string,
  place: Pick<Manifest, 'dataset' | 'date'> & { readonly revision?: number | undefined },
): { readonly manifest?: Manifest; readonly findings: readonly string[] } {
  const document = tryParseJson(Buffer.from(bytes).toString('utf8'));
  const { data: manifest, error } = manifestSchema.safeParse(document);
  if (manifest === undefined)
    return { findings: [`${where} is not a flowdrop manifest: ${z.prettifyError(error).replaceAll('\n', ' ')}`] };
  const { dataset, date, revision, manifest_hash: says } = manifest;
  // Also of members that this version does not know.
  const hash = hashManifest(document as object);
  const isOfPlace = dataset === place.dataset && date === place.date && revision === (place.revision ?? revision);
  const findings = [
    ...(says === hash ? [] : [`${where} was edited: its hash is ${hash}, it says ${says}`]),
    ...(isOfPlace ? [] : [`${where} is the manifest of ${dataset} ${date} revision ${revision}`]),
  ];
  return findings.length === 0 ? { manifest, findings } : { findings };
}

export function formatManifest(manifest: Manifest): Uint8Array {
  return Buffer.from(`${JSON.stringify(manifest, undefined, 2)}\n`);
}

/** Returns the manifest with its hash. */
export function signManifest(manifest: ManifestDraft & Pick<Manifest, PublishedKey>): Manifest {
  // A copy through JSON: members that are `undefined` are not written, so they must not be hashed.
  const plain = JSON.parse(JSON.stringify(manifest)) as Manifest; // It has the same members.
  return { ...plain, manifest_hash: hashManifest(plain) };
}

/** `sha256:` hash of all members except `manifest_hash`, in canonical JSON. */
export function hashManifest(manifest: object): string {
  const { manifest_hash: _, ...rest } = manifest as { manifest_hash?: unknown };
  return `sha256:${createHash('sha256').update(formatCanonical(rest)).digest('hex')}`;
}

/** `sha256:` hash of a file's columns in the form of the manifest. */
export function hashSchema(schema: Manifest['schema']): string {
  return `sha256:${createHash('sha256').update(JSON.stringify(schema)).digest('hex')}`;
}

/** JSON without whitespace, members sorted by name: equal content gives equal text, in any order of writing. */
function formatCanonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(formatCanonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${formatCanonical(member)}`).join(',')}}`;
}

/** Findings of a baseline that are said; the manifest has more. */
const MAX_SAID = 5;

/** Failed checks of a sealed date, one sentence each without a full stop; empty if all passed. */
export function listDoubts({ checks }: Pick<Manifest, 'checks'>): readonly string[] {
  return checks.flatMap((result) => {
    if (result.passed) return [];
    const { findings, found } = result;
    return findings === undefined ? [describeCheck(result)] : listFindings(findings, found);
  });
}

/** Nulls by column that should not be there, whatever their reason; `undefined` without any. */
export function sumNulls({ nulls = [] }: Pick<Manifest, 'nulls'>): Readonly<Record<string, number>> | undefined {
  const sums: Record<string, number> = {};
  for (const { column, rows } of nulls) sums[column] = (sums[column] ?? 0) + rows;
  return nulls.length === 0 ? undefined : sums;
}

/** `check dates: 3 rows have another date, allowed are 0`. */
export function describeCheck({ check, column, found, allowed, tolerance, findings }: CheckResult): string {
  switch (check) {
    case 'min-rows':
      return `check min-rows: ${found} rows, allowed are ${allowed} or more`;
    case 'max-nulls':
      return `check max-nulls: a share of ${found} of "${column ?? ''}" is null or empty, allowed is ${allowed}`;
    case 'premium':
      return `check premium: in ${found} rows the premium is not price x size x 100 within ${tolerance ?? 0}, allowed are ${allowed}`;
    case 'unique-id':
      return `check unique-id: ${found} rows repeat an id in the same version, allowed are ${allowed}`;
    case 'dates':
      return `check dates: ${found} rows have another date, allowed are ${allowed}`;
    default:
      if (findings !== undefined) return `check ${check}: ${listFindings(findings, found).join('; ')}`;
      return `check ${check}: found ${found}, allowed ${allowed}`;
  }
}

function listFindings(findings: CheckResult['findings'] = [], found: number): readonly string[] {
  const said = findings.slice(0, MAX_SAID).map(({ says }) => says);
  return found > said.length ? [...said, `${found - said.length} more in the manifest`] : said;
}
