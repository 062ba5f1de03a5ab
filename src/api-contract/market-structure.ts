/**
 * Shapes of GET /api/v1/market-structure/{symbol}: parameters, success and failure. The specification shows only that
 * `symbol_meta`, `flow` and `structure` are objects; their members are the service's own. Dollars of exposure are per
 * 1% move of the underlying.
 */
import { z } from 'zod';
import { dateSchema, failureSchema, symbolSchema } from './snapshot.ts';

export const marketStructureRequestSchema = z.object({
  symbol: symbolSchema.describe('Underlying option root; lower case is taken as upper case.'),
  date: dateSchema.optional().describe('Retained historical date; left out: the active snapshot.'),
});

const number = (description: string) => z.number().describe(description);
const whole = (description: string) => z.number().int().describe(description);
const share = (description: string) => z.number().nullable().describe(description);

const symbolMetaSchema = z.looseObject({
  underlying_type: z.string().nullable().describe('Kind of underlying; null when not known.'),
  market_cap: z.number().nullable().describe('Market capitalization, dollars; null when not known.'),
  earning_date: z.string().nullable().describe('Next earnings date, YYYY-MM-DD; null when not known.'),
});

const flowSchema = z.looseObject({
  trades: whole('Trades of the session so far, cancel messages included.'),
  call_trades: whole('Trades of calls.'),
  put_trades: whole('Trades of puts.'),
  bullish_trades: whole('Trades whose sentiment is BULLISH.'),
  bearish_trades: whole('Trades whose sentiment is BEARISH.'),
  neutral_trades: whole('Trades with any other sentiment.'),
  contracts: whole('Contracts traded: the sum of sizes.'),
  call_contracts: whole('Calls traded.'),
  put_contracts: whole('Puts traded.'),
  total_premium: number('Dollars paid for options: the sum of `premium`.'),
  call_premium: number('Dollars paid for calls.'),
  put_premium: number('Dollars paid for puts.'),
  bullish_premium: number('Premium of BULLISH trades.'),
  bearish_premium: number('Premium of BEARISH trades.'),
  neutral_premium: number('Premium of trades with any other sentiment; the three add up to the total.'),
  net_premium: number('Bullish less bearish premium.'),
  sentiment: z.enum(['BULLISH', 'BEARISH', 'NEUTRAL']).describe('Sign of the net premium; NEUTRAL when it is 0.'),
  neutral_share: share('Neutral premium / total premium; null when nothing traded.'),
  put_call_premium_ratio: share('Put premium / call premium; null when no call traded.'),
  put_call_volume_ratio: share('Put contracts / call contracts; null when no call traded.'),
});
export type Flow = z.infer<typeof flowSchema>;

const intradayGexSchema = z.object({
  spot: z.number().positive().describe('Latest positive underlying price used for the summary, dollars.'),
  call_gex: z.number().nonnegative().describe('Full-chain call exposure, dollars.'),
  put_gex: z.number().nonpositive().describe('Full-chain put exposure, dollars, negative.'),
});

const sums = {
  call_gex: z.number().nonnegative().describe('Calls: gamma x open interest x 100 x spot^2 x 0.01, dollars.'),
  put_gex: z.number().nonpositive().describe('Puts: the same, negative.'),
  net_gex: number('Calls + puts.'),
};

const structureSchema = z.looseObject({
  source: z
    .enum(['trades', 'file'])
    .describe('`trades`: contracts that traded in the session; `file`: a loaded chain.'),
  spot: z.number().nullable().describe('Price at which the exposure is computed, dollars; null: no exposure either.'),
  contracts: whole('Contracts (series) of the chain.'),
  call_gex: sums.call_gex.nullable(),
  put_gex: sums.put_gex.nullable(),
  net_gex: sums.net_gex.nullable(),
  zero_gamma: z.number().nullable().describe('Price at which net exposure changes its sign; null when it does not.'),
  call_wall: z.number().nullable().describe('Strike with the largest call exposure; null when there is none.'),
  put_wall: z.number().nullable().describe('Strike with the most negative put exposure; null when there is none.'),
  gex_by_strike: z
    .array(
      z.looseObject({
        strike: number('Dollars.'),
        ...sums,
        call_oi: whole('Open interest of calls, contracts.'),
        put_oi: whole('Open interest of puts, contracts.'),
      }),
    )
    .describe('Every strike of the chain, ascending; empty when there is no spot.'),
  gex_by_expiration: z
    .array(z.looseObject({ expiration_date: z.string().describe('YYYY-MM-DD.'), ...sums }))
    .describe('Every expiration of the chain, ascending; empty when there is no spot.'),
});

export const marketStructureSuccessSchema = z
  .object({
    data: z
      .object({
        symbol: z.string().describe('Underlying option root.'),
        symbol_meta: symbolMetaSchema.describe('What the underlying is.'),
        flow: flowSchema.describe('What traded in the session so far.'),
        intraday_gex: intradayGexSchema.nullable().describe('Null when there is no intraday summary.'),
        structure: structureSchema.describe('Dealer gamma exposure of the chain.'),
      })
      .describe('The snapshot.'),
    meta: z
      .object({
        effective_date: dateSchema.describe('Date of the session.'),
        structure_as_of: z.iso.datetime().describe('Instant of the chain, UTC.'),
        flow_as_of: z.iso.datetime().describe('Trades up to this instant are included, UTC.'),
        intraday_gex_as_of: z.iso.datetime().nullable().describe('Instant of the summary, UTC; null without one.'),
      })
      .describe('When the snapshot was taken.'),
  })
  .meta({ id: 'MarketStructureSuccess' });
export type MarketStructureSuccess = z.infer<typeof marketStructureSuccessSchema>;

export const marketStructureFailureSchema = failureSchema('SNAPSHOT_UNAVAILABLE').meta({
  id: 'MarketStructureFailure',
});
