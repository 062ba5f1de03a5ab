/**
 * Shapes of POST /api/option-chain: request, success and failure. The specification shows neither the members of a row
 * nor those of `meta`; the ones here are the service's own, and readers tolerate others.
 */
import { z } from 'zod';
import { dateSchema, failureSchema, symbolSchema } from './snapshot.ts';

/** A number of dollars; forms send it as text. */
const NUMBER_TEXT = /^\s*\d{1,12}(\.\d{1,12})?\s*$/;
const dollars = z.union(
  [z.number().nonnegative(), z.string().regex(NUMBER_TEXT).transform(Number)],
  'must be a number of dollars, 0 or more',
);
const optionSide = z
  .string()
  // Spelled out, because JSON Schema has no flag to ignore case.
  .regex(/^([Cc][Aa][Ll][Ll]|[Pp][Uu][Tt])$/, 'must be CALL or PUT')
  .transform((side) => (side.toUpperCase() === 'CALL' ? 'CALL' : 'PUT'));

export const chainRequestSchema = z
  .object({
    api_key: z.string().optional().describe('API key; may be left out with session authentication.'),
    symbol: symbolSchema.describe('Underlying symbol; lower case is taken as upper case.'),
    date: dateSchema.optional().describe('Trading date; left out: the latest session.'),
    expiration_date: dateSchema.optional().describe('Only contracts of this expiration.'),
    put_call: optionSide.optional().describe('CALL or PUT (in any case): only calls or only puts.'),
    strike: dollars.optional().describe('Only this strike, dollars; may be sent as text.'),
    strike_min: dollars.optional().describe('Lowest strike, dollars, included.'),
    strike_max: dollars.optional().describe('Highest strike, dollars, included.'),
  })
  .refine(({ strike_min = 0, strike_max = Number.POSITIVE_INFINITY }) => strike_min <= strike_max, {
    message: 'strike_min must not be above strike_max',
    path: ['strike_min'],
  })
  .meta({ id: 'ChainRequest' });
export type ChainRequest = z.infer<typeof chainRequestSchema>;

const number = (description: string) => z.number().describe(description);
const known = (description: string) => z.number().nullable().describe(`${description} Null when not known.`);

export const chainRowSchema = z
  .looseObject({
    symbol: z.string().describe('Underlying symbol.'),
    option_symbol: z.string().describe('Contract: root, yymmdd, P or C, strike in thousandths (8 digits).'),
    expiration_date: z.string().describe('YYYY-MM-DD.'),
    put_call: z.enum(['CALL', 'PUT']).describe('CALL or PUT.'),
    strike: number('Strike price, dollars.'),
    bid: known('Best bid, dollars.'),
    bid_size: known('Size at the best bid, contracts.'),
    ask: known('Best ask, dollars.'),
    ask_size: known('Size at the best ask, contracts.'),
    last: known('Price of the latest trade, dollars.'),
    last_time: z
      .string()
      .nullable()
      .describe("Time of the latest trade, the exchange's wall clock; null when not known."),
    volume: number('Contracts traded in the session so far.'),
    open_interest: number('Open interest, contracts.'),
    iv: known('Implied volatility, annualized, 1 = 100%.'),
    delta: known('Change of the price per dollar of the underlying.'),
    gamma: known('Change of delta per dollar of the underlying.'),
    theta: known('Change of the price per day.'),
    vega: known('Change of the price per point of volatility.'),
    rho: known('Change of the price per point of the interest rate.'),
  })
  .meta({ id: 'ChainRow' });
export type ChainRow = z.infer<typeof chainRowSchema>;

const chainMetaSchema = z.looseObject({
  symbol: z.string().describe('Underlying symbol.'),
  date: z.string().describe('Date of the session, YYYY-MM-DD.'),
  as_of: z.iso.datetime().describe('Instant of the snapshot, UTC.'),
  session: z.enum(['OPEN', 'CLOSED']).describe('OPEN while later snapshots of this session are to come.'),
  next_refresh: z.iso.datetime().nullable().describe('Instant of the next snapshot, UTC; null when this is the last.'),
  spot: z.number().nullable().describe('Latest positive price of the underlying, dollars; null when there was none.'),
  contracts: z.number().int().describe('Contracts in `data`.'),
  total_contracts: z.number().int().describe('Contracts of the snapshot, before the filters.'),
  source: z
    .enum(['trades', 'file'])
    .describe('`trades`: contracts that traded in the session, as of their latest trade; `file`: a loaded chain.'),
});
export type ChainMeta = z.infer<typeof chainMetaSchema>;

export const chainSuccessSchema = z
  .object({
    data: z.array(chainRowSchema).describe('Contracts by expiration, strike, call or put; empty when none matches.'),
    meta: chainMetaSchema.describe('What the snapshot is.'),
  })
  .meta({ id: 'ChainSuccess' });

export const chainFailureSchema = failureSchema('SYMBOL_NOT_FOUND', 'REQUEST_TOO_BROAD', 'QUERY_TIMEOUT').meta({
  id: 'ChainFailure',
});
