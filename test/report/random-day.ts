/**
 * Random days for the report's tests: few contracts, sizes and prices, so that cancel messages have several prints to
 * choose from; records of one time, hostile texts, numbers that are missing or zero. The same seed gives the same day.
 */
import { createRandom } from '../support/random.ts';
import { createTrade, type Trade } from './drop-file.ts';

export const HOSTILE = [`A'b\\c"--`, '<script>alert(1)</script>', '=cmd()', ''] as const;
const PRINT_TYPES = [
  'AUTO',
  'AUTO',
  'AUTO',
  'SLAN',
  'MLET',
  'MLAI',
  'TLFT',
  'MESL',
  'ISOI',
  'SLAI',
  'LATE',
  'OSEQ',
  'OPEN',
  'OPNL',
  '',
];
const CANCEL_TYPES = ['CANC', 'CNCL', 'CNCO', 'CNOL'];
/** Around the edges of the buckets; the first is before the day. */
const DAYS_LEFT = [-1, 0, 0, 1, 7, 8, 31, 32, 400];

export interface RandomDay {
  readonly date: string;
  readonly prints: number;
  /** Multiplies the sizes of one symbol. */
  readonly burst?: { readonly symbol: string; readonly times: number };
  /** Part of the cells, of every column that a report reads but the id, symbol, date and time, that is null or no number. */
  readonly gaps?: number;
}

const GAPPED = [
  ...['put_call', 'strike', 'expiration_date', 'option_activity_type', 'oi', 'size', 'price', 'underlying_price', 'iv'],
  ...['premium', 'sentiment', 'option_symbol', 'side', 'gamma', 'delta', 'moneyness'],
];
/** Columns of whole numbers and of texts have no NaN. */
const FLOATS = ['premium', 'iv', 'gamma', 'delta', 'underlying_price'];

/** The records of a day in no order; about a tenth are cancel messages. */
export function createRandomDay(seed: number, { date, prints, burst, gaps = 0 }: RandomDay): readonly Trade[] {
  const random = createRandom(seed);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  // Two of the names are indices whose series settle at the opening.
  const names = [...Array.from({ length: 16 }, (_, index) => ['', 'SPX', 'VIX'][index] || `S${index}`), ...HOSTILE];
  let count = 0;
  // Ids of different lengths, so that their order as texts matters.
  const nextId = () => String(Math.floor(random() * 1e5) * 100_000 + count++);
  const createPrint = (): Trade => {
    const symbol = names[Math.floor(random() * random() * names.length)] ?? '';
    const putCall = pick(['CALL', 'CALL', 'PUT']);
    const strike = pick([50, 52.5, 52.50000000000001]);
    const expiration = addDays(date, pick(DAYS_LEFT));
    const price = pick([0, 0.05, 1.25, 1.25, 20.1]);
    const size = pick([0, 1, 1, 5, 750]) * (symbol === burst?.symbol ? burst.times : 1);
    return createTrade({
      id: nextId(),
      date,
      symbol,
      time: `${date} ${formatClock(34_200 + Math.floor(random() * random() * 405) * 60)}`,
      put_call: putCall,
      strike,
      expiration_date: expiration,
      option_symbol: nameContract(symbol, pick(['', 'W']), pick([0, 6]), { expiration, putCall, strike }),
      option_activity_type: pick(PRINT_TYPES),
      oi: pick([0, 10, 1000, 1000, 5000]),
      size,
      price,
      // Not always price x size x 100: the record's own number is what counts. Some contracts are for 25 shares.
      premium:
        Math.round(price * size * (strike === 50 && putCall === 'PUT' ? 25 : 100) * (0.9 + random() / 5) * 100) / 100,
      underlying_price: pick([0, 40 + random() * 60, 40 + random() * 60]) * (random() < 0.1 ? 10 : 1),
      iv: pick([null, 0, random()]),
      delta: pick([null, 0, random() * (putCall === 'CALL' ? 1 : -1)]),
      gamma: pick([null, 0, random() / 10, random() / 10]) && random() * (random() < 0.1 ? 100 : 0.1),
      sentiment: pick(['BULLISH', 'BEARISH', 'NEUTRAL', '']),
      side: pick(['AASK', 'ASK', 'MID', 'BID', 'BBID', '', '<b>']),
      moneyness: pick(['ITM', 'ATM', 'OTM', '', 'DEEP']),
      // By symbol: unknown, of the day, within ten days, on the tenth, after it, before the day.
      earning_date:
        ['', date, addDays(date, 6), addDays(date, 10), addDays(date, 11), addDays(date, -1)][
          names.indexOf(symbol) % 6
        ] ?? '',
    });
  };
  const printed = Array.from({ length: prints }, createPrint);
  const cancels = Array.from({ length: Math.floor(prints / 10) }, (): Trade => {
    const print = pick(printed);
    // Mostly later, sometimes of the same time, and sometimes too early for the print it was made from.
    const seconds = readSeconds(print.time) + pick([0, 60, 600, 3600, -3600]);
    return {
      ...print,
      id: nextId(),
      option_activity_type: pick(CANCEL_TYPES),
      time: `${date} ${formatClock(Math.min(86_399, Math.max(0, seconds)))}`,
    };
  });
  const punch = (trade: Trade): Trade => {
    const holes = GAPPED.filter(() => gaps > 0 && random() < gaps);
    const hole = (name: string) => (FLOATS.includes(name) ? pick([null, Number.NaN, Infinity, -Infinity]) : null);
    return { ...trade, ...Object.fromEntries(holes.map((name) => [name, hole(name)])) };
  };
  // Some have no id, and stand in the day several times.
  const repeat = (trade: Trade): readonly Trade[] =>
    random() < 0.05 ? Array.from({ length: pick([1, 2, 7]) }, () => ({ ...trade, id: '' })) : [trade];
  // Shuffled, because nothing may depend on the order of a file.
  return [...printed.map(punch).flatMap(repeat), ...cancels.map(punch)]
    .map((trade) => ({ trade, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ trade }) => trade);
}

/** As feeds write it: with or without blanks, or not at all. */
function nameContract(
  symbol: string,
  series: string,
  width: number,
  { expiration, putCall, strike }: { expiration: string; putCall: string; strike: number },
): string {
  const root = symbol === 'SPX' ? `${symbol}${series}` : `${symbol}X`;
  if (series === 'W' && symbol !== 'SPX') return '';
  const thousandths = String(Math.round(strike * 1000)).padStart(8, '0');
  return `${root.padEnd(width)}${expiration.slice(2).replaceAll('-', '')}${putCall[0]}${thousandths}`;
}

function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

function formatClock(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

function readSeconds(time: string): number {
  return Date.parse(`1970-01-01T${time.slice(11)}Z`) / 1000;
}
