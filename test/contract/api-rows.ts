/**
 * Every row of the tables, every rule and every point of the specification, by its section and in its order, with the
 * titles of the tests of `api.test.ts` that cover it. A table of data: `api.test.ts` fails when a row of the document is
 * not here, when a title here is no test's, and when a row has neither a test nor a reason.
 */

/** The row's own text is the test's title, in the section of that name. */
const SAME = 'same';

type Tests = typeof SAME | readonly string[];

/** Why a row has no test in `api.test.ts`, or what it leaves open. */
interface Note {
  readonly tests: Tests;
  /** Words of docs/service.md that tell what was chosen, or why not. */
  readonly docs?: string;
  /** Another file and its title, where the row is tested. */
  readonly test?: readonly [file: string, title: string];
  /** Where neither applies. */
  readonly why?: string;
}

export type Coverage = Tests | Note;

/** Every error body of historical SQL. */
const CODES = [
  'errorCode INVALID_REQUEST with HTTP 400',
  'errorCode INVALID_SQL with HTTP 400',
  'errorCode UNAUTHORIZED with HTTP 401',
  'errorCode SUBSCRIPTION_REQUIRED with HTTP 403',
  'errorCode METHOD_NOT_ALLOWED with HTTP 405',
  'errorCode INVALID_QUERY with HTTP 422',
  'errorCode QUERY_TOO_BROAD with HTTP 422',
  'errorCode RATE_LIMITED with HTTP 429',
  'errorCode QUERY_TIMEOUT with HTTP 504',
  'errorCode INTERNAL_ERROR with HTTP 500',
];

/** Of a query that cannot be analyzed. */
const ANALYSIS = [
  'reason UNKNOWN_IDENTIFIER',
  'reason UNKNOWN_FUNCTION',
  'reason TYPE_MISMATCH',
  'reason NUMERIC_OVERFLOW',
  'reason SYNTAX_ERROR',
  'reason INVALID_AGGREGATION',
  'reason INVALID_ARGUMENTS',
  'reason INVALID_EXPRESSION',
];

export const API_ROWS: Readonly<Record<string, Readonly<Record<string, Coverage>>>> = {
  'What the service does': {
    '1. Historical SQL: a SELECT-only SQL query (ClickHouse is the backend query engine) runs against whitelisted tables of individual option trades. Trade rows are delayed by at least 15 minutes.':
      [
        'trade_count | integer | number of trades involved; always 1 in the historical data',
        'allowed: SELECT statements',
        'visible trade rows are at least 15 minutes old',
      ],
    '2. Option chain: a snapshot of call and put contracts across strikes and expirations for one underlying symbol, for the latest session or an explicit date.':
      [
        'put_call | string | no | CALL or PUT',
        'strike | number | no | exact strike filter',
        'expiration_date | string, date | no | filter',
        'date | string, date | no | trading date; omitted means the latest session',
      ],
    '3. Market structure: a per-symbol snapshot with symbol metadata, flow, intraday GEX summary and structure, for the active snapshot or a retained historical date.':
      [
        'data.symbol_meta | object | required; extra members allowed',
        'data.flow | object | required; extra members allowed',
        'data.intraday_gex | object or null | required key; null when there is no intraday summary',
        'data.structure | object | required; extra members allowed',
        'date | query | string, date | no | retained historical snapshot date; omitted means the active snapshot',
      ],
    '4. A realtime trade stream exists over WebSocket at {ws_url}. It is a separate product and is covered only in the Events part.':
      { tests: [], docs: 'the WebSocket stream (Events)' },
  },
  'Resources and their fields > Option trade record (row of the historical SQL tables)': {
    'RawOptionTrades | all historical trades': SAME,
    'RawOptionTradesMaxDateOnlyMV | materialized view of RawOptionTrades holding only the most recent date; faster for the latest trades':
      SAME,
    'id | string | unique id of the trade record': SAME,
    'symbol | string | underlying ticker symbol': SAME,
    'date | string | execution date, format YYYY-MM-DD': SAME,
    'time | string | trade creation time, format YYYY-MM-DD HH:MM:SS': SAME,
    'put_call | string | PUT or CALL': SAME,
    'strike | float | strike price': SAME,
    'expiration_date | string | expiration date, format YYYY-MM-DD': SAME,
    'option_activity_type | string | OPRA trade-code classification; allowed values not shown': {
      tests: SAME,
      docs: '`market_cap`, `option_activity_type`, `underlying_type`, `side`, `moneyness`',
    },
    'underlying_type | string | kind of underlying (common stock, ETF, ETN, ...); may be an empty string': SAME,
    'oi | integer | open interest': SAME,
    'size | integer | total order size (one trade, or the sum of sizes for an aggregated trade)': SAME,
    'price | float | last trade price (or last price in a sweep)': SAME,
    'underlying_price | float | current price of the underlying': SAME,
    'bid | float | best bid of the option contract': SAME,
    'bid_size | integer | bid size on the exchange with the best bid': SAME,
    'ask | float | best ask of the option contract': SAME,
    'ask_size | integer | size on the exchange with the best ask': SAME,
    'iv | float | implied volatility': SAME,
    'premium | float | dollar cost of the whole trade': SAME,
    'sentiment | string | BULLISH, BEARISH or NEUTRAL; estimated from whether the trade executed at bid, ask or spot':
      SAME,
    'trade_count | integer | number of trades involved; always 1 in the historical data': SAME,
    'expiry_days | integer | days left to expiration': SAME,
    'delta | float | option delta': SAME,
    'vega | float | option vega': SAME,
    'theta | float | option theta (time decay)': SAME,
    'rho | float | option rho': SAME,
    'exchange | string | exchange where the trade executed': SAME,
    'daily_volume | integer | day volume of the contract including this trade': SAME,
    'earning_date | string | next earnings date of the underlying; may be an empty string': SAME,
    'updated_timestamp | string | UTC timestamp at which the record was created in the service (a numeric string of milliseconds in the sample row)':
      SAME,
    'market_cap | Int (declared); returned as a string in the sample row | market capitalization in dollars': SAME,
    'option_symbol | string | contract symbol: root, then a six-digit date, then P or C, then an eight-digit strike in thousandths':
      SAME,
    'Rows also carry the fields side, moneyness, gamma, dex and dei. Their types and meanings are not shown beyond their presence in rows (sample values: side is a text value, moneyness is a text value, gamma, dex and dei are numbers).':
      {
        tests: ['rows also carry the fields side, moneyness, gamma, dex and dei'],
        docs: '`market_cap`, `option_activity_type`, `underlying_type`, `side`, `moneyness`',
      },
  },
  'Resources and their fields > Option chain row': {
    'The response carries a data array of JSON objects and a meta object. Fields of a chain row: not shown beyond being JSON objects that may carry further members.':
      {
        tests: ['POST {base_url}/api/option-chain answers'],
        docs: 'A chain row has `option_symbol',
      },
  },
  'Resources and their fields > Market-structure snapshot': {
    'data.symbol | string | required': SAME,
    'data.symbol_meta | object | required; extra members allowed': SAME,
    'data.flow | object | required; extra members allowed': SAME,
    'data.intraday_gex | object or null | required key; null when there is no intraday summary': SAME,
    'data.structure | object | required; extra members allowed': SAME,
    'meta.effective_date | string, date | required': SAME,
    'meta.structure_as_of | string, date-time | required': SAME,
    'meta.flow_as_of | string, date-time | required': SAME,
    'meta.intraday_gex_as_of | string date-time or null | required key': SAME,
    'spot | number | strictly greater than 0; latest positive underlying price used for the summary': SAME,
    'call_gex | number | at least 0; full-chain positive call dollar GEX': SAME,
    'put_gex | number | at most 0; full-chain negative-signed put dollar GEX': SAME,
    'Contents of symbol_meta, flow and structure: not shown beyond being objects.': {
      tests: [
        'data.symbol_meta | object | required; extra members allowed',
        'data.flow | object | required; extra members allowed',
        'data.structure | object | required; extra members allowed',
      ],
      docs: 'Gamma exposure per contract is',
    },
  },
  'States and transitions': {
    "The only state-like value is the caller's entitlement, reported in the historical SQL meta.entitlement with allowed values active and trialing. A trialing caller gets row-capped responses; an active paid subscriber gets a rolling lookback window (see Limits). Transitions: not shown.":
      {
        tests: [
          'Row cap | historical SQL for trial entitlements | responses are row-capped; meta.capped is true; the value is reported in meta.row_limit; numeric value not shown',
          'meta.lookback_days | integer | always 15; present for active paid subscriptions only',
        ],
        docs: 'A change counts at once',
      },
  },
  'Endpoints > 1. Historical SQL (main address)': {
    '- Method and path: POST {base_url}/api/historical/sql': ['POST {base_url}/api/historical/sql answers'],
    '- Request content types: application/json or application/x-www-form-urlencoded.': [
      'POST {base_url}/api/historical/sql answers',
      'the body may be application/x-www-form-urlencoded',
    ],
    'api_key | string | no when session authentication is present, otherwise yes | begins with cus_ or apikey_': [
      'api_key is required without session authentication',
      'a session stands for api_key at the historical endpoint',
      'a key begins with cus_ or apikey_',
    ],
    'sql | string | yes | SELECT-only SQL against the whitelisted tables': [
      'sql is required',
      'sql | string | yes | SELECT-only SQL against the whitelisted tables',
    ],
    'test_mode | boolean | no | when true, sample rows are returned and the database is not queried': [
      'when test_mode is true, sample rows are returned and the database is not queried',
      'test_mode may be false, in a form as well',
    ],
    'status | string | SUCCESS': SAME,
    'data | array of objects | result rows': SAME,
    'meta.entitlement | string | active or trialing': SAME,
    'meta.row_limit | integer | most rows one response can return': SAME,
    'meta.capped | boolean | true when the trial row cap applies': SAME,
    'meta.truncated | boolean | true when the query produced more than row_limit rows and extra rows were dropped':
      SAME,
    'meta.lookback_days | integer | always 15; present for active paid subscriptions only': SAME,
    'meta.minimum_data_delay_minutes | integer | always 15': SAME,
    'SELECT statements only | INSERT, UPDATE, DELETE': [
      'allowed: SELECT statements',
      'forbidden: INSERT, UPDATE, DELETE',
    ],
    'standard functions (COUNT, SUM, AVG, ...) | DROP, CREATE, ALTER': [
      'allowed: standard functions (COUNT, SUM, AVG, ...)',
      'forbidden: DROP, CREATE, ALTER',
    ],
    'WHERE, GROUP BY, ORDER BY, LIMIT | UNION': ['allowed: WHERE, GROUP BY, ORDER BY, LIMIT', 'forbidden: UNION'],
    ' | stored procedures (EXEC, CALL)': ['forbidden: stored procedures (EXEC, CALL)'],
    ' | comments (they are stripped automatically)': ['comments are stripped automatically'],
  },
  'Endpoints > 2. Historical SQL (separate address)': {
    '- Method and path: POST {api_url}/api-portal/historical-trades-by-sql': [
      'an object with status SUCCESS and data, an array of option trade records',
    ],
    '- Header: Content-Type: application/json (form-encoded bodies with the same fields also appear in client examples).':
      [
        'an object with status SUCCESS and data, an array of option trade records',
        'the separate address takes form-encoded bodies with the same fields',
      ],
    '- Body: api_key (string, required), sql (string, required).': [
      'api_key (string, required)',
      'sql (string, required)',
    ],
    '- Success (HTTP 200): an object with status SUCCESS and data, an array of option trade records (fields in Resources).':
      ['an object with status SUCCESS and data, an array of option trade records'],
    '- Failures: HTTP 400 bodies described in Errors.': [
      'API key missing | status ERROR, errorMsg stating that the key is required',
      'SQL not a SELECT | status ERROR, errorMsg stating that only SELECT queries are allowed',
      'sql missing | status ERROR, and a field named message (not errorMsg) stating that the SQL query is required in the request body',
    ],
  },
  'Endpoints > 3. Option chain': {
    '- Method and path: POST {base_url}/api/option-chain': ['POST {base_url}/api/option-chain answers'],
    '- Request content types: application/json or application/x-www-form-urlencoded.': [
      'the chain takes application/json and application/x-www-form-urlencoded',
    ],
    'api_key | string | no with session auth | ': [
      'api_key is required at the chain without a session',
      'a session stands for api_key at the option chain',
    ],
    'symbol | string | yes | underlying symbol': SAME,
    'date | string, date | no | trading date; omitted means the latest session': SAME,
    'expiration_date | string, date | no | filter': SAME,
    'put_call | string | no | CALL or PUT': SAME,
    'strike | number | no | exact strike filter': SAME,
    'strike_min | number | no | lower strike bound': SAME,
    'strike_max | number | no | upper strike bound': SAME,
    'Success (HTTP 200): object with data (array of objects) and meta (object). A filter that matches no contract returns 200 with empty data. Contents of meta: not shown.':
      {
        tests: [
          'POST {base_url}/api/option-chain answers',
          'a filter that matches no contract returns 200 with empty data',
        ],
        docs: '`meta` of a chain',
      },
  },
  'Endpoints > 4. Market structure': {
    '- Method and path: GET {base_url}/api/v1/market-structure/{symbol}': [
      'GET {base_url}/api/v1/market-structure/{symbol} answers',
    ],
    'symbol | path | string | yes | underlying option root': SAME,
    'date | query | string, date | no | retained historical snapshot date; omitted means the active snapshot': SAME,
    'Authorization | header | string | yes | Bearer <API_KEY>': [
      'Authorization: Bearer <API_KEY> is required for market structure',
    ],
  },
  Authentication: {
    '1. Bearer header: Authorization: Bearer <API_KEY>, where the key begins with cus_ or apikey_. It is required for market structure.':
      ['Authorization: Bearer <API_KEY> is required for market structure', 'a key begins with cus_ or apikey_'],
    '2. Body field: the SQL and option chain endpoints take api_key in the request body. It is required for historical SQL unless session authentication is present.':
      ['the SQL and option chain endpoints take api_key in the request body'],
    '3. Session authentication is accepted as an alternative on the POST endpoints (api_key is then optional); its mechanism is not shown.':
      {
        tests: [
          'a session stands for api_key at the historical endpoint',
          'a session stands for api_key at the option chain',
        ],
        docs: 'sets the cookie `flowdrop_session`',
      },
    '4. The key for the separate historical entry point is obtained from the customer portal.': [
      'the separate entry point takes its key in the body, and no session',
    ],
    '5. Failed authentication gives HTTP 401 (UNAUTHORIZED); a caller without the required entitlement gets HTTP 403 (SUBSCRIPTION_REQUIRED on historical SQL).':
      [
        'failed authentication gives HTTP 401 (UNAUTHORIZED) at every endpoint',
        'a caller without the required entitlement gets HTTP 403 (SUBSCRIPTION_REQUIRED) at every endpoint',
      ],
  },
  Events: {
    'A realtime option-trade stream is delivered over WebSocket at {ws_url}. Its messages, event kinds and subscription protocol: not shown. No other events (for example webhooks) are shown.':
      { tests: [], docs: 'the WebSocket stream (Events)' },
  },
  'Errors > Historical SQL error body': {
    'status | string | always ERROR': CODES,
    'errorCode | string | one of INVALID_REQUEST, INVALID_SQL, UNAUTHORIZED, SUBSCRIPTION_REQUIRED, METHOD_NOT_ALLOWED, INVALID_QUERY, QUERY_TOO_BROAD, RATE_LIMITED, QUERY_TIMEOUT, INTERNAL_ERROR':
      CODES,
    'reason | string, optional | UNKNOWN_IDENTIFIER, UNKNOWN_FUNCTION, TYPE_MISMATCH, NUMERIC_OVERFLOW, SYNTAX_ERROR, INVALID_AGGREGATION, INVALID_ARGUMENTS, INVALID_EXPRESSION, SCAN_LIMIT_EXCEEDED':
      [...ANALYSIS, 'reason SCAN_LIMIT_EXCEEDED'],
    'hints | array of strings, optional | recovery guidance for QUERY_TOO_BROAD': [
      'hints are the recovery guidance of QUERY_TOO_BROAD',
    ],
    'errorMsg | string | human-readable message': CODES,
    '1. When the body is invalid, then HTTP 400 with INVALID_REQUEST.': [
      'errorCode INVALID_REQUEST with HTTP 400',
      'an invalid body is refused whatever is wrong with it',
    ],
    '2. When the SQL is rejected by the guardrails (not SELECT-only, forbidden construct, non-whitelisted table), then HTTP 400 with INVALID_SQL.':
      ['errorCode INVALID_SQL with HTTP 400', 'forbidden: INSERT, UPDATE, DELETE', 'any other table name is an error'],
    '3. When the key is missing or invalid, then HTTP 401 with UNAUTHORIZED.': ['errorCode UNAUTHORIZED with HTTP 401'],
    '4. When the caller is not entitled, then HTTP 403 with SUBSCRIPTION_REQUIRED.': [
      'errorCode SUBSCRIPTION_REQUIRED with HTTP 403',
    ],
    '5. When a method other than POST is used, then HTTP 405 with METHOD_NOT_ALLOWED.': [
      'errorCode METHOD_NOT_ALLOWED with HTTP 405',
      'every other method is refused whatever its body is',
    ],
    '6. When the query cannot be analyzed, then HTTP 422 with INVALID_QUERY and a reason from the query-analysis values (all reason values except SCAN_LIMIT_EXCEEDED).':
      ['errorCode INVALID_QUERY with HTTP 422', ...ANALYSIS],
    '7. When the query exceeds server scan limits, then HTTP 422 with QUERY_TOO_BROAD, reason SCAN_LIMIT_EXCEEDED and hints: narrow the date range; filter by symbol and other selective columns; split into smaller time windows; do not retry the same unchanged query; LIMIT does not necessarily reduce rows scanned.':
      [
        'errorCode QUERY_TOO_BROAD with HTTP 422',
        'reason SCAN_LIMIT_EXCEEDED',
        'hints are the recovery guidance of QUERY_TOO_BROAD',
      ],
    '8. Other statuses documented: 429 (rate limited), 500 (server error), 504 (query timeout). Pairing of RATE_LIMITED, QUERY_TIMEOUT and INTERNAL_ERROR with these statuses: not shown.':
      {
        tests: [
          'errorCode RATE_LIMITED with HTTP 429',
          'errorCode INTERNAL_ERROR with HTTP 500',
          'errorCode QUERY_TIMEOUT with HTTP 504',
        ],
        docs: 'status of `RATE_LIMITED`, `QUERY_TIMEOUT`, `INTERNAL_ERROR`',
      },
  },
  'Errors > Separate historical entry point, HTTP 400 bodies': {
    'API key missing | status ERROR, errorMsg stating that the key is required': SAME,
    'SQL not a SELECT | status ERROR, errorMsg stating that only SELECT queries are allowed': SAME,
    'sql missing | status ERROR, and a field named message (not errorMsg) stating that the SQL query is required in the request body':
      SAME,
  },
  'Errors > Option chain': {
    '400 | validation error, including an impossible calendar date': SAME,
    '401 | unauthorized': SAME,
    '403 | not entitled': SAME,
    '404 | no chain stored for the date (SNAPSHOT_NOT_FOUND) or none for the symbol on that session (SYMBOL_NOT_FOUND)':
      [
        '404: no chain stored for the date (SNAPSHOT_NOT_FOUND)',
        '404: none for the symbol on that session (SYMBOL_NOT_FOUND)',
      ],
    '405 | method other than POST (METHOD_NOT_ALLOWED)': SAME,
    '422 | chain too large, narrow the filters (REQUEST_TOO_BROAD)': SAME,
    '429 | rate limited; honor the Retry-After header': SAME,
    '500 | server error': SAME,
    '504 | query timeout': SAME,
  },
  'Errors > Market structure': {
    '400 | invalid symbol or date': SAME,
    '401 | unauthorized': SAME,
    '403 | not entitled': SAME,
    '404 | snapshot not found': SAME,
    '405 | method other than GET (METHOD_NOT_ALLOWED)': SAME,
    '429 | rate limited': SAME,
    '500 | server error': {
      tests: [],
      docs: 'Market structure answers 503 with `Retry-After` whenever the snapshot is unavailable',
      test: ['test/service/market-structure.test.ts', 'a fault of the service itself is 500'],
    },
    '503 | snapshot service unavailable or timed out': SAME,
    'Body shape of errors of the option chain and market-structure endpoints: not shown.': {
      tests: ['an error of the option chain or market structure has a status, an errorCode and an errorMsg'],
      docs: 'error body of option chain and market structure',
    },
  },
  Limits: {
    'Minimum data delay | historical SQL | 15 minutes; visible trade rows are at least that old': [
      'visible trade rows are at least 15 minutes old',
    ],
    'Lookback window | historical SQL, active paid subscriptions | rolling 15 days measured at execution time': SAME,
    'Earliest data | historical data | 2025-02-28': SAME,
    'Row cap | historical SQL for trial entitlements | responses are row-capped; meta.capped is true; the value is reported in meta.row_limit; numeric value not shown':
      { tests: SAME, docs: '`--trial-row-limit`' },
    'Truncation | historical SQL | rows beyond row_limit are dropped and meta.truncated is true': SAME,
    'Scan limits | historical SQL | exceeding them gives QUERY_TOO_BROAD; their values are hidden': SAME,
    'Soft rate limit | historical SQL (both entry points) | 1 request per second; no overall usage cap; may be adjusted temporarily':
      SAME,
    'Rate | option chain | sustained traffic of 1 request per second per customer; short bursts of 10 requests or fewer; throttling is best-effort; honor Retry-After on HTTP 429':
      SAME,
    'Snapshot refresh | option chain, latest session | about every 90 seconds during U.S. market hours': SAME,
    'Rate limit | market structure | not shown': {
      tests: ['market structure has a rate limit of its own'],
      docs: 'the same, counted separately (not shown in the contract)',
    },
  },
  Versioning: {
    '- The interface description carries version 1.0.0.': ['the interface description carries version 1.0.0'],
    '- Only the market-structure path has a version segment (/api/v1/). The other paths carry none.': [
      'only the market-structure path has a version segment',
    ],
    '- Deprecation policy and compatibility rules: not shown.': { tests: [], why: 'nothing to implement' },
  },
};

const isNoted = (coverage: Coverage): coverage is Note => typeof coverage === 'object' && 'tests' in coverage;

/** The titles that a row's coverage stands for. */
export function listTitles(row: string, coverage: Coverage): readonly string[] {
  const tests = isNoted(coverage) ? coverage.tests : coverage;
  return tests === SAME ? [row] : tests;
}

/** Of every row that has no test here, and of every row that says "not shown". */
export const NOTES = Object.entries(API_ROWS).flatMap(([section, rows]) =>
  Object.entries(rows).flatMap(([row, coverage]) => (isNoted(coverage) ? [{ ...coverage, section, row }] : [])),
);
