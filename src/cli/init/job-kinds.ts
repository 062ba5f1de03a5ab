/**
 * The kinds of job that `flowdrop init --add` writes. Shipped job files serve as they are, with the name, the place and
 * the symbols of the caller; comments stay. Invariant: every text is a valid job.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import { buildJobText, type JobChoice } from './init-files.ts';

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
