/**
 * The shape of a job file as the user writes it, in zod: the only source of the checks in `parse.ts` and of the JSON
 * Schema that `flowdrop schema` prints. Unknown keys are errors: a misspelt key must not silently become a default.
 */
import { validate as isCron } from 'node-cron';
import { z } from 'zod';
import { EXCHANGE_TIME_ZONE, TABLES } from '../api-contract/published-limits.ts';
import { RESERVED_DATASETS } from '../store/key-kind.ts';
import { addressSchema, nameSchema, timezoneSchema } from './plain-shape.ts';
import { REPORT_DEFAULTS, reportSchema } from './report-shape.ts';

/** Defaults of a job file; CLI flags have no defaults of their own. */
export const JOB_DEFAULTS = {
  table: 'RawOptionTrades',
  where: '',
  timeColumn: 'time',
  sort: ['symbol', 'time', 'id'],
  timezone: EXCHANGE_TIME_ZONE,
  /** Wait after a failed run: long enough for most network faults to pass, short enough for many retries in a night. */
  retry: '15m',
  /** Twice what the longest lookback takes at one request per second; leaves the morning for more retries. */
  timeout: '8h',
  onFailure: 'fail',
  onBad: 'quarantine',
  /** One in a thousand: a larger share is not just a few odd rows, and would distort the numbers. */
  maxBad: 0.001,
  /** Prices have four decimals; premium is a float. */
  premiumTolerance: 0.0001,
  report: REPORT_DEFAULTS,
} as const;

const identifierSchema = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/, 'a column name: letters, digits and _, not beginning with a digit');

const columnTypeSchema = z
  .enum(['string', 'int32', 'int64', 'double', 'date', 'wall', 'instant'])
  .describe('Type in the drop; `wall` is the exchange wall clock, `instant` is UTC.');

const symbolSchema = z.string().regex(/^[A-Z0-9][A-Z0-9.^/_-]{0,15}$/, 'a symbol in capitals, e.g. SPX or BRK.B');

/** Keys of `source` that go with each API, besides `api` itself. */
const SOURCE_KEYS = {
  historical: ['table', 'columns', 'where', 'sql', 'grain', 'time', 'split', 'types'],
  portal: ['table', 'columns', 'where', 'sql', 'grain', 'time', 'split', 'types'],
  chain: ['symbols'],
  'market-structure': ['symbols'],
  clickhouse: ['table', 'columns', 'where', 'types'],
} as const;

const sourceSchema = z
  .strictObject({
    api: z
      .enum(['historical', 'portal', 'chain', 'market-structure', 'clickhouse'])
      .describe('What is read: an endpoint of the options data API, or a ClickHouse server.'),
    table: z
      .string()
      .min(1)
      .optional()
      .describe(`Table to read: ${TABLES.join(' or ')} (default: the first); of a ClickHouse server, database.table.`),
    columns: z
      .array(identifierSchema)
      .nonempty()
      .optional()
      .describe('Columns to export. Default: all of the contract.'),
    where: z
      .string()
      .regex(/\S/, 'a condition such as premium > 1000')
      .optional()
      .describe('Extra SQL condition on the rows.'),
    sql: z
      .string()
      .refine((sql) => sql.includes('{window}'), 'must contain {window}, where the condition on date and time goes')
      .optional()
      .describe('SELECT of your own with a {window} placeholder: single trades, or groups with `grain`.'),
    grain: z
      .enum(['minute', 'hour', 'day'])
      .optional()
      .describe('Length of the groups in time; windows end between grains.'),
    time: identifierSchema
      .optional()
      .describe('Output column with the start of the grain, `YYYY-MM-DD HH:MM[:SS]`. Default: time.'),
    split: z
      .array(identifierSchema)
      .nonempty()
      .optional()
      .describe('Other keys of the GROUP BY; a grain that is too much for a page is split by the first.'),
    types: z
      .record(identifierSchema, columnTypeSchema)
      .optional()
      .describe('Types of output columns that are not columns of the trade record.'),
    symbols: z.array(symbolSchema).nonempty().optional().describe('Symbols whose snapshots are exported.'),
  })
  .superRefine((source, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    const allowed: readonly string[] = SOURCE_KEYS[source.api];
    for (const key of Object.keys(source)) {
      if (key === 'api' || allowed.includes(key)) continue;
      fail(key, `does not go with \`api: ${source.api}\`; allowed there: ${allowed.join(', ')}`);
    }
    if (allowed.includes('symbols') && source.symbols === undefined) fail('symbols', 'which symbols to export');
    if (source.api === 'clickhouse' && source.table === undefined) fail('table', 'which table to read: database.table');
    if (allowed.includes('sql') && source.table !== undefined && !TABLES.some((table) => table === source.table))
      fail('table', `allowed: ${TABLES.join(', ')}`);
    if (source.sql === undefined) {
      for (const key of ['grain', 'time', 'split'] as const) {
        if (source[key] !== undefined && allowed.includes(key)) fail(key, 'goes only with `sql`');
      }
      if (source.types !== undefined && source.api !== 'clickhouse') fail('types', 'goes only with `sql`');
    } else {
      if (source.grain === undefined) {
        for (const key of ['time', 'split'] as const)
          if (source[key] !== undefined) fail(key, 'goes only with `grain`');
      }
      for (const key of ['columns', 'where'] as const) {
        if (source[key] !== undefined) fail(key, 'does not go with `sql`: write it in the SQL');
      }
    }
  });

const onFailureSchema = z
  .enum(['warn', 'fail'])
  .optional()
  .describe('`fail` keeps the date from being sealed, `warn` is only told. Default: fail.');

const checkSchema = z
  .discriminatedUnion('check', [
    z.strictObject({
      check: z.literal('min-rows').describe('The date has at least so many rows.'),
      rows: z.int().positive().describe('Fewest rows.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('max-nulls').describe('At most this share of a column is null or empty.'),
      column: identifierSchema.describe('Column of the drop.'),
      share: z.number().min(0).max(1).describe('Largest share, 0 to 1.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('premium').describe('premium = price x size x 100 in every row.'),
      tolerance: z.number().min(0).optional().describe('Largest relative difference. Default: 0.0001.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('unique-id').describe('The source sends no id twice in the same version.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('dates').describe('Every row is of the date it is dropped under.'),
      on_failure: onFailureSchema,
    }),
  ])
  .describe('What must hold of a date before it is sealed.');

const rowsSchema = z
  .strictObject({
    on_bad: z
      .enum(['quarantine', 'fail'])
      .optional()
      .describe(
        'Rows with a value that can be taken neither exactly nor as null: `quarantine` keeps them in a file beside the drop, which is then degraded; `fail` fails the date at the first. Default: quarantine.',
      ),
    max: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .describe(
        'Largest share of the rows of a date that may be in quarantine, 0 to 1; beyond it the date fails. Above 0, one row always may. Default: 0.001.',
      ),
  })
  .superRefine((rows, context) => {
    if (rows.on_bad !== 'fail' || rows.max === undefined) return;
    context.addIssue({ code: 'custom', path: ['max'], message: 'goes only with `on_bad: quarantine`' });
  });

const s3Schema = z
  .strictObject({
    encryption: z
      .enum(['sse-s3', 'sse-kms'])
      .optional()
      .describe('Server-side encryption. Default: that of the bucket.'),
    kms_key: z.string().min(1).optional().describe('Key of `sse-kms`: id, ARN or alias. Default: that of the bucket.'),
    storage_class: z
      .string()
      .regex(/^[A-Z][A-Z0-9_]*$/, 'a storage class like STANDARD_IA')
      .optional()
      .describe('Storage class of the drops. Default: that of the bucket.'),
    tags: z
      .record(z.string().min(1).max(128), z.string().max(256))
      .optional()
      .describe('Tags of every object, at most 10.'),
    acl: z
      .enum(['private', 'bucket-owner-read', 'bucket-owner-full-control', 'authenticated-read', 'public-read'])
      .optional()
      .describe('Canned ACL. Default: none is sent.'),
  })
  .superRefine((s3, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (s3.kms_key !== undefined && s3.encryption !== 'sse-kms')
      fail('kms_key', 'goes only with `encryption: sse-kms`');
    if (Object.keys(s3.tags ?? {}).length > 10) fail('tags', 'S3 allows at most 10 tags');
  });

const cronSchema = z
  .string()
  .refine(
    (text) => isCron(text) && text.trim().split(/\s+/).length === 5,
    'a cron expression of five fields: minute hour day-of-month month day-of-week, e.g. "30 17 * * 1-5"',
  );

export const jobSchema = z.strictObject({
  name: nameSchema.describe('Name of the job; also names its state and its reports.'),
  source: sourceSchema.describe('What to read.'),
  partition: z.literal('date').optional().describe('Unit that is sealed. Always one trading date.'),
  drop: z
    .strictObject({
      to: z.string().min(1, 's3://bucket/prefix or a directory').describe('s3://bucket/prefix or a directory.'),
      dataset: nameSchema
        .refine((name) => !RESERVED_DATASETS.includes(name), {
          error: `is the name of a folder of flowdrop's own (${RESERVED_DATASETS.join(', ')} are)`,
        })
        .describe('Name of the dataset in the store.'),
      sort: z.array(identifierSchema).nonempty().optional().describe('Sort order. Default: symbol, time, id.'),
      s3: s3Schema.optional().describe('How objects are written to S3.'),
    })
    .describe('Where and how to drop it.'),
  rows: rowsSchema.optional().describe('What becomes of rows that cannot be taken as they are.'),
  checks: z.array(checkSchema).optional().describe('What must hold of a date before it is sealed.'),
  schedule: z
    .strictObject({
      cron: cronSchema.describe('When to run, five-field cron.'),
      timezone: timezoneSchema.optional().describe(`Time zone of the cron. Default: ${JOB_DEFAULTS.timezone}.`),
      retry: z
        .string()
        .regex(/^(?:off|[1-9]\d* ?[mhd])$/, 'a duration in minutes, hours or days (15m, 2h, 1d), or off')
        .optional()
        .describe(
          `How long after a failed run it is tried again, until the next scheduled one: 15m, 2h, or off. Default: ${JOB_DEFAULTS.retry}.`,
        ),
      timeout: z
        .string()
        .regex(/^(?:off|[1-9]\d* ?[mhd])$/, 'a duration in minutes, hours or days (90m, 8h, 1d), or off')
        .optional()
        .describe(
          `How long a run may take before the daemon stops it; it counts as failed, and the next one goes on from what is staged: 90m, 8h, or off. Default: ${JOB_DEFAULTS.timeout}.`,
        ),
      distributed: z
        .boolean()
        .optional()
        .describe('Whether daemons on several machines share the schedule, over FLOWDROP_REDIS_URL. Default: false.'),
    })
    .optional()
    .describe('When `flowdrop start` runs it; without it only by hand.'),
  reports: z.array(reportSchema).optional().describe('Reports mailed for the newest sealed date.'),
  alerts: z
    .strictObject({
      to: z.array(addressSchema).nonempty().optional().describe('Recipients of alerts, by mail.'),
      webhook: z
        .boolean()
        .optional()
        .describe('Whether alerts are posted to FLOWDROP_ALERT_WEBHOOK_URL too, where that is set. Default: true.'),
    })
    .optional()
    .describe('Operators who are told of failures, once per cause, and when it is over.'),
});

/** What the user writes. */
export type JobFile = z.infer<typeof jobSchema>;
