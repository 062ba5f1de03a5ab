/** The real SPX chain beside the repository, and the figures that were published with it. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import type { OptionContract } from '../../src/exposure/gamma-exposure.ts';

export const SPX_PAGE = fileURLToPath(new URL('../../../shared/data/spx-chain-2024-01-07.csv.gz', import.meta.url));
export const hasSpxPage = existsSync(SPX_PAGE);
if (!hasSpxPage) console.warn(`SKIPPED: the real SPX chain is not at ${SPX_PAGE}; its tests need it`);

/** Dollars per 1% move, and a price; as published. */
export const SPX_REFERENCE = {
  date: '2024-01-07',
  spot: 4697.2402,
  callGex: 111.5307e9,
  putGex: -122.5294e9,
  netGex: -10.9987e9,
  zeroGamma: 4734.48,
} as const;

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** The page's contracts, read without the service's code. */
export function readSpxPage(): readonly OptionContract[] {
  const lines = gunzipSync(readFileSync(SPX_PAGE)).toString('utf8').trimEnd().split('\n').slice(4);
  return lines.flatMap((line) => {
    const cells = line.split(',');
    const [, month = '', day, year] = cells[0]?.split(' ') ?? [];
    const expirationDate = `${year}-${String(MONTHS.indexOf(month) + 1).padStart(2, '0')}-${day}`;
    const at = (index: number) => Number(cells[index]);
    const strike = at(11);
    return [
      { putCall: 'CALL', strike, expirationDate, iv: at(7), gamma: at(9), openInterest: at(10) },
      { putCall: 'PUT', strike, expirationDate, iv: at(18), gamma: at(20), openInterest: at(21) },
    ];
  });
}
