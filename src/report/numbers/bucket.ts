/**
 * Premium by days to expiration (calendar days from the trading date) and by the record's own `moneyness`. Invariant:
 * always every bucket, in the order of the model, and together they are the day. Pure.
 */

import type { ExpiryBucket, MoneynessBucket } from '../model.ts';
import { IS_ZERO_DTE } from '../sums/premium-sums.ts';
import { type PremiumRow, readPremiumPart } from './premium.ts';

const EXPIRIES = ['0DTE', 'week', 'month', 'later', 'unknown'] as const;
const MONEYNESS = ['ITM', 'ATM', 'OTM', 'unknown'] as const;

/** Last day of the buckets, calendar days: a month's contracts are those that expire within its longest. */
const WEEK_DAYS = 7;
const MONTH_DAYS = 31;

/** Name of the bucket, as SQL that ClickHouse and DuckDB read alike. */
export const EXPIRY_BUCKET = `CASE WHEN ${IS_ZERO_DTE} THEN '0DTE' WHEN expiration_date <= date + ${WEEK_DAYS} THEN 'week' WHEN expiration_date <= date + ${MONTH_DAYS} THEN 'month' WHEN expiration_date IS NULL THEN 'unknown' ELSE 'later' END`;
export const MONEYNESS_BUCKET = "CASE WHEN moneyness IN ('ITM', 'ATM', 'OTM') THEN moneyness ELSE 'unknown' END";

type BucketRow = PremiumRow & { readonly bucket: string };

export function readExpiries(rows: readonly BucketRow[]): readonly ExpiryBucket[] {
  return EXPIRIES.map((bucket) => ({ bucket, ...readPremiumPart(rows.find((row) => row.bucket === bucket)) }));
}

export function readMoneyness(rows: readonly BucketRow[]): readonly MoneynessBucket[] {
  return MONEYNESS.map((bucket) => ({ bucket, ...readPremiumPart(rows.find((row) => row.bucket === bucket)) }));
}
