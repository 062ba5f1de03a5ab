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

const TITLES = ['column', 'type', 'unit', 'null', 'source', 'meaning'] as const;

/** Sections of the page that say how to check what the API's document leaves open. */
const CHECKS: Readonly<Record<string, string>> = {
  ...{ time: 'time', oi: 'open-interest', open_interest: 'open-interest', sentiment: 'side-and-sentiment' },
  ...{ iv: 'greeks-and-volatility', delta: 'greeks-and-volatility', gamma: 'greeks-and-volatility' },
  ...{ vega: 'greeks-and-volatility', theta: 'greeks-and-volatility', rho: 'greeks-and-volatility' },
  ...{ exchange: 'exchange', side: 'side-and-sentiment', option_activity_type: 'activity-types' },
};

const INTRO = `# Data dictionary

For quants: every column of every drop, with its meaning, unit, type and source, and how to check what the provider's API document does not say. This page is generated from the column tables in the code.

- **Type**: how the file stores the values: [types](drops.md#types). \`wall\` is New York's clock without a zone, \`instant\` is UTC.
- **Null**: \`no\`: never. \`yes\`: a value that is often unknown. \`rarely\`: not null by contract; if the API sends a null, it is kept and counted in \`nulls\` of the [manifest](drops.md#manifestjson). Unknown text is usually empty, not null.
- **Unit**: \`not documented\` means that the provider's API document ("the API document" on this page) gives no unit.
- **Source**: \`document\`: the API document describes the column. \`rows\`: it shows the column only in sample rows, so the meaning is inferred from those. \`service\`: it does not show the field; name and meaning come from the included [service](service.md). Other fields of your API become extra text columns. \`flowdrop\`: computed or filled in by flowdrop.
- **Check**: where the API document leaves the unit or the time of a number open, the meaning links to [a query](#what-the-api-document-does-not-say-and-how-to-check-it) that finds it in your own data.

Before you sum trades: a drop has every record, including cancels and late reports. See [which records count](formulas.md#which-records-count), and the ready-made queries in [recipes](recipes.md).`;

const TRADES = `## Trades

One row is one trade record. The job [nightly-trades](../jobs/nightly-trades.yaml) exports these as the dataset \`trades\`. Sorted by \`symbol\`, \`time\`, \`id\`.`;

const CODE_ROWS = [
  ['`put_call`', '`CALL`, `PUT`'],
  [
    '`side`',
    '`AASK` above the ask, `ASK` at the ask, `MID` between bid and ask, `BID` at the bid, `BBID` below the bid',
  ],
  [
    '`sentiment`',
    "`BULLISH`, `BEARISH`, `NEUTRAL`: the API's estimate from where the trade executed: [check](#side-and-sentiment)",
  ],
  [
    '`moneyness`',
    '`ITM` in the money, `ATM` at the money, `OTM` out of the money; the API document does not say how close to the spot price `ATM` is',
  ],
  ['`exchange`', 'not listed by the API document: [see which ones you get](#exchange)'],
  ['`underlying_type`', 'not listed by the API document; may be empty'],
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

\`option_activity_type\` is OPRA's message type of a last sale report, by the short name that the API sends. The API document lists no values; these are the ones that OPRA publishes. A type that is not in this table counts as a single option, and the report lists it as unknown.`;

const CHAIN = `## Option chain

One row is one contract of the session's last snapshot. The job [option-chain](../jobs/option-chain.yaml) exports these as the dataset \`option-chain\` (\`option_chain\` in SQL). The API document does not show the fields of a chain row.`;

const STRUCTURE = `## Market structure

One row is one symbol. The job [market-structure](../jobs/market-structure.yaml) exports these as the dataset \`market-structure\` (\`market_structure\` in SQL). The API document describes the fields of \`meta\` and \`intraday_gex\`, but not those of the other objects. So the drop has those other objects twice: as columns, and as one JSON text.`;

const OPEN_QUESTIONS = `## What the API document does not say, and how to check it

The queries run in \`flowdrop query\` and in DuckDB: [how](recipes.md#how-to-run-them). Run them once on your own drops: generated data only shows what the included service does.

### Greeks and volatility

The API document says only "option theta (time decay)", not whether theta is per day or per year, or vega per point or per 1.00 of volatility. By Black-Scholes with a rate of 0, each greek can be computed from gamma, price and delta. The ratio of the API's value to the computed one shows its unit.

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

The included service sends theta per calendar day, vega per point and rho per point. \`SELECT min(delta), max(delta)\` shows whether \`delta\` is from -1 to 1; if puts have a positive delta, the API leaves out the sign.

### Open interest

The API document does not say which point in time open interest refers to. Exchanges publish it once, before the session, as of the end of the previous session.

\`\`\`sql recipe run
SELECT date, count(*) AS contracts, sum(CASE WHEN first_oi < last_oi THEN 1 ELSE 0 END) AS changed
FROM (SELECT date, option_symbol, min(oi) AS first_oi, max(oi) AS last_oi FROM trades GROUP BY date, option_symbol) AS listed
GROUP BY date ORDER BY date
\`\`\`

If \`changed\` is 0, each contract has one figure per session. The next query shows whether that figure is from the evening before. If it is, nearly all contracts are \`possible\`, because open interest cannot change by more than the contracts that traded.

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

Generated sessions have a new random open interest each day, so only a few contracts are \`possible\` there.

### Time

The API document says "trade creation time" and names no time zone. flowdrop assumes New York time. If that is right, nearly all trades are between 09:30 and 16:15, and the first half hour is among the busiest.

\`\`\`sql recipe run
SELECT EXTRACT(HOUR FROM time) AS hour, CASE WHEN EXTRACT(MINUTE FROM time) < 30 THEN 0 ELSE 30 END AS minute, count(*) AS trades
FROM trades WHERE date = (SELECT max(date) FROM trades) GROUP BY 1, 2 ORDER BY 1, 2
\`\`\`

### Side and sentiment

The API document shows \`side\` only in sample rows. \`sentiment\` is an estimate "from whether the trade executed at bid, ask or spot". The query shows the rule that your API uses. A trade at the ask is not necessarily a purchase that opens a position.

\`\`\`sql recipe run
SELECT put_call, side, sentiment, count(*) AS trades FROM trades
WHERE date = (SELECT max(date) FROM trades) GROUP BY put_call, side, sentiment ORDER BY put_call, side, sentiment
\`\`\`

### Exchange

The API document lists no values. The included service sends names (\`CBOE\`, \`PHLX\`). Single letters are most likely OPRA's participant ids, which OPRA's Pillar Output Specification lists.

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
  return buildTable(
    TITLES,
    TRADE_COLUMNS.map(({ name, drop, unit, isDescribed, description }) => {
      const column = columns.get(name);
      const nulls = column?.oftenNull ? 'yes' : column?.nullable ? 'rarely' : 'no';
      return [
        code(name),
        code(drop),
        formatUnit(unit),
        nulls,
        isDescribed ? 'document' : 'rows',
        explain(name, description, unit),
      ];
    }),
  );
}

function listSnapshot(api: 'chain' | 'market-structure'): string {
  return buildTable(
    TITLES,
    SNAPSHOT_COLUMNS[api].map(({ name, type, unit, nullable, source, description }) => [
      ...[code(name), code(type), formatUnit(unit), nullable ? 'yes' : 'no', source, explain(name, description, unit)],
    ]),
  );
}

function listActivityTypes(): string {
  const groups = [
    ['single option', SINGLE_LEG_TYPES],
    ['sweep', SWEEP_TYPES],
    ['leg of a complex order', [`${MULTI_LEG_PREFIX}...`, ...MULTI_LEG_TYPES]],
    ['late report: not counted', LATE_TYPES],
    ['cancel message: not counted, nor is the print that it cancels', CANCEL_TYPES],
  ] as const;
  return buildTable(
    ['in the report', 'codes'],
    groups.map(([group, codes]) => [group, codes.map(describeCode).join(', ')]),
  );
}

/** The description without the unit, which has a column of its own. */
function explain(name: string, description: string, unit: string | null | undefined): string {
  const text = unit ? description.replace(`, ${unit}.`, '.') : description;
  const check = CHECKS[name];
  return check === undefined ? text : `${text} [Check](#${check})`;
}

function formatUnit(unit: string | null | undefined): string {
  return unit === null ? 'not documented' : (unit ?? '');
}

function code(name: string): string {
  return `\`${name}\``;
}

/** A code and its name; one without a name alone. */
function describeCode(one: string): string {
  const name = nameCode(one);
  return name === one ? code(one) : `${code(one)} ${name}`;
}
