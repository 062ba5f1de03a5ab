/**
 * The contract of the API over an archive: the tests of `api.test.ts`, on services that have their trades from sealed
 * drops. What no archive has (a lookback, the snapshots) is skipped, each with its reason in `api-skips.ts`.
 */
process.env['FLOWDROP_CONTRACT_ARCHIVE'] = '1';
await import('./api.test.ts');
