/**
 * The job files that `flowdrop init` writes, with comments, and the kinds of `--add`. Shipped job files serve as they are, with the name, the place and
 * the symbols of the caller; comments stay. Invariant: every text is a valid job.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { INIT_DEFAULTS, type InitChoice } from './init-files.ts';

/** What each kind is, in the order of the question. */
export const JOB_KINDS = {
  trades: 'every trade of every session',
  'minute-flow': 'premium and sentiment by symbol and minute, summed by the API',
  chain: 'end-of-day option chains of some symbols',
  structure: 'dealer exposure at the end of the day, of some symbols',
  clickhouse: 'a table of your ClickHouse server',
  sql: 'a query of your own over the trades',
} as const;

export type JobKind = keyof typeof JOB_KINDS;

export const JOB_KIND_NAMES = Object.keys(JOB_KINDS) as JobKind[];

const SHIPPED = {
  'minute-flow': 'symbol-minute-flow.yaml',
  chain: 'option-chain.yaml',
  structure: 'market-structure.yaml',
} as const satisfies Partial<Record<JobKind, string>>;

const SCHEDULE = `schedule:
  cron: "45 16 * * 1-5"
  timezone: America/New_York
`;

const OWN_SQL = `# A query of your own over the trades: \`{window}\` stands for the part of a day that one request reads.
# docs/jobs.md has the rules; \`flowdrop check --live\` asks the API whether it accepts the query.
name: own-sql
source:
  api: historical
  sql: |
    SELECT id, symbol, date, time, option_symbol, premium, size
    FROM RawOptionTrades
    WHERE {window} AND premium >= 100000
  types: # of the columns that the query returns, beside id, date and time
    symbol: string
    option_symbol: string
    premium: double
    size: int64
drop:
  to: out/drops
  dataset: own-sql
  sort: [symbol, time, id]
${SCHEDULE}`;

const CLICKHOUSE = `# A table of your ClickHouse server, address and user in FLOWDROP_CLICKHOUSE_URL. Without \`columns\` it has the
# columns of the trade record.
name: server-trades
source:
  api: clickhouse
  table: trades
  # columns: [id, symbol, date, time, premium]
  # types: { premium: double }
drop:
  to: out/drops
  dataset: server-trades
  sort: [symbol, time, id]
${SCHEDULE}`;

/** Words that YAML does not read as text. */
const YAML_WORDS: readonly string[] = ['true', 'false', 'null'];

export type JobChoice = Pick<InitChoice, 'name' | 'to' | 'recipients' | 'symbols'>;

export function buildJobText({ name, to, recipients, symbols }: JobChoice): string {
  const watchlist = symbols.length > 0 ? symbols : INIT_DEFAULTS.symbols;
  const report = [
    'reports:',
    '  - template: flow',
    `    to: ${formatList(recipients.length > 0 ? recipients : ['desk@example.com'])}`,
    `    symbols: ${formatList(watchlist)} # the watchlist`,
  ];
  return `# A flowdrop job: what to export, where, when, and who gets the report.
# \`flowdrop schema\` prints every key, \`flowdrop check ${formatText(name)}\` validates this file.
name: ${formatText(name)}

# What to read: every trade of every session.
source:
  api: historical
  table: RawOptionTrades
  # where: symbol IN ('SPY', 'QQQ') # fewer rows, by a condition in SQL

# One Parquet object per trading day: trades/session=2026-11-19/trades.parquet
drop:
  to: ${formatText(to)} # a directory, or s3://bucket/prefix
  dataset: trades
  sort: [symbol, time, id]

# Checks that a day must pass before it is sealed.
checks:
  - check: unique-id
  - check: dates
  - check: baseline # is the day like the five before? Only warns

# When \`flowdrop start\` runs it: when the last trades (16:15) have been visible for a minute, on the exchange's clock.
# settle: 1m # how long the last trades of a date have been visible before it is sealed
schedule:
  cron: "31 16 * * 1-5"
  timezone: America/New_York
  stage: 5m # fetch full pages while the session runs, so that the run fetches only the last minutes
  # retry: 15m # wait before a failed run is retried, or off
  # timeout: 8h # time after which a run is stopped, or off

# The flow report of the newest day, by mail.
${report.map((line) => (recipients.length > 0 ? line : `# ${line}`)).join('\n')}

# Who gets a mail when something is wrong, once per cause.
# alerts:
#   to: [ops@example.com]
`;
}

export interface AddedJob extends JobChoice {
  readonly kind: JobKind;
}

/** @param jobsFolder where the shipped job files are */
export async function buildAddedJob(jobsFolder: string, { kind, ...choice }: AddedJob): Promise<string> {
  const { name, to, symbols } = choice;
  const text = kind === 'trades' ? buildJobText(choice) : await readKind(jobsFolder, kind);
  const document = parseDocument(text);
  document.set('name', name);
  document.setIn(['drop', 'dataset'], name);
  document.setIn(['drop', 'to'], to);
  if (symbols.length > 0 && document.hasIn(['source', 'symbols'])) document.setIn(['source', 'symbols'], symbols);
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

async function readKind(jobsFolder: string, kind: Exclude<JobKind, 'trades'>): Promise<string> {
  if (kind === 'sql') return OWN_SQL;
  if (kind === 'clickhouse') return CLICKHOUSE;
  return await readFile(join(jobsFolder, SHIPPED[kind]), 'utf8');
}

function formatList(values: readonly string[]): string {
  return `[${values.map(formatText).join(', ')}]`;
}

/** A text in YAML, also inside a list; JSON's quotes are valid in YAML. */
function formatText(value: string): string {
  const isPlain = /^[A-Za-z][\w./@+-]*(?::\/\/[\w./@+-]+)?$/.test(value) && !YAML_WORDS.includes(value.toLowerCase());
  return isPlain ? value : JSON.stringify(value);
}
