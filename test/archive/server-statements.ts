/** What a ClickHouse server is asked of an archive, to compare its answers with this machine's. Data. */
import { listQuestions } from '../../bench/support/archive-questions.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Store } from '../../src/store/store.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';
import { publishDay } from './publish-day.ts';

export const DATES = ['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19'];
const ROWS = 3_000;

/** Seals the dates: the second is degraded, and from the third on there is a column more. */
export async function publishDays(engine: Engine, store: Store): Promise<void> {
  for (const [day, date] of DATES.entries()) {
    await publishDay(engine, store, {
      date,
      rows: ROWS,
      condition: day === 1 ? 'degraded' : 'available',
      change: (k) => ({
        ...cancelsBefore(k),
        ...{ size: ((k * 7) % 500) + 1, ...(day >= 2 ? { venue: `V${k % 3}` } : {}) },
      }),
    });
  }
}

/** One of each thousand is a cancel message of the one five hundred before, which has the same size. */
function cancelsBefore(k: number): TradeRow {
  if (k % 1000 !== 500) return {};
  const { id: _, time: __, date: ___, ...print } = createTrade(k - 500);
  return { ...print, option_activity_type: 'CANC' };
}

const QUESTIONS: readonly (readonly [string, string])[] = listQuestions({
  day: '2026-11-17',
  month: ['2026-11-01', '2026-12-01'],
  quarter: ['2026-10-01', '2027-01-01'],
  contract: 'SYM7261218C00100000',
}).map(({ name, flowdrop: sql }) => [name, sql]);

/** Name and SQL; the answers must be equal, row by row. */
export const SERVER_STATEMENTS: readonly (readonly [string, string])[] = [
  ...QUESTIONS,
  ['one date', "SELECT count() AS n, min(time) AS a, max(time) AS b FROM trades WHERE date = '2026-11-18'"],
  ['no date', "SELECT * FROM trades WHERE date = '2020-01-02'"],
  ['no table', 'SELECT 1 AS one'],
  [
    'a subquery with a name',
    'WITH big AS (SELECT * FROM trades WHERE size > 490) SELECT count() AS n FROM big AS b JOIN trades AS t USING (id)',
  ],
  [
    'a value with a name',
    "WITH '2026-11-18' AS day SELECT date, count() AS n FROM RawOptionTrades WHERE date >= day GROUP BY date ORDER BY date",
  ],
  [
    'a scalar subquery',
    'SELECT count() AS n FROM trades WHERE size = (SELECT max(size) FROM trades) AND date IN (SELECT date FROM RawOptionTradesMaxDateOnlyMV)',
  ],
  ['the newest date', 'SELECT min(date) AS a, max(date) AS b, count() AS n FROM rawoptiontradesmaxdateonlymv'],
  ['a column that dates lack', 'SELECT venue, count() AS n FROM trades GROUP BY venue ORDER BY venue'],
  ['all columns', "SELECT * FROM trades WHERE date > '2026-11-17' ORDER BY id LIMIT 20"],
  [
    'the records that count',
    'SELECT date, count() AS n, sum(size) AS volume FROM trades_counted GROUP BY date ORDER BY date',
  ],
  ['its columns', 'DESCRIBE trades_counted'],
  ['all tables', 'SHOW TABLES'],
  ['the first rows', 'SELECT * FROM trades ORDER BY premium DESC, id LIMIT 5'],
  [
    'qualified names',
    "SELECT trades.date, trades.size FROM trades WHERE trades.id LIKE '%7' ORDER BY trades.id LIMIT 9",
  ],
  ['today', 'SELECT count() AS n FROM trades WHERE date <= today() AND date >= today() - 3000'],
  [
    'typed times',
    'SELECT toStartOfMinute(time) AS t, updated_timestamp, expiration_date FROM trades ORDER BY id LIMIT 7',
  ],
  ['texts', "SELECT 'it''s' AS a, '`x` {b}' AS b, count() AS n FROM trades WHERE symbol != '\\\\'"],
];

/** Refused with the same code and words, wherever they would run. */
export const REFUSED: readonly string[] = [
  'SELECT nope FROM trades',
  'SELECT sum(symbol) FROM trades',
  'SELECT * FROM system.tables',
  "SELECT * FROM s3(drops, filename = 'x')",
  'SELECT 1; SELECT 2',
  'SELECT _path FROM trades',
  'SELECT throwIf(1) FROM trades',
  'DROP TABLE trades',
  'DESCRIBE TABLE tradse',
];
