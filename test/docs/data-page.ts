/**
 * Writes docs/data.md from the tables of columns, so that the page cannot differ from the files. The tables have names,
 * types, units and meanings; this file has the texts between them, and the checks for what the API's document leaves open.
 */
import {
  CANCEL_TYPES,
  LATE_TYPES,
  MULTI_LEG_PREFIX,
  MULTI_LEG_TYPES,
  nameCode,
  SINGLE_LEG_TYPES,
  SWEEP_TYPES,
} from '../../src/api-contract/record-type.ts';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { parseJob } from '../../src/job/parse.ts';
import { SNAPSHOT_COLUMNS } from '../../src/job/snapshot-columns.ts';
import { buildTable, readSection } from '../support/pages.ts';

/** Sections of the page that say how to check what the API's document leaves open. */
const CHECKS: Readonly<Record<string, string>> = {
  ...{ time: 'time', oi: 'open-interest', open_interest: 'open-interest', sentiment: 'side-and-sentiment' },
  ...{ iv: 'greeks-and-volatility', delta: 'greeks-and-volatility', gamma: 'greeks-and-volatility' },
  ...{ vega: 'greeks-and-volatility', theta: 'greeks-and-volatility', rho: 'greeks-and-volatility' },
  ...{ exchange: 'exchange', side: 'side-and-sentiment', option_activity_type: 'activity-types' },
};

const INTRO = `# Data dictionary

For quants: every column of every drop, with meaning, unit and [type](drops.md#types), and how to check what the provider's API document ("the API document") leaves open. This page is generated from the column tables in the code.

- **Null**: a type with \`?\` is often unknown. Any other but \`id\`, \`symbol\`, \`date\` and \`time\` of trades is null only if the API sends one, which is counted in \`nulls\` of the [manifest](drops.md#manifestjson). Unknown text is usually empty.
- **A linked column** has [a query](#what-the-api-document-does-not-say-and-how-to-check-it) that finds its unit, time or codes in your own data.
- Before you sum trades: a drop has every record, including cancels and late reports. See [which records count](formulas.md#which-records-count).`;

const TRADES = `## Trades

One row is one trade record: the job [nightly-trades](../jobs/nightly-trades.yaml), dataset \`trades\`, sorted by \`symbol\`, \`time\`, \`id\`. The API document shows ${listSampled()} only in sample rows, so their meaning is inferred.`;

const CODE_ROWS = [
  ['`put_call`', '`CALL`, `PUT`'],
  [
    '`side`',
    '`AASK` above the ask, `ASK` at the ask, `MID` between bid and ask, `BID` at the bid, `BBID` below the bid',
  ],
  ['`sentiment`', "`BULLISH`, `BEARISH`, `NEUTRAL`: the API's estimate from where the trade executed"],
  ['`moneyness`', '`ITM` in, `ATM` at, `OTM` out of the money; how close `ATM` is to the spot price is not documented'],
  ['`exchange`, `underlying_type`', 'not documented'],
];

const RATIO_ROWS = [
  ['`iv_ratio`', "a year's volatility, 1 = 100%", '0.01: in percent'],
  ['`gamma_ratio`', 'change of delta per dollar', '100: with `iv` in percent'],
  [
    '`theta_ratio`',
    'per year',
    '0.0027: per calendar day (1/365). 0.0040: per trading day (1/252). Take the mean of calls and puts',
  ],
  ['`vega_ratio`', 'per 1.00 of volatility', '0.01: per point of volatility (1%)'],
  ['`rho_ratio`', 'per 1.00 of the interest rate', '0.01: per point of the rate (1%)'],
];

const CODES = `## Codes

${buildTable(['column', 'codes'], CODE_ROWS)}

### Activity types

\`option_activity_type\` is OPRA's message type of a last sale report, by short name. The API document lists no values; OPRA publishes these. Any other counts as a single option.`;

const CHAIN = `## Option chain

One row is one contract of the session's last snapshot: the job [option-chain](../jobs/option-chain.yaml), dataset \`option-chain\` (\`option_chain\` in SQL). The API document does not show the fields: these are those of the included [service](service.md). Others become text columns.`;

const STRUCTURE = `## Market structure

One row is one symbol: the job [market-structure](../jobs/market-structure.yaml), dataset \`market-structure\` (\`market_structure\` in SQL). The API document describes \`meta\` and \`intraday_gex\`, but not the other objects, which are there twice: as columns, and as one JSON text.`;

const OPEN_QUESTIONS = `## What the API document does not say, and how to check it

The queries run in \`flowdrop query\` and in DuckDB: [how](recipes.md#how-to-run-them). Run them once on your own drops.

### Greeks and volatility

By Black-Scholes with a rate of 0, each greek follows from gamma, price and delta. The ratio of the API's value to that shows its unit.

\`\`\`sql recipe run
SELECT put_call, count(*) AS trades,
  median(price / (0.4 * underlying_price * sqrt(expiry_days / 365)) / iv) AS iv_ratio,
  median(gamma * underlying_price * iv * sqrt(expiry_days / 365)) / 0.4 AS gamma_ratio,
  median(theta / (-0.5 * iv * iv * underlying_price * underlying_price * gamma)) AS theta_ratio,
  median(vega / (underlying_price * underlying_price * iv * expiry_days / 365 * gamma)) AS vega_ratio,
  median(rho / (expiry_days / 365 * (underlying_price * delta - price))) AS rho_ratio
FROM trades
WHERE date = (SELECT max(date) FROM trades) AND iv > 0 AND gamma > 0 AND price > 0
  AND expiry_days BETWEEN 20 AND 120 AND strike BETWEEN 0.99 * underlying_price AND 1.01 * underlying_price
GROUP BY put_call ORDER BY put_call
\`\`\`

${buildTable(['ratio', 'near 1', 'other values'], RATIO_ROWS)}

The included service sends theta per calendar day, vega and rho per point. If \`min(delta)\` is not below 0, the API leaves out the sign of puts.

### Open interest

Exchanges publish it once, before the session, as of the end of the previous one.

\`\`\`sql recipe run
SELECT date, count(*) AS contracts, sum(CASE WHEN first_oi < last_oi THEN 1 ELSE 0 END) AS changed
FROM (SELECT date, option_symbol, min(oi) AS first_oi, max(oi) AS last_oi FROM trades GROUP BY date, option_symbol) AS listed
GROUP BY date ORDER BY date
\`\`\`

If \`changed\` is 0, each contract has one figure per session. If that is from the evening before, nearly all contracts are \`possible\` here, because open interest cannot change by more than what traded:

\`\`\`sql recipe run
WITH listed AS (
  SELECT date, option_symbol, max(oi) AS interest, sum(size) AS volume FROM trades GROUP BY date, option_symbol
)
SELECT now.date AS session, count(*) AS contracts,
  sum(CASE WHEN abs(now.interest - before.interest) <= before.volume THEN 1 ELSE 0 END) AS possible
FROM listed AS now INNER JOIN listed AS before ON now.option_symbol = before.option_symbol
WHERE now.date = (SELECT max(date) FROM trades)
  AND before.date = (SELECT max(date) FROM trades WHERE date < (SELECT max(date) FROM trades))
GROUP BY now.date
\`\`\`

Generated sessions have a new random open interest each day.

### Time

The API document names no time zone; flowdrop assumes New York. If that is right, nearly all trades are between 09:30 and 16:15.

\`\`\`sql recipe run
SELECT EXTRACT(HOUR FROM time) AS hour, CASE WHEN EXTRACT(MINUTE FROM time) < 30 THEN 0 ELSE 30 END AS minute, count(*) AS trades
FROM trades WHERE date = (SELECT max(date) FROM trades) GROUP BY 1, 2 ORDER BY 1, 2
\`\`\`

### Side and sentiment

\`sentiment\` is an estimate "from whether the trade executed at bid, ask or spot". The query shows the rule of your API.

\`\`\`sql recipe run
SELECT put_call, side, sentiment, count(*) AS trades FROM trades
WHERE date = (SELECT max(date) FROM trades) GROUP BY put_call, side, sentiment ORDER BY put_call, side, sentiment
\`\`\`

### Exchange

The included service sends names (\`CBOE\`, \`PHLX\`). Single letters are most likely OPRA's participant ids.

\`\`\`sql recipe run
SELECT exchange, count(*) AS trades, min(symbol) AS example FROM trades GROUP BY exchange ORDER BY trades DESC, exchange
\`\`\``;

/** Written by hand; `recipes.slow.test.ts` compares its columns with those of a file. */
const SUMMARY = `## Summary\n${readSection('docs/data.md', 'Summary').trimEnd()}`;

export function buildDataPage(): string {
  const parts = [
    ...[INTRO, TRADES, listTrades(), CODES, listActivityTypes(), CHAIN, listSnapshot('chain')],
    ...[STRUCTURE, listSnapshot('market-structure'), SUMMARY, OPEN_QUESTIONS],
  ];
  return `${parts.join('\n\n')}\n`;
}

function listTrades(): string {
  const job = parseJob('x.yaml', 'name: x\nsource: {api: historical}\ndrop: {to: out, dataset: x}\n');
  const columns = new Map(job.source.columns.map((column) => [column.name, column]));
  return TRADE_COLUMNS.map(({ name, drop, unit, description }) =>
    describe(name, drop, unit, columns.get(name)?.oftenNull === true, description),
  ).join('\n');
}

function listSnapshot(api: 'chain' | 'market-structure'): string {
  return SNAPSHOT_COLUMNS[api]
    .map(({ name, type, unit, nullable, description }) => describe(name, type, unit, nullable, description))
    .join('\n');
}

/** Columns of trades that the API document does not describe. */
function listSampled(): string {
  return TRADE_COLUMNS.filter(({ isDescribed }) => !isDescribed)
    .map(({ name }) => code(name))
    .join(', ');
}

function listActivityTypes(): string {
  const groups = [
    ['single option', SINGLE_LEG_TYPES],
    ['sweep', SWEEP_TYPES],
    ['leg of a complex order', [`${MULTI_LEG_PREFIX}...`, ...MULTI_LEG_TYPES]],
    ['late report: not counted', LATE_TYPES],
    ['cancel message: not counted, nor is the print that it cancels', CANCEL_TYPES],
  ] as const;
  return groups.map(([group, codes]) => `- **${group}**: ${codes.map(describeCode).join(', ')}`).join('\n');
}

/** The description without the unit, which stands beside the type, and without what `?` says. */
function describe(
  name: string,
  type: string,
  unit: string | null | undefined,
  isOftenNull: boolean,
  description: string,
): string {
  const text = unit ? description.replace(`, ${unit}.`, '.') : description;
  const check = CHECKS[name];
  const column = check === undefined ? code(name) : `[${code(name)}](#${check})`;
  const typed = [code(`${type}${isOftenNull ? '?' : ''}`), ...(unit === undefined ? [] : [unit ?? 'not documented'])];
  return `- ${column} ${typed.join(', ')}: ${text.replace(' Null where it could not be computed.', '').replace(/\.$/, '')}`;
}

function code(name: string): string {
  return `\`${name}\``;
}

/** A code and its name; one without a name alone. */
function describeCode(one: string): string {
  const name = nameCode(one);
  return name === one ? code(one) : `${code(one)} ${name}`;
}
