/**
 * The shape of a job file as the user writes it, in zod: the one source of the checks in `parse.ts` and of the JSON
 * Schema that `flowdrop schema` prints. Unknown keys are errors: a misspelt key must not be a silent default.
 */
import { validate as isCron } from 'node-cron';
import { z } from 'zod';
import { EXCHANGE_TIME_ZONE, TABLES } from '../wire/limits.ts';

/** Defaults of a job file; CLI flags have none of their own. */
export const JOB_DEFAULTS = {
  table: 'RawOptionTrades',
  where: '',
  timeColumn: 'time',
  sort: ['symbol', 'time', 'id'],
  timezone: EXCHANGE_TIME_ZONE,
} as const;

/** Names become folders, keys and file names, so they are plain. */
const nameSchema = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, 'lower-case letters, digits, - and _, beginning with a letter or digit');

const identifierSchema = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,62}$/, 'a column name: letters, digits and _, not beginning with a digit');

const addressSchema = z.email('an e-mail address like desk@example.com');

const columnTypeSchema = z
  .enum(['string', 'int32', 'int64', 'double', 'date', 'wall', 'instant'])
  .describe('Type in the drop; `wall` is the exchange wall clock, `instant` is UTC.');

const sourceSchema = z
  .strictObject({
    api: z.enum(['historical', 'portal']).describe('Entry point of the options data API.'),
    table: z.enum(TABLES).optional().describe(`Table to read. Default: ${JOB_DEFAULTS.table}.`),
    columns: z
      .array(identifierSchema)
      .nonempty()
      .optional()
      .describe('Columns to export. Default: all of the contract.'),
    where: z.string().min(1).optional().describe('Extra SQL condition on the rows.'),
    sql: z
      .string()
      .refine((sql) => sql.includes('{window}'), 'must contain {window}, where the condition on date and time goes')
      .optional()
      .describe('Aggregating SELECT with a {window} placeholder; needs `grain`.'),
    grain: z
      .enum(['minute', 'hour', 'day'])
      .optional()
      .describe('Length of the groups in time; windows end between grains.'),
    time: identifierSchema
      .optional()
      .describe('Output column with the start of the grain, `YYYY-MM-DD HH:MM[:SS]`. Default: time.'),
    split: z.array(identifierSchema).optional().describe('Other keys of the GROUP BY.'),
    types: z
      .record(identifierSchema, columnTypeSchema)
      .optional()
      .describe('Types of output columns that are not columns of the trade record.'),
  })
  .superRefine((source, context) => {
    const fail = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
    if (source.sql === undefined) {
      for (const key of ['grain', 'time', 'split', 'types'] as const) {
        if (source[key] !== undefined) fail(key, 'goes only with `sql`');
      }
    } else {
      if (source.grain === undefined) fail('sql', 'needs `grain`: minute, hour or day');
      for (const key of ['columns', 'where'] as const) {
        if (source[key] !== undefined) fail(key, 'does not go with `sql`: write it in the SQL');
      }
    }
  });

const cronSchema = z
  .string()
  .refine(
    (text) => isCron(text) && text.trim().split(/\s+/).length === 5,
    'a cron expression of five fields: minute hour day-of-month month day-of-week, e.g. "30 17 * * 1-5"',
  );

const timezoneSchema = z.string().refine(isTimeZone, 'a time zone of the IANA database, e.g. America/New_York');

export const jobSchema = z.strictObject({
  name: nameSchema.describe('Name of the job; also names its state and its reports.'),
  source: sourceSchema.describe('What to read.'),
  partition: z.literal('date').optional().describe('Unit that is sealed. Always one trading date.'),
  drop: z
    .strictObject({
      to: z.string().min(1, 's3://bucket/prefix or a directory').describe('s3://bucket/prefix or a directory.'),
      dataset: nameSchema.describe('Name of the dataset in the store.'),
      sort: z.array(identifierSchema).nonempty().optional().describe('Sort order. Default: symbol, time, id.'),
    })
    .describe('Where and how to drop it.'),
  schedule: z
    .strictObject({
      cron: cronSchema.describe('When to run, five-field cron.'),
      timezone: timezoneSchema.optional().describe(`Time zone of the cron. Default: ${JOB_DEFAULTS.timezone}.`),
    })
    .optional()
    .describe('When `flowdrop start` runs it; without it only by hand.'),
  reports: z
    .array(
      z.strictObject({
        template: z.literal('flow').describe('Template of the report.'),
        to: z.array(addressSchema).nonempty().describe('Recipients; each gets a mail of their own.'),
        symbols: z.array(z.string().min(1)).optional().describe('Watchlist shown in a table of its own.'),
      }),
    )
    .optional()
    .describe('Reports mailed for the newest sealed date.'),
  alerts: z
    .strictObject({ to: z.array(addressSchema).nonempty().describe('Recipients of alerts.') })
    .optional()
    .describe('Operators who are told of failures.'),
});

/** What the user writes. */
export type JobFile = z.infer<typeof jobSchema>;

function isTimeZone(text: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}
