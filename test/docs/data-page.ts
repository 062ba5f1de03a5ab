/**
 * Writes the lists of docs/data.md from the tables of columns, so that the page cannot differ from the files: names, types,
 * units, meanings, and the checks for what the API's document leaves open. The text between them is kept as it is.
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
import { readPage, readSection } from '../support/pages.ts';

/** Sections of the page that say how to check what the API's document leaves open. */
const CHECKS: Readonly<Record<string, string>> = {
  ...{ time: 'time', oi: 'open-interest', open_interest: 'open-interest', sentiment: 'side-and-sentiment' },
  ...{ iv: 'greeks-and-volatility', delta: 'greeks-and-volatility', gamma: 'greeks-and-volatility' },
  ...{ vega: 'greeks-and-volatility', theta: 'greeks-and-volatility', rho: 'greeks-and-volatility' },
  ...{ exchange: 'exchange', side: 'side-and-sentiment', option_activity_type: 'activity-types' },
};

const PAGE = 'docs/data.md';

const TRADES = `## Trades

One row is one trade record: the job [nightly-trades](../jobs/nightly-trades.yaml), dataset \`trades\`, sorted by \`symbol\`, \`time\`, \`id\`. The API document shows ${listSampled()} only in sample rows, so their meaning is inferred.`;

export function buildDataPage(): string {
  const intro = readPage(PAGE).split('\n## ')[0]?.trimEnd() ?? '';
  const parts = [
    intro,
    `${TRADES}\n\n${listTrades()}`,
    `${readByHand('Codes')}\n\n${listActivityTypes()}`,
    `${readByHand('Option chain')}\n\n${listSnapshot('chain')}`,
    `${readByHand('Market structure')}\n\n${listSnapshot('market-structure')}`,
    // `recipes.slow.test.ts` compares its columns with those of a file.
    readWhole('Summary'),
    readWhole('What the API document does not say, and how to check it'),
  ];
  return `${parts.join('\n\n')}\n`;
}

/** A section of the page as it is, without the list of its end, which is made here. */
function readByHand(heading: string): string {
  const text = readWhole(heading);
  return text.slice(0, text.lastIndexOf('\n\n- '));
}

function readWhole(heading: string): string {
  return `## ${heading}\n${readSection(PAGE, heading).trimEnd()}`;
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
