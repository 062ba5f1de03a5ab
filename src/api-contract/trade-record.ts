/**
 * The option trade record as JSON: a row of `SELECT *`, built from the table of columns in `trade.ts`. Unknown text is
 * an empty string; numbers that a model could not compute are null.
 */
import { z } from 'zod';
import { TRADE_COLUMNS, type TradeColumn } from './trade.ts';

/** The specification's text for columns that are text on the wire but have another type in the drop. */
const WIRE_TEXTS: Readonly<Record<string, string>> = {
  date: 'Execution date, YYYY-MM-DD.',
  time: "Trade creation time, YYYY-MM-DD HH:MM:SS, exchange's wall clock (America/New_York), not UTC.",
  expiration_date: 'Expiration date of the contract, YYYY-MM-DD.',
  earning_date: 'Next earnings date of the underlying, YYYY-MM-DD; may be an empty string.',
  updated_timestamp: 'When the record was created in the service: milliseconds since the epoch, UTC, in digits.',
  market_cap: 'Market capitalization in dollars, in digits; may be an empty string.',
};

export const tradeRecordSchema = z
  .looseObject(Object.fromEntries(TRADE_COLUMNS.map((column) => [column.name, describeColumn(column)])))
  .describe('An option trade: one row of the historical tables with all its columns.')
  .meta({ id: 'TradeRecord' });

function describeColumn({ name, wire, nullable, description }: TradeColumn): z.ZodType {
  const plain = { string: z.string(), integer: z.number().int(), float: z.number() }[wire];
  const schema = nullable && wire !== 'string' ? plain.nullable() : plain;
  return schema.describe(WIRE_TEXTS[name] ?? description);
}
