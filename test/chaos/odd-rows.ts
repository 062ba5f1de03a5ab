/**
 * Odd cells: values that a careful exporter takes as they are, takes as null, or keeps out of the drop with the whole row.
 * Pure. Invariant: the expectation is written down here, from the rules in `docs/drops.md`, not computed by the product.
 */
import type { TradeRow } from '../support/trades.ts';
import type { TableRow } from './rows.ts';

export interface OddCell {
  readonly name: string;
  /** The row as it is held and answered, and what the drop must make of it. */
  readonly make: (row: TableRow) => TableRow;
  /** Whether the row goes into the quarantine. */
  readonly isQuarantined: boolean;
}

const BAD_UTF8 = Buffer.from([0x4e, 0xff, 0xfe, 0x80]);

/** Taken: `sealed` is what the drop must hold. */
function taken(name: string, held: TradeRow, sealed = held, answered?: TableRow['answered']): OddCell {
  const make = ({ id, values }: TableRow): TableRow => ({
    ...{ id, values: { ...values, ...held }, sealed: { ...values, ...sealed }, isOdd: true, answered },
  });
  return { name, isQuarantined: false, make };
}

/** Kept out. @param held cells, or what makes them of the row's own date and time */
function refused(
  name: string,
  held: TradeRow | ((date: string, time: string) => TradeRow),
  answered?: TableRow['answered'],
): OddCell {
  const make = ({ id, values }: TableRow): TableRow => {
    const [date = '', time = ''] = String(values['time']).split(' ');
    const odd = typeof held === 'function' ? held(date, time) : held;
    return { id, values: { ...values, ...odd }, sealed: undefined, isOdd: true, answered };
  };
  return { name, isQuarantined: true, make };
}

const refusedTime = (name: string, change: (date: string, time: string) => string) =>
  refused(name, (date, time) => ({ time: change(date, time) }));

export const ODD_CELLS: readonly OddCell[] = [
  ...['bid', 'underlying_price', 'side', 'moneyness', 'updated_timestamp', 'oi', 'price'].map((column) =>
    taken(`null in ${column}`, { [column]: null }),
  ),
  taken('12.0 for an integer', { size: 12, oi: 5 }, undefined, { size: '12.0', oi: '5.0' }),
  taken('null in iv', { iv: null }),
  taken(
    'quoted -inf of a model',
    { underlying_price: Number.NEGATIVE_INFINITY, delta: Number.NaN },
    { underlying_price: null, delta: null },
    { underlying_price: '"-inf"', delta: 'NaN' },
  ),
  taken('text for a date of reference', { earning_date: 'N/A' }, { earning_date: null }),
  refused('bad UTF-8', { exchange: BAD_UTF8 }),
  refused('bad UTF-8 in the contract', { option_symbol: BAD_UTF8 }),
  refused('quoted NaN', { premium: Number.NaN }, { premium: '"NaN"' }),
  refused('quoted infinity', { price: Number.POSITIVE_INFINITY }, { price: '"inf"' }),
  refusedTime('time with an offset', (date, time) => `${date} ${time}-05:00`),
  refusedTime('time with T and an offset', (date, time) => `${date}T${time}-05:00`),
  refusedTime('time with AM', (date, time) => `${date} ${time} AM`),
  refusedTime('24:00:00', (date) => `${date} 24:00:00`),
  refusedTime('25:31:00', (date) => `${date} 25:31:00`),
  refusedTime('second 61', (date, time) => `${date} ${time.slice(0, 6)}61`),
  refused('updated_timestamp 2^64-1', { updated_timestamp: '18446744073709551615' }),
  refused('the date of another day', {}, { date: '"2026-11-17"' }),
  refused('null in symbol', {}, { symbol: 'null' }),
  refused('text for a number', {}, { size: '"many"' }),
];
