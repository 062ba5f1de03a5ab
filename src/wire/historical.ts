/**
 * Shapes of the historical SQL endpoints: request body, success body and error body, as the specification gives them.
 * Readers are lenient (`meta` may carry further members), writers are exact. Shared by the service and the worker.
 */
import { z } from 'zod';

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

export const requestSchema = z.object({
  api_key: z.string().optional(),
  sql: z.string(),
  test_mode: z.boolean().optional(),
});
export type HistoricalRequest = z.infer<typeof requestSchema>;

export const metaSchema = z.looseObject({
  entitlement: z.string(),
  row_limit: z.number().int().positive(),
  capped: z.boolean(),
  truncated: z.boolean(),
  lookback_days: z.number().int().optional(),
  minimum_data_delay_minutes: z.number().int(),
});
export type HistoricalMeta = z.infer<typeof metaSchema>;

export const errorBodySchema = z.looseObject({
  status: z.literal('ERROR'),
  errorCode: z.string().optional(),
  reason: z.string().optional(),
  hints: z.array(z.string()).optional(),
  errorMsg: z.string().optional(),
  /** The portal's answer to a missing `sql` names its text `message`. */
  message: z.string().optional(),
});
export type ErrorBody = z.infer<typeof errorBodySchema>;
