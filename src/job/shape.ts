/**
 * The shape of a job file as the user writes it, in zod: the only source of the checks in `parse.ts` and of the JSON
 * Schema that `flowdrop schema` prints. Unknown keys are errors: a misspelled key must not silently become a default.
 */
import { validate as isCron } from 'node-cron';
import { z } from 'zod';
import { KNOWN_FAMILIES } from '../api-contract/family.ts';
import { EXCHANGE_TIME_ZONE, TABLES } from '../api-contract/published-limits.ts';
import { RESERVED_DATASETS } from '../store/object-key.ts';
import {
  addressSchema,
  camelCase,
  durationOrOff,
  durationSchema,
  identifierSchema,
  nameSchema,
  optional,
  orNull,
  settleSchema,
  timezoneSchema,
  usual,
} from './plain-shape.ts';
import { reportSchema } from './report-shape.ts';

/** What programs can be notified of. `alert/events.ts` builds the documents. */
export const EVENT_TYPES = ['drop.sealed', 'drop.restated', 'drop.extended', 'date.lost', 'report.sent'] as const;

/** A date of the API's trades can be sealed early, because audits repair what comes later. */
export const SETTLE_SECONDS = { audited: 60, unaudited: 15 * 60 } as const;

const columnTypeSchema = z
  .enum(['string', 'int32', 'int64', 'double', 'date', 'wall', 'instant'])
  .describe('Type in the drop; `wall` is the exchange wall clock, `instant` is UTC.');

const symbolSchema = z.string().regex(/^[A-Z0-9][A-Z0-9.^/_-]{0,15}$/, 'a symbol in capitals, e.g. SPX or BRK.B');

/** Keys of `source` that go with each API, besides `api` itself. */
const SOURCE_KEYS = {
  historical: ['table', 'columns', 'where', 'sql', 'grain', 'time', 'split', 'types', 'key'],
  portal: ['table', 'columns', 'where', 'sql', 'grain', 'time', 'split', 'types', 'key'],
  chain: ['symbols', 'key'],
  'market-structure': ['symbols', 'key'],
  clickhouse: ['table', 'columns', 'where', 'types'],
} as const;

const sourceSchema = z
  .strictObject({
    api: z
      .enum(['historical', 'portal', 'chain', 'market-structure', 'clickhouse'])
      .describe('Source to read: an endpoint of the options data API, or a ClickHouse server.'),
    table: optional(
      z.string().min(1),
      `Table to read: ${TABLES.join(' or ')} (default: the first). For a ClickHouse server: database.table.`,
    ),
    columns: optional(z.array(identifierSchema).nonempty(), 'Columns to export. Default: all columns of the contract.'),
    where: optional(z.string().regex(/\S/, 'a condition such as premium > 1000'), 'Extra SQL condition on the rows.'),
    sql: optional(
      z
        .string()
        .refine((sql) => sql.includes('{window}'), 'must contain {window}, where the condition on date and time goes'),
      'Your own SELECT with a {window} placeholder. It returns single trades, or groups with `grain`.',
    ),
    grain: z.enum(['minute', 'hour', 'day']).optional().describe('Time span of a group; windows end between grains.'),
    time: optional(
      identifierSchema,
      'Output column with the start of the grain, `YYYY-MM-DD HH:MM[:SS]`. Default: time.',
    ),
    split: optional(
      z.array(identifierSchema).nonempty(),
      'Other keys of the GROUP BY. A grain too large for one page is split by them, in order.',
    ),
    types: optional(
      z.record(identifierSchema, columnTypeSchema),
      'Types of output columns that are not in the trade record.',
    ),
    key: optional(
      z
        .string()
        .regex(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/, 'a name in small letters, digits and single hyphens, e.g. desk')
        .max(32),
      'Name of a key for this job: `desk` is in FLOWDROP_KEY_DESK. Default: the key of the entry point.',
    ),
    symbols: z.array(symbolSchema).nonempty().optional().describe('Symbols whose end-of-day snapshots are exported.'),
  })
  .superRefine((source, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    const allowed: readonly string[] = SOURCE_KEYS[source.api];
    for (const key of Object.keys(source)) {
      if (key === 'api' || allowed.includes(key)) continue;
      fail(key, `is not allowed with \`api: ${source.api}\`; allowed there: ${allowed.join(', ')}`);
    }
    if (allowed.includes('symbols') && source.symbols === undefined) fail('symbols', 'which symbols to export');
    if (source.api === 'clickhouse' && source.table === undefined) fail('table', 'which table to read: database.table');
    if (allowed.includes('sql') && source.table !== undefined && !TABLES.some((table) => table === source.table))
      fail('table', `allowed: ${TABLES.join(', ')}`);
    if (source.sql === undefined) {
      for (const key of ['grain', 'time', 'split'] as const) {
        if (source[key] !== undefined && allowed.includes(key)) fail(key, 'is only allowed with `sql`');
      }
      if (source.types !== undefined && source.api !== 'clickhouse') fail('types', 'is only allowed with `sql`');
    } else {
      if (source.grain === undefined) {
        for (const key of ['time', 'split'] as const)
          if (source[key] !== undefined) fail(key, 'is only allowed with `grain`');
      }
      for (const key of ['columns', 'where'] as const) {
        if (source[key] !== undefined) fail(key, 'is not allowed with `sql`: write it in the SQL');
      }
    }
  });

const s3Schema = z
  .strictObject({
    encryption: optional(z.enum(['sse-s3', 'sse-kms']), 'Server-side encryption. Default: as set for the bucket.'),
    kms_key: optional(z.string().min(1), 'Key of `sse-kms`: id, ARN or alias. Default: as set for the bucket.'),
    storage_class: optional(
      z.string().regex(/^[A-Z][A-Z0-9_]*$/, 'a storage class like STANDARD_IA'),
      'Storage class of the drops. Default: as set for the bucket.',
    ),
    tags: optional(z.record(z.string().min(1).max(128), z.string().max(256)), 'Tags of every object, at most 10.'),
    acl: optional(
      z.enum(['private', 'bucket-owner-read', 'bucket-owner-full-control', 'authenticated-read', 'public-read']),
      'Canned ACL. Default: none.',
    ),
  })
  .superRefine((s3, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (s3.kms_key !== undefined && s3.encryption !== 'sse-kms')
      fail('kms_key', 'is only allowed with `encryption: sse-kms`');
    if (Object.keys(s3.tags ?? {}).length > 10) fail('tags', 'S3 allows at most 10 tags');
  })
  .transform(camelCase);

const addressOfCatalog = z
  .url({ protocol: /^https?$/, error: 'an http or https address' })
  .refine((text) => !/[?#@]/.test(text), 'an address without user, password and query');

const catalogSchema = z
  .strictObject({
    uri: addressOfCatalog.describe('Address of the catalog, before /v1/config.'),
    warehouse: orNull(z.string().min(1)).describe('Warehouse, as the catalog calls it. Default: its only one.'),
    namespace: usual(
      z.string().regex(/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/, 'letters, digits, - and _, parts separated by dots'),
      'flowdrop',
      'Namespace of the table; created if missing. Default: flowdrop.',
    ),
    table: optional(
      z.string().regex(/^[A-Za-z0-9_-]+$/, 'letters, digits, - and _'),
      'Name of the table. Default: the dataset.',
    ),
    oauth_uri: orNull(addressOfCatalog).describe(
      'Where FLOWDROP_CATALOG_CREDENTIAL is exchanged for a token. Default: /v1/oauth/tokens of the catalog.',
    ),
    scope: z.string().min(1).default('catalog').describe('OAuth 2 scope of that token. Default: catalog.'),
  })
  .transform(camelCase);

const dropSchema = z.strictObject({
  to: z.string().min(1, 's3://bucket/prefix or a directory').describe('s3://bucket/prefix or a directory.'),
  dataset: nameSchema
    .refine((name) => !RESERVED_DATASETS.includes(name), {
      error: `is reserved for flowdrop's own folders (reserved: ${RESERVED_DATASETS.join(', ')})`,
    })
    .describe('Name of the dataset in the store.'),
  table: orNull(z.enum(['iceberg'])).describe(
    '`iceberg`: the dataset is also an Iceberg table, and a restated date gets a new file instead of replacing the old one. Default: files only.',
  ),
  catalog: catalogSchema.optional().describe('Iceberg REST catalog that also has the table; needs `table`.'),
  sort: z.array(identifierSchema).nonempty().optional().describe('Sort order. Default: symbol, time, id.'),
  compression: usual(
    z.enum(['zstd', 'snappy', 'gzip']),
    'zstd',
    'Compression of new drops. `snappy` or `gzip` for readers without Zstandard; their files are larger. Default: zstd.',
  ),
  s3: s3Schema.optional().describe('How objects are written to S3.'),
});

const onFailureSchema = z
  .enum(['warn', 'fail'])
  .default('fail')
  .describe('`fail`: the date is not sealed. `warn`: the date is sealed and the result is reported. Default: fail.');

const rangeSchema = z
  .tuple([z.number().min(0), z.number().min(1)])
  .refine(([low]) => low <= 1, 'the lower bound is 0 to 1, the upper 1 or more');

const checkSchema = z
  .discriminatedUnion('check', [
    z.strictObject({
      check: z.literal('min-rows').describe('The date has at least this many rows.'),
      rows: z.int().positive().describe('Minimum rows.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('max-nulls').describe('At most this share of a column is null or empty.'),
      column: identifierSchema.describe('Column of the drop.'),
      share: z.number().min(0).max(1).describe('Maximum share, 0 to 1.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('premium').describe('premium = price x size x 100 in every row.'),
      tolerance: z.number().min(0).default(0.0001).describe('Maximum relative difference. Default: 0.0001.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('unique-id').describe('The source sends no id twice in the same version.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('dates').describe('Every row has the date of its drop.'),
      on_failure: onFailureSchema,
    }),
    z.strictObject({
      check: z.literal('baseline').describe('The date looks like the sessions before it.'),
      sessions: z.int().min(3).max(20).default(5).describe('Number of sessions in the median. Default: 5.'),
      symbols: usual(
        z.int().min(0).max(1000),
        50,
        'Symbols with the most trades that are compared one by one. Default: 50.',
      ),
      total: usual(rangeSchema, [0.5, 3], 'Allowed multiples of the median for the whole day. Default: [0.5, 3].'),
      symbol: usual(rangeSchema, [0.1, 10], 'Allowed multiples of the median for one symbol. Default: [0.1, 10].'),
      early: durationSchema
        .prefault('10m')
        .describe('How much earlier than usual the last trade of the day or of a symbol may be. Default: 10m.'),
      nulls: usual(z.number().min(0).max(1), 0.05, "Allowed rise of a column's share of nulls, 0 to 1. Default: 0.05."),
      new_symbols: usual(
        z.number().min(0).max(1),
        0.1,
        'Allowed share of symbols that no earlier session has, 0 to 1. Default: 0.1.',
      ),
      on_failure: usual(
        z.enum(['warn', 'fail']),
        'warn',
        '`warn`: the date is sealed and the result is reported. `fail`: it is not sealed. Default: warn.',
      ),
    }),
  ])
  .transform((check) => {
    if (check.check !== 'baseline') return camelCase(check);
    const { early: earlySeconds, ...rest } = check;
    return { ...camelCase(rest), earlySeconds };
  })
  .describe('Checks that a date must pass before it is sealed.');

const rowsSchema = z
  .strictObject({
    on_bad: usual(
      z.enum(['quarantine', 'fail']),
      'quarantine',
      'What to do with bad rows. A row is bad if a value can be stored neither exactly nor as null. `quarantine` keeps bad rows in a file beside the drop, which is then degraded; `fail` fails the date at the first one. Default: quarantine.',
    ),
    max: optional(
      z.number().min(0).max(1),
      'Maximum share of the rows of a date in quarantine, 0 to 1; above it the date fails. Unless it is 0, one row is always allowed. Default: 0.001.',
    ),
  })
  .superRefine((rows, context) => {
    if (rows.on_bad !== 'fail' || rows.max === undefined) return;
    context.addIssue({ code: 'custom', path: ['max'], message: 'is only allowed with `on_bad: quarantine`' });
  })
  // One in a thousand: a larger share is not just a few odd rows, and would distort the numbers.
  .transform(({ on_bad: onBad, max: maxBad = 0.001 }) => ({ onBad, maxBad }));

const familiesSchema = z
  .record(symbolSchema, z.array(symbolSchema).nonempty())
  .default({})
  .transform((own) => {
    const written = Object.entries(own).map(([name, members]) => [name, [...new Set([name, ...members])]] as const);
    return { ...KNOWN_FAMILIES, ...Object.fromEntries(written) };
  })
  .superRefine((families, context) => {
    const names = Object.values(families).flat();
    for (const name of new Set(names.filter((one, at) => names.indexOf(one) < at)))
      context.addIssue({ code: 'custom', message: `${name} is in two families` });
  });

const cronSchema = z
  .string()
  .refine(
    (text) => isCron(text) && text.trim().split(/\s+/).length === 5,
    'a cron expression of five fields: minute hour day-of-month month day-of-week, e.g. "31 16 * * 1-5"',
  );

export const jobSchema = z.strictObject({
  name: nameSchema.describe('Name of the job, its state, its reports and its alerts.'),
  source: sourceSchema.describe('What to read.'),
  partition: z.literal('date').optional().describe('Unit that is sealed. Always one trading date.'),
  drop: dropSchema.describe('Where and how drops are written.'),
  rows: rowsSchema.prefault({}).describe('What to do with bad rows.'),
  checks: z.array(checkSchema).default([]).describe('Checks that a date must pass before it is sealed.'),
  audit: optional(
    z.enum(['repair', 'mirror', 'report', 'off']),
    'What a run does with sealed dates that differ from the source. `repair` takes over added and changed rows, and keeps rows that are gone; `mirror` also removes these; `report` changes nothing; `off` compares nothing. Only with SQL exports. Default: repair.',
  ),
  settle: optional(
    settleSchema,
    `When a date may be sealed. \`close\`: after the close, so that the mail is early; what trades in the curb extends the date later. \`curb\`: after the curb of index options (17:00). \`learned\`: after the curb if three of the last five like sessions had one. And how long after these trades are visible, which is 15 minutes later: 1m, 30m, "curb 5m". Default: close, and ${SETTLE_SECONDS.audited / 60}m for SQL exports, ${SETTLE_SECONDS.unaudited / 60}m for others.`,
  ),
  schedule: z
    .strictObject({
      cron: cronSchema.describe('When to run: a cron line of five fields.'),
      timezone: usual(timezoneSchema, EXCHANGE_TIME_ZONE, `Time zone of the cron. Default: ${EXCHANGE_TIME_ZONE}.`),
      // Long enough for most network faults to pass, short enough for many retries in a night.
      retry: durationOrOff('15m, 2h, 1d')
        .prefault('15m')
        .describe('Wait before a failed run is retried, until the next scheduled run: 15m, 2h, or off. Default: 15m.'),
      // Twice what the longest lookback takes at one request per second; leaves the morning for more retries.
      timeout: durationOrOff('90m, 8h, 1d')
        .prefault('8h')
        .describe(
          'Maximum duration of a run: 90m, 8h, or off. Then the daemon stops it and it counts as failed; the next run continues from what is staged. Default: 8h.',
        ),
      stage: orNull(durationSchema).describe(
        'How often the daemon stages the session while it runs: 5m. It fetches only full pages of what is visible; after the close the scheduled run fetches only the last minutes. Only for single trades. Default: off.',
      ),
      sealed_by: orNull(
        z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'a time of day with two digits each: "17:30"'),
      ).describe(
        'By when the session of the day must be sealed and its reports accepted by the mail server, else the operators are alerted, whatever the cause: "17:30", in the time zone of the schedule, the first such time at which the date can be sealed. Default: none.',
      ),
      distributed: usual(
        z.boolean(),
        false,
        'Whether daemons on several machines share the schedule through FLOWDROP_REDIS_URL. Default: false.',
      ),
    })
    .transform(
      ({ retry: retrySeconds, timeout: timeoutSeconds, stage: stageSeconds, sealed_by: sealedBy, ...schedule }) => ({
        ...schedule,
        sealedBy,
        retrySeconds,
        timeoutSeconds,
        stageSeconds,
      }),
    )
    .optional()
    .describe('When `flowdrop start` runs the job. Without a schedule, it runs only by hand.'),
  families: familiesSchema.describe(
    `Symbols that are one in reports, chains and the column \`family\` of queries, beside ${Object.entries(
      KNOWN_FAMILIES,
    )
      .map(([family, [, weekly]]) => `${family} with ${weekly}`)
      .join(', ')}: \`XYZ: [XYZ, XYZW]\`. \`SPX: [SPX]\` keeps SPXW apart.`,
  ),
  reports: z.array(reportSchema).default([]).describe('Reports mailed for the newest sealed date.'),
  alerts: z
    .strictObject({
      to: z.array(addressSchema).nonempty().optional().describe('Recipients of alerts, by mail.'),
      webhook: usual(
        z.boolean(),
        true,
        'Whether alerts are also posted to FLOWDROP_ALERT_WEBHOOK_URL, if it is set. Default: true.',
      ),
    })
    .prefault({})
    .transform(({ to = [], webhook }) => ({ to, webhook }))
    .describe('Operators who get alerts about failures, once per cause, and again when it is over.'),
  events: z
    .array(z.enum(EVENT_TYPES))
    .default([...EVENT_TYPES])
    .transform((types) => [...new Set(types)])
    .describe('Events that are posted to FLOWDROP_EVENTS_URL, if it is set. Default: all; []: none.'),
});

/** What the user wrote, with its defaults. `resolve-job.ts` adds what follows from several keys together. */
export type JobFile = Immutable<z.output<typeof jobSchema>>;

type Immutable<T> = T extends object ? { readonly [K in keyof T]: Immutable<T[K]> } : T;
