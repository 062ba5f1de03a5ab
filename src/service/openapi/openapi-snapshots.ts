/** Interface description of option chain and market structure. A table of data. */

import { marketStructureRequestSchema } from '../../api-contract/market-structure.ts';
import { CHAIN_PATH, MARKET_STRUCTURE_PATH } from '../../api-contract/published-limits.ts';
import { SNAPSHOT_REFRESH_SECONDS } from '../../api-contract/snapshot.ts';
import { JSON_OR_FORM, type Operation } from './openapi-operation.ts';

const KEY = 'cus_0123456789abcdef';

const failure = (errorCode: string, errorMsg: string) => ({ status: 'ERROR', errorCode, errorMsg });

const CHAIN = {
  data: [
    {
      symbol: 'SPY',
      option_symbol: 'SPY250307C00600000',
      expiration_date: '2025-03-07',
      put_call: 'CALL',
      strike: 600,
      bid: 1.84,
      bid_size: 120,
      ask: 1.85,
      ask_size: 96,
      last: 1.85,
      last_time: '2025-03-03 09:31:07',
      volume: 10,
      open_interest: 12_480,
      iv: 0.1712,
      delta: 0.2931,
      gamma: 0.030114,
      theta: -0.4127,
      vega: 0.2218,
      rho: null,
    },
  ],
  meta: {
    symbol: 'SPY',
    date: '2025-03-03',
    as_of: '2025-03-03T14:46:30.000Z',
    session: 'OPEN',
    next_refresh: '2025-03-03T14:48:00.000Z',
    spot: 595.2,
    contracts: 1,
    total_contracts: 4_312,
    source: 'trades',
  },
};

const EXPOSURE = { call_gex: 1_331_420.5, put_gex: -902_113.25, net_gex: 429_307.25 };

const STRUCTURE = {
  data: {
    symbol: 'SPY',
    symbol_meta: { underlying_type: 'ETF', market_cap: null, earning_date: null },
    flow: {
      trades: 2,
      call_trades: 1,
      put_trades: 1,
      bullish_trades: 1,
      bearish_trades: 0,
      neutral_trades: 1,
      contracts: 13,
      call_contracts: 10,
      put_contracts: 3,
      total_premium: 2_570,
      call_premium: 1_850,
      put_premium: 720,
      bullish_premium: 1_850,
      bearish_premium: 0,
      neutral_premium: 720,
      net_premium: 1_850,
      sentiment: 'BULLISH',
      neutral_share: 0.2802,
      put_call_premium_ratio: 0.3892,
      put_call_volume_ratio: 0.3,
    },
    intraday_gex: { spot: 595.2, call_gex: EXPOSURE.call_gex, put_gex: EXPOSURE.put_gex },
    structure: {
      source: 'trades',
      spot: 595.2,
      contracts: 2,
      ...EXPOSURE,
      zero_gamma: 594.1,
      call_wall: 600,
      put_wall: 590,
      gex_by_strike: [{ strike: 600, ...EXPOSURE, call_oi: 12_480, put_oi: 9_310 }],
      gex_by_expiration: [{ expiration_date: '2025-03-07', ...EXPOSURE }],
    },
  },
  meta: {
    effective_date: '2025-03-03',
    structure_as_of: '2025-03-03T14:46:30.000Z',
    flow_as_of: '2025-03-03T14:46:30.000Z',
    intraday_gex_as_of: '2025-03-03T14:46:30.000Z',
  },
};

export const READ_OPTION_CHAIN: Operation = {
  operationId: 'readOptionChain',
  method: 'POST',
  path: CHAIN_PATH,
  summary: 'Option chain of one underlying',
  description:
    'Calls and puts across strikes and expirations, for the latest session or an explicit date. The latest session is ' +
    `refreshed about every ${SNAPSHOT_REFRESH_SECONDS} seconds during U.S. market hours. A filter that matches no ` +
    'contract gives 200 with empty data. Sustained traffic of 1 request per second, bursts of at most 10.',
  tag: 'Snapshots',
  security: ['body', 'session'],
  request: {
    contentTypes: JSON_OR_FORM,
    schema: 'ChainRequest',
    examples: {
      latest: { api_key: KEY, symbol: 'SPY' },
      filtered: {
        api_key: KEY,
        symbol: 'SPY',
        date: '2025-03-03',
        put_call: 'CALL',
        strike_min: 590,
        strike_max: 610,
      },
    },
  },
  responses: [
    { status: 200, description: 'The contracts.', schema: 'ChainSuccess', examples: { chain: CHAIN } },
    {
      status: 400,
      description: 'The body is not valid, e.g. an impossible calendar date: INVALID_REQUEST.',
      schema: 'ChainFailure',
    },
    { status: 401, description: 'The key is missing or not valid: UNAUTHORIZED.', schema: 'ChainFailure' },
    { status: 403, description: 'No realtime entitlement: SUBSCRIPTION_REQUIRED.', schema: 'ChainFailure' },
    {
      status: 404,
      description: 'No chain is stored for the date (SNAPSHOT_NOT_FOUND), or none of the symbol (SYMBOL_NOT_FOUND).',
      schema: 'ChainFailure',
      examples: { unknown_symbol: failure('SYMBOL_NOT_FOUND', 'There is no chain of XYZ for that session.') },
    },
    {
      status: 405,
      description: 'A method other than POST: METHOD_NOT_ALLOWED.',
      schema: 'ChainFailure',
      headers: ['Allow'],
    },
    {
      status: 422,
      description: 'The chain is too large, narrow the filters: REQUEST_TOO_BROAD.',
      schema: 'ChainFailure',
    },
    {
      status: 429,
      description: 'Too many requests: RATE_LIMITED. Wait as long as Retry-After says.',
      schema: 'ChainFailure',
      headers: ['Retry-After'],
    },
    { status: 500, description: 'The service failed: INTERNAL_ERROR.', schema: 'ChainFailure' },
    { status: 504, description: 'The query took too long and was stopped: QUERY_TIMEOUT.', schema: 'ChainFailure' },
  ],
};

export const READ_MARKET_STRUCTURE: Operation = {
  operationId: 'readMarketStructure',
  method: 'GET',
  path: MARKET_STRUCTURE_PATH,
  summary: 'Market structure of one underlying',
  description:
    'Symbol metadata, flow, intraday GEX summary and structure, for the active snapshot or a retained historical date.',
  tag: 'Snapshots',
  security: ['bearer'],
  pathParameters: marketStructureRequestSchema.pick({ symbol: true }),
  queryParameters: marketStructureRequestSchema.pick({ date: true }),
  responses: [
    {
      status: 200,
      description: 'The snapshot.',
      schema: 'MarketStructureSuccess',
      examples: { snapshot: STRUCTURE },
    },
    { status: 400, description: 'Symbol or date is not valid: INVALID_REQUEST.', schema: 'MarketStructureFailure' },
    { status: 401, description: 'The key is missing or not valid: UNAUTHORIZED.', schema: 'MarketStructureFailure' },
    { status: 403, description: 'No realtime entitlement: SUBSCRIPTION_REQUIRED.', schema: 'MarketStructureFailure' },
    {
      status: 404,
      description: 'There is no such snapshot: SNAPSHOT_NOT_FOUND.',
      schema: 'MarketStructureFailure',
      examples: { none: failure('SNAPSHOT_NOT_FOUND', 'There is no snapshot of XYZ for that date.') },
    },
    {
      status: 405,
      description: 'A method other than GET: METHOD_NOT_ALLOWED.',
      schema: 'MarketStructureFailure',
      headers: ['Allow'],
    },
    {
      status: 429,
      description: 'Too many requests: RATE_LIMITED.',
      schema: 'MarketStructureFailure',
      headers: ['Retry-After'],
    },
    { status: 500, description: 'The service failed: INTERNAL_ERROR.', schema: 'MarketStructureFailure' },
    {
      status: 503,
      description: 'The snapshot is not available now, or not in time: SNAPSHOT_UNAVAILABLE.',
      schema: 'MarketStructureFailure',
      headers: ['Retry-After'],
    },
  ],
};
