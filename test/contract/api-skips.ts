/**
 * What cannot be asked of a real address, by the titles of the tests that are skipped there, each with its reason. Tables
 * of data; `api.test.ts` fails when a title here is no test's.
 */
import { postJson } from '../service/running-service.ts';
import type { Target } from './api-target.ts';

const OTHER_KEY = 'needs a key of another entitlement';
const CLOCK = "moves the service's clock";
const TROUBLE = 'overloads or kills engines';
const VALUES = 'the value of the limit is not known there';
const RATE = 'would exceed the rate limit on purpose';
const OWN = "the document does not show it: the service's own choice";
const REALTIME = 'the key has no realtime entitlement, or the address no such product';

export const REAL_ADDRESS_SKIPS: Readonly<Record<string, string>> = {
  'a session stands for api_key at the historical endpoint': OWN,
  'a key begins with cus_ or apikey_': OTHER_KEY,
  'lookback_days is absent for a trialing caller, in test_mode as well': OTHER_KEY,
  'a session stands for api_key at the option chain': OWN,
  'the date may be of an earlier session': 'which sessions are kept there is not known',
  'the date may be of a retained snapshot': 'which sessions are kept there is not known',
  'access is included with a realtime entitlement': OTHER_KEY,
  'the separate entry point takes its key in the body, and no session': OWN,
  'failed authentication gives HTTP 401 (UNAUTHORIZED) at every endpoint': OWN,
  'a caller without the required entitlement gets HTTP 403 (SUBSCRIPTION_REQUIRED) at every endpoint': OTHER_KEY,
  'errorCode SUBSCRIPTION_REQUIRED with HTTP 403': OTHER_KEY,
  'errorCode QUERY_TOO_BROAD with HTTP 422': VALUES,
  'errorCode RATE_LIMITED with HTTP 429': RATE,
  'errorCode QUERY_TIMEOUT with HTTP 504': TROUBLE,
  'errorCode INTERNAL_ERROR with HTTP 500': TROUBLE,
  'reason SCAN_LIMIT_EXCEEDED': VALUES,
  'hints are the recovery guidance of QUERY_TOO_BROAD': VALUES,
  'an invalid body comes before a wrong key, a wrong key before refused SQL': OWN,
  'further members, a repeated one, a query string and a charset change nothing': OWN,
  'every other method is refused whatever its body is': OWN,
  '403 | not entitled': OTHER_KEY,
  '422 | chain too large, narrow the filters (REQUEST_TOO_BROAD)': VALUES,
  '429 | rate limited; honor the Retry-After header': RATE,
  '429 | rate limited': RATE,
  '500 | server error': TROUBLE,
  '504 | query timeout': TROUBLE,
  '503 | snapshot service unavailable or timed out': TROUBLE,
  'an error of the option chain or market structure has a status, an errorCode and an errorMsg': OWN,
  'a symbol that is too long, or that cannot be decoded, is invalid as well': OWN,
  'the lookback window rolls with the clock': CLOCK,
  'Row cap | historical SQL for trial entitlements | responses are row-capped; meta.capped is true; the value is reported in meta.row_limit; numeric value not shown':
    OTHER_KEY,
  'Scan limits | historical SQL | exceeding them gives QUERY_TOO_BROAD; their values are hidden': VALUES,
  'Soft rate limit | historical SQL (both entry points) | 1 request per second; no overall usage cap; may be adjusted temporarily':
    RATE,
  'Rate | option chain | sustained traffic of 1 request per second per customer; short bursts of 10 requests or fewer; throttling is best-effort; honor Retry-After on HTTP 429':
    RATE,
  'Snapshot refresh | option chain, latest session | about every 90 seconds during U.S. market hours': CLOCK,
  'market structure has a rate limit of its own': RATE,
  'the interface description carries version 1.0.0': OWN,
};

/** Besides the sections of the option chain and of market structure, where the real key has no realtime entitlement. */
export const REALTIME_SKIPS: Readonly<Record<string, string>> = {
  'Authorization: Bearer <API_KEY> is required for market structure': REALTIME,
  'the SQL and option chain endpoints take api_key in the request body': REALTIME,
};

const NO_LOOKBACK = 'no date is hidden there';
const NO_SCAN_LIMIT = 'an archive has no scan limit';
const ASKS_SNAPSHOTS = 'asks the snapshots too, which an archive has not';

/** Of an archive, which shows all its dates and has no snapshots. */
export const ARCHIVE_SKIPS: Readonly<Record<string, string>> = {
  ...REALTIME_SKIPS,
  'meta.lookback_days | integer | always 15; present for active paid subscriptions only': NO_LOOKBACK,
  'the lookback window rolls with the clock': NO_LOOKBACK,
  'Earliest data | historical data | 2025-02-28': 'the first date is the first sealed one',
  'visible trade rows are at least 15 minutes old': 'moves the clock to before the newest date was sealed',
  'failed authentication gives HTTP 401 (UNAUTHORIZED) at every endpoint': ASKS_SNAPSHOTS,
  'a caller without the required entitlement gets HTTP 403 (SUBSCRIPTION_REQUIRED) at every endpoint': ASKS_SNAPSHOTS,
  'every other method is refused whatever its body is': ASKS_SNAPSHOTS,
  'Rate | option chain | sustained traffic of 1 request per second per customer; short bursts of 10 requests or fewer; throttling is best-effort; honor Retry-After on HTTP 429':
    ASKS_SNAPSHOTS,
  'Snapshot refresh | option chain, latest session | about every 90 seconds during U.S. market hours': ASKS_SNAPSHOTS,
  'market structure has a rate limit of its own': ASKS_SNAPSHOTS,
  'errorCode QUERY_TOO_BROAD with HTTP 422': NO_SCAN_LIMIT,
  'reason SCAN_LIMIT_EXCEEDED': NO_SCAN_LIMIT,
  'hints are the recovery guidance of QUERY_TOO_BROAD': NO_SCAN_LIMIT,
  'Scan limits | historical SQL | exceeding them gives QUERY_TOO_BROAD; their values are hidden': NO_SCAN_LIMIT,
  'the interface description carries version 1.0.0': 'it lists what is served, tested with the archive',
};

export interface Skips {
  readonly titles: Readonly<Record<string, string>>;
  readonly hasRealtime: boolean;
}

/** The skips that apply, said aloud: none on a service of this process. */
export async function announceAddressSkips(target: Target): Promise<Skips> {
  if (target.isArchive) return announce('over an archive', { titles: ARCHIVE_SKIPS, hasRealtime: false });
  if (!target.isReal) return { titles: {}, hasRealtime: true };
  const chain = await target.send('/api/option-chain', postJson({ api_key: target.key, symbol: 'SPY' }));
  // An archive has neither; a service says that a key may not, or that a symbol has none.
  const isAbsent = chain.status === 404 && (chain.body as { errorCode?: unknown }).errorCode === 'INVALID_REQUEST';
  const hasRealtime = chain.status !== 403 && !isAbsent;
  const titles = {
    ...REAL_ADDRESS_SKIPS,
    ...(hasRealtime ? {} : REALTIME_SKIPS),
    ...(isAbsent ? ARCHIVE_SKIPS : {}),
  };
  return announce('at the real address', { titles, hasRealtime });
}

function announce(where: string, skips: Skips): Skips {
  const lines = Object.entries(skips.titles).map(([title, why]) => `  ${title}: ${why}`);
  if (!skips.hasRealtime) lines.push(`  the sections of the option chain and of market structure: ${REALTIME}`);
  console.warn(`\nThese tests are skipped ${where}:\n${lines.join('\n')}\n`);
  return skips;
}
