/**
 * Whether the trades of the session before opened positions: its contracts with most premium that traded more than were open,
 * as its mailed report has them, beside the open interest of this date, which the clearing house counts after that session.
 */
import type { DropSource } from '../drop-source.ts';
import type { ContractFlow, OpenedContract } from '../model.ts';
import { fillSql } from './sql.ts';

/** A contract whose open interest is looked up, in the parts of its text. */
export interface Opening extends Pick<OpenedContract, 'symbol' | 'contract' | 'premium' | 'volume' | 'before'> {
  readonly expirationDate: string;
  readonly strike: number;
  readonly right: 'CALL' | 'PUT';
}

/** Symbol, expiration, strike, right. Other texts lack a part, or could end a literal. */
const CONTRACT = /^([A-Z0-9 .^/_-]+) (\d{4}-\d{2}-\d{2}) (\d+(?:\.\d+)?) ([CP])$/;

/**
 * Those that may still be open. What is not of a report of this version is left out.
 * @param contracts of the session before @param date of the report
 */
export function listOpenings(contracts: readonly Partial<ContractFlow>[], date: string): readonly Opening[] {
  const found = contracts.flatMap(({ contract = '', premium, volume, openInterest: before }): readonly Opening[] => {
    const [, symbol = '', expirationDate = '', strike = '', right] = CONTRACT.exec(contract) ?? [];
    if (symbol === '' || expirationDate < date) return [];
    if (typeof premium !== 'number' || typeof volume !== 'number' || typeof before !== 'number') return [];
    if (volume <= before) return [];
    const parts = { expirationDate, strike: Number(strike), right: right === 'C' ? 'CALL' : 'PUT' } as const;
    return [{ symbol, contract, premium, volume, before, ...parts }];
  });
  // Two contracts of one family may have one text.
  return found.filter(({ contract }) => found.filter((other) => other.contract === contract).length === 1);
}

/** Its query, from `series`, without its `WITH`. */
export function selectOpened(openings: readonly Opening[]): string {
  const contracts = openings.map(
    ({ symbol, expirationDate, strike, right }) =>
      `symbol = '${symbol}' AND expiration_date = DATE '${expirationDate}' AND strike = ${strike} AND put_call = '${right}'`,
  );
  return fillSql('opened', { contracts: contracts.join('\n    OR ') });
}

/** In the order given; those that did not trade and are in no chain are left out. @throws EngineFault */
export async function queryOpened(
  source: DropSource,
  openings: readonly Opening[],
): Promise<readonly OpenedContract[]> {
  if (openings.length === 0) return [];
  const rows = await source.known<Omit<Opening, 'right'> & { readonly putCall: string; readonly openInterest: number }>(
    `SELECT symbol, toString(expiration_date) AS expiration_date, strike, put_call, open_interest FROM (WITH ${selectOpened(openings)})`,
  );
  return openings.flatMap(({ symbol, contract, premium, volume, before, ...parts }) => {
    const row = rows.find(
      (one) =>
        one.symbol === symbol &&
        one.expirationDate === parts.expirationDate &&
        one.strike === parts.strike &&
        one.putCall === parts.right,
    );
    return row === undefined ? [] : [{ symbol, contract, premium, volume, before, after: row.openInterest }];
  });
}
