/**
 * What the option chain and market-structure endpoints share on the wire: the text of a symbol and of a date, the
 * refresh of snapshots, and their failures. The specification does not show the body of their failures; here it is that
 * of the historical endpoints.
 */
import { z } from 'zod';
import type { ErrorCode } from './historical.ts';

/** Interval of snapshots during market hours, seconds. */
export const SNAPSHOT_REFRESH_SECONDS = 90;

/** Codes of both endpoints. */
const SHARED_CODES = [
  'INVALID_REQUEST',
  'UNAUTHORIZED',
  'SUBSCRIPTION_REQUIRED',
  'METHOD_NOT_ALLOWED',
  'SNAPSHOT_NOT_FOUND',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
] as const;

/** Every code of every endpoint. */
export type ApiErrorCode =
  | ErrorCode
  | 'SNAPSHOT_NOT_FOUND'
  | 'SYMBOL_NOT_FOUND'
  | 'REQUEST_TOO_BROAD'
  | 'SNAPSHOT_UNAVAILABLE';

/** Letters, digits and the marks of share classes and indices. The longest root of the OCC has 6 characters. */
const SYMBOL = /^[A-Za-z0-9^][A-Za-z0-9.^-]{0,11}$/;

export const symbolSchema = z
  .string()
  .regex(SYMBOL, 'must be 1 to 12 letters, digits, dots, dashes or carets')
  .transform((symbol) => symbol.toUpperCase());

/** A date that exists: 2026-02-30 is refused. */
export const dateSchema = z.iso.date('must be a calendar date that exists, YYYY-MM-DD');

/** The body of a failure with one of the shared codes or of these. */
export function failureSchema<const Code extends ApiErrorCode>(...codes: Code[]) {
  return z.object({
    status: z.literal('ERROR').describe('Always ERROR.'),
    errorCode: z.enum([...SHARED_CODES, ...codes]).describe('What went wrong, for programs.'),
    errorMsg: z.string().describe('What went wrong, for people.'),
  });
}
