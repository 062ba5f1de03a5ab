/**
 * Shapes of the historical SQL entry points: request body, success body and error body, as in the specification. The
 * separate one has no `meta`, and its own bodies for HTTP 400. Readers are lenient (`meta` may have more members),
 * writers are exact. Shared by the service and the worker; the OpenAPI description is generated from them.
 */
import { z } from 'zod';
import { TRADE_COLUMNS, type TradeColumn } from './trade.ts';

export const ERROR_CODES = [
  'INVALID_REQUEST',
  'INVALID_SQL',
  'UNAUTHORIZED',
  'SUBSCRIPTION_REQUIRED',
  'METHOD_NOT_ALLOWED',
  'INVALID_QUERY',
  'QUERY_TOO_BROAD',
  'RATE_LIMITED',
  'QUERY_TIMEOUT',
  'INTERNAL_ERROR',
] as const;
export type ErrorCode = (typeof ERROR_CODES)[number];

export const REASONS = [
  'UNKNOWN_IDENTIFIER',
  'UNKNOWN_FUNCTION',
  'TYPE_MISMATCH',
  'NUMERIC_OVERFLOW',
  'SYNTAX_ERROR',
  'INVALID_AGGREGATION',
  'INVALID_ARGUMENTS',
  'INVALID_EXPRESSION',
  'SCAN_LIMIT_EXCEEDED',
] as const;
export type Reason = (typeof REASONS)[number];

/** Recovery guidance of QUERY_TOO_BROAD, in the specification's words. */
export const TOO_BROAD_HINTS: readonly string[] = [
  'narrow the date range',
  'filter by symbol and other selective columns',
  'split into smaller time windows',
  'do not retry the same unchanged query',
  'LIMIT does not necessarily reduce rows scanned',
];

export const apiKeySchema = z.string().describe('Begins with cus_ or apikey_. Not needed with session authentication.');

export const requestSchema = z
  .object({
    api_key: apiKeySchema.optional(),
    sql: z
      .string()
      .describe(
        'One SELECT over RawOptionTrades or RawOptionTradesMaxDateOnlyMV (case-insensitive), in ClickHouse SQL. ' +
          'Comments are stripped. LIMIT caps the rows returned, not necessarily the rows scanned.',
      ),
    test_mode: z
      .boolean()
      .describe('When true, sample rows are returned and the database is not queried. In a form: true, false, 1 or 0.')
      .optional(),
  })
  .meta({ id: 'HistoricalRequest' });
export type HistoricalRequest = z.infer<typeof requestSchema>;

export const metaSchema = z.looseObject({
  entitlement: z.string().describe('active or trialing.'),
  row_limit: z.number().int().positive().describe('Most rows that one response can return.'),
  capped: z.boolean().describe('True when the row cap of a trial applies.'),
  truncated: z
    .boolean()
    .describe('True when the query produced more than row_limit rows; the rows beyond it were dropped.'),
  lookback_days: z
    .number()
    .int()
    .describe('Rolling window of visible trades, measured at execution; active paid subscriptions only.')
    .optional(),
  minimum_data_delay_minutes: z.number().int().describe('Visible trades are at least this old.'),
});
export type HistoricalMeta = z.infer<typeof metaSchema>;

/** The specification's text for columns that are text on the wire but have another type in the drop. */
const WIRE_TEXTS: Readonly<Record<string, string>> = {
  date: 'Execution date, YYYY-MM-DD.',
  time: "Trade creation time, YYYY-MM-DD HH:MM:SS, exchange's wall clock (America/New_York), not UTC.",
  expiration_date: 'Expiration date of the contract, YYYY-MM-DD.',
  earning_date: 'Next earnings date of the underlying, YYYY-MM-DD; may be an empty string.',
  updated_timestamp: 'When the record was created in the service: milliseconds since the epoch, UTC, in digits.',
  market_cap: 'Market capitalization in dollars, in digits; may be an empty string.',
};

/** A row of `SELECT *`: unknown text is an empty string, and numbers that a model could not compute are null. */
const tradeRecordSchema = z
  .looseObject(Object.fromEntries(TRADE_COLUMNS.map((column) => [column.name, describeColumn(column)])))
  .describe('An option trade: one row of the historical tables with all its columns.')
  .meta({ id: 'TradeRecord' });

function describeColumn({ name, wire, nullable, description }: TradeColumn): z.ZodType {
  const plain = { string: z.string(), integer: z.number().int(), float: z.number() }[wire];
  const schema = nullable && wire !== 'string' ? plain.nullable() : plain;
  return schema.describe(WIRE_TEXTS[name] ?? description);
}

/** A row of any other query. */
const resultRowSchema = z
  .record(z.string(), z.unknown())
  .describe("A row of the query's own columns, by name or alias.")
  .meta({ id: 'ResultRow' });

const dataSchema = z.array(z.union([tradeRecordSchema, resultRowSchema])).describe('The rows of the result.');

export const successSchema = z
  .looseObject({
    status: z.literal('SUCCESS'),
    data: dataSchema,
    meta: metaSchema.extend({ entitlement: z.enum(['active', 'trialing']).describe("The caller's entitlement.") }),
  })
  .describe('The rows, and what limits applied to them.')
  .meta({ id: 'HistoricalSuccess' });

/** What a reader accepts as an error: gateways and the separate entry point omit members. */
export const errorBodySchema = z.looseObject({
  status: z.literal('ERROR'),
  errorCode: z.string().optional(),
  reason: z.string().optional(),
  hints: z.array(z.string()).optional(),
  errorMsg: z.string().optional(),
  /** The portal uses `message` for its text if `sql` is missing. */
  message: z.string().optional(),
});
export type ErrorBody = z.infer<typeof errorBodySchema>;

/** What the service writes as an error. */
export const historicalFailureSchema = z
  .strictObject({
    status: z.literal('ERROR'),
    errorCode: z.enum(ERROR_CODES).describe('What kind of failure it is.'),
    reason: z.enum(REASONS).describe('Why the query is refused; with INVALID_QUERY and QUERY_TOO_BROAD.').optional(),
    hints: z.array(z.string()).describe('What to change about a query that is QUERY_TOO_BROAD.').optional(),
    errorMsg: z.string().describe('For people.'),
  })
  .describe('A failure of a historical SQL request.')
  .meta({ id: 'HistoricalFailure' });

/**
 * What a caller sends to the separate entry point. The service reads leniently and answers a missing member with one of
 * the documented 400 bodies, in the two shapes below; other failures are as at the main entry point.
 */
export const portalRequestSchema = z
  .object({
    api_key: apiKeySchema.describe('Key of the customer portal; begins with cus_ or apikey_.'),
    sql: requestSchema.shape.sql,
  })
  .meta({ id: 'PortalRequest' });

export const portalSuccessSchema = z
  .looseObject({ status: z.literal('SUCCESS'), data: dataSchema })
  .describe('The rows. Rows beyond the row limit are dropped without notice.')
  .meta({ id: 'PortalSuccess' });

/** For a missing key, or SQL that is not a SELECT or that the guardrails refuse. */
export const portalRefusalSchema = z
  .strictObject({ status: z.literal('ERROR'), errorMsg: z.string().describe('For people.') })
  .describe('The key is missing, or the SQL is refused.')
  .meta({ id: 'PortalRefusal' });

/** For a missing `sql`: its text has another name. */
export const portalSqlMissingSchema = z
  .strictObject({ status: z.literal('ERROR'), message: z.string().describe('For people.') })
  .describe('The body has no sql.')
  .meta({ id: 'PortalSqlMissing' });
