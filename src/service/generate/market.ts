/**
 * The generated market: which underlyings trade, how much, and at what price and volatility. Data and pure functions;
 * the figures are plausible, but not real quotes. `generate.ts` turns it into trades.
 */

export interface Underlying {
  readonly symbol: string;
  readonly type: 'STOCK' | 'ETF' | 'INDEX';
  /** Relative share of the trades. */
  readonly weight: number;
  /** Price to which the random walk reverts, dollars. */
  readonly price: number;
  /** Standard deviation of one session's log return. */
  readonly dailyMove: number;
  /** Correlation with the market factor. */
  readonly beta: number;
  /** At-the-money implied volatility, 1 = 100%. */
  readonly iv: number;
  /** Shares outstanding in millions; 0 where market capitalization has no meaning. */
  readonly sharesMillions: number;
  /** `daily`: an expiration every session; `weekly`: Fridays and third Fridays. */
  readonly cycle: 'daily' | 'weekly';
  /** Name of the random walk; underlyings with the same name move together. */
  readonly walk: string;
  /** OCC root of expirations other than the third Friday; usually the symbol itself. */
  readonly weeklyRoot: string;
}

const fund = (
  symbol: string,
  weight: number,
  price: number,
  dailyMove: number,
  beta: number,
  iv: number,
): Underlying => ({
  symbol,
  type: 'ETF',
  weight,
  price,
  dailyMove,
  beta,
  iv,
  sharesMillions: 0,
  cycle: 'weekly',
  walk: symbol,
  weeklyRoot: symbol,
});

const stock = (symbol: string, weight: number, price: number, iv: number, sharesMillions: number): Underlying => ({
  ...fund(symbol, weight, price, iv / 16, 0.6, iv),
  type: 'STOCK',
  sharesMillions,
});

/**
 * Number of underlyings with the largest weights (SPY, SPX, QQQ, NVDA, TSLA): half of the weight, as in the real
 * market.
 */
const LARGEST = 5;
/** Underlyings that trade in every session. */
const NAMED: readonly Underlying[] = [
  { ...fund('SPY', 160, 668, 0.008, 0.98, 0.14), cycle: 'daily', walk: 'SPX' },
  { ...fund('SPX', 115, 6_700, 0.008, 0.98, 0.14), type: 'INDEX', cycle: 'daily', weeklyRoot: 'SPXW' },
  { ...fund('QQQ', 105, 606, 0.011, 0.95, 0.18), cycle: 'daily' },
  stock('NVDA', 70, 184, 0.42, 24_300),
  stock('TSLA', 62, 430, 0.58, 3_320),
  fund('IWM', 30, 244, 0.013, 0.85, 0.21),
  stock('AAPL', 28, 268, 0.26, 14_780),
  stock('AMD', 26, 232, 0.52, 1_630),
  stock('AMZN', 26, 226, 0.32, 10_690),
  stock('META', 24, 610, 0.34, 2_520),
  stock('PLTR', 24, 172, 0.6, 2_380),
  stock('MSFT', 20, 498, 0.24, 7_430),
  stock('GOOGL', 20, 286, 0.31, 12_100),
  { ...fund('VIX', 18, 18.5, 0.06, -0.75, 0.95), type: 'INDEX', weeklyRoot: 'VIXW' },
  stock('MSTR', 17, 208, 0.75, 287),
  stock('HOOD', 15, 118, 0.68, 899),
  stock('COIN', 14, 262, 0.66, 270),
  stock('AVGO', 14, 342, 0.46, 4_720),
  stock('NFLX', 13, 112, 0.36, 4_240),
  stock('INTC', 12, 36, 0.58, 4_770),
  fund('TLT', 12, 89.5, 0.007, -0.2, 0.12),
  fund('GLD', 12, 376, 0.011, 0.05, 0.2),
  fund('SLV', 11, 46.5, 0.018, 0.1, 0.36),
  stock('SOFI', 10, 27, 0.66, 1_200),
  stock('SMCI', 10, 36, 0.72, 597),
  stock('MU', 10, 238, 0.56, 1_120),
  fund('TQQQ', 10, 104, 0.033, 0.93, 0.54),
  stock('BABA', 9, 158, 0.44, 2_390),
  stock('ORCL', 9, 222, 0.5, 2_850),
  fund('FXI', 8, 39.5, 0.013, 0.4, 0.26),
  fund('XLF', 8, 52.6, 0.009, 0.8, 0.17),
  fund('EEM', 8, 54.5, 0.01, 0.6, 0.18),
  stock('BAC', 7, 52.5, 0.26, 7_410),
  stock('F', 7, 13, 0.36, 3_980),
  stock('RIVN', 7, 15.5, 0.7, 1_210),
  { ...fund('RUT', 7, 2_430, 0.013, 0.85, 0.21), type: 'INDEX', walk: 'IWM', weeklyRoot: 'RUTW' },
  stock('JPM', 6, 306, 0.24, 2_720),
  stock('XOM', 6, 118, 0.23, 4_260),
  stock('DIS', 6, 106, 0.29, 1_790),
  stock('LLY', 5, 1_030, 0.34, 946),
];

/** Distance between listed strikes near the money, dollars. @param price price of the underlying, dollars */
export function strikeStep(price: number): number {
  if (price < 20) return 0.5;
  if (price < 150) return 1;
  if (price < 300) return 2.5;
  return 5;
}

export interface Market {
  readonly underlyings: readonly Underlying[];
  /** Indexes of underlyings, repeated by weight; `underlyings.length - further` stands for all further ones. */
  readonly slots: readonly number[];
  /** How many underlyings at the end are further ones. They share the rows drawn for them; the first gets the most. */
  readonly further: number;
}

/** Size of the table from which a row's underlying is drawn. */
const SLOTS = 1_000;
/**
 * Up to this many trades a session has only the named underlyings; then each `ROWS_PER_FURTHER` trades add one more.
 */
const NAMED_ALONE_ROWS = 200_000;
const ROWS_PER_FURTHER = 2_500;
const MOST_FURTHER = 3_000;
/**
 * Limit of the further underlyings' share of the trades as their number grows; `HALF_OF_THEM` of them have half of it.
 */
const FURTHER_SHARE = 0.25;
const HALF_OF_THEM = 300;

/**
 * The underlyings of a session with `rows` trades. A night of millions of trades covers thousands of symbols, most of
 * which trade a few hundred times; with a few thousand trades, such symbols would get one trade each. The largest
 * symbols keep half of the weight.
 */
export function listMarket(rows: number): Market {
  const further = Math.min(MOST_FURTHER, Math.floor(Math.max(0, rows - NAMED_ALONE_ROWS) / ROWS_PER_FURTHER));
  const total = sum(NAMED);
  const furtherWeight = (FURTHER_SHARE * total * further) / (further + HALF_OF_THEM);
  const others = sum(NAMED.slice(LARGEST));
  const weights = NAMED.map(({ weight }, index) =>
    index < LARGEST ? weight : (weight * (others - furtherWeight)) / others,
  );
  let reached = 0;
  const slots = [...weights, furtherWeight].flatMap((weight, index) => {
    const from = Math.round((reached / total) * SLOTS);
    reached += weight;
    return Array.from({ length: Math.round((reached / total) * SLOTS) - from }, () => index);
  });
  return { underlyings: [...NAMED, ...listFurther(further)], slots, further };
}

const sum = (underlyings: readonly Underlying[]): number =>
  underlyings.reduce((total, { weight }) => total + weight, 0);

/** No vowels, so that names never form words. */
const LETTERS = 'BCDFGHJKLMNPQRSTVWXZ';
const LETTERS_PER_NAME = 4;
/** Coprime to the number of all possible names, so that no name repeats. */
const NAME_STEP = 98_893;
/**
 * Additive recurrences of irrational numbers fill an interval evenly; one each for price, volatility and
 * capitalization.
 */
const STEPS = { price: 0.618_033_988_7, iv: 0.754_877_666_2, shares: 0.569_840_291 } as const;

function listFurther(count: number): readonly Underlying[] {
  const taken = new Set(NAMED.flatMap(({ symbol, weeklyRoot }) => [symbol, weeklyRoot]));
  const found: Underlying[] = [];
  for (let n = 1; found.length < count; n += 1) {
    const name = spell(n * NAME_STEP);
    if (taken.has(name)) continue;
    const between = (step: number, low: number, high: number) => low * (high / low) ** ((n * step) % 1);
    const [price, shares] = [Math.round(between(STEPS.price, 6, 240)), Math.round(between(STEPS.shares, 15, 900))];
    found.push(stock(name, 0, price, Number(between(STEPS.iv, 0.28, 1.1).toFixed(2)), shares));
  }
  return found;
}

function spell(number: number): string {
  let [name, left] = ['', number];
  for (let at = 0; at < LETTERS_PER_NAME; at += 1) {
    name = `${LETTERS[left % LETTERS.length]}${name}`;
    left = Math.floor(left / LETTERS.length);
  }
  return name;
}
