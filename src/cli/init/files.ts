/**
 * The files that `flowdrop init` writes: shipped ones with the choices of the caller; comments stay, and what was not
 * chosen stays a comment. Invariant: every value is read back exactly as it was given.
 */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parseDocument } from 'yaml';
import { Fault, isFault } from '../../core/errors.ts';
import { parseJob } from '../../job/parse.ts';
import { usage } from '../arguments.ts';
import type { Cli } from '../context.ts';

/** What each kind of job is, in the order of the question. */
export const JOB_KINDS = {
  trades: 'every trade of every session',
  'minute-flow': 'premium and sentiment by symbol and minute, summed by the API',
  chain: 'end-of-day option chains of some symbols',
  structure: 'dealer exposure at the end of the day, of some symbols',
  clickhouse: 'a table of your ClickHouse server',
  sql: 'a query of your own over the trades',
} as const;

export type JobKind = keyof typeof JOB_KINDS;

/** Names in the folder of the shipped jobs. */
const FILES: Readonly<Record<JobKind | 'settings', string>> = {
  trades: 'init/nightly-trades.yaml',
  'minute-flow': 'symbol-minute-flow.yaml',
  chain: 'option-chain.yaml',
  structure: 'market-structure.yaml',
  clickhouse: 'init/server-table.yaml',
  sql: 'init/own-sql.yaml',
  settings: 'init/settings.env',
};

export async function readShipped({ openers }: Pick<Cli, 'openers'>, what: keyof typeof FILES): Promise<string> {
  return await readFile(join(dirname(openers.shippedJob), FILES[what]), 'utf8');
}

export const INIT_DEFAULTS = {
  name: 'nightly-trades',
  to: 'out/drops',
  symbols: ['SPY', 'QQQ', 'NVDA'],
} as const;

export interface JobChoice {
  readonly name: string;
  readonly to: string;
  /** Default: as in the shipped file. */
  readonly dataset?: string;
  /** Who gets the flow report; empty: nobody. */
  readonly recipients: readonly string[];
  /** Of the source, or of the report's watchlist. */
  readonly symbols: readonly string[];
}

/** What makes the report of the shipped file a comment. */
const REPORT_COMMENT = /^# (?=reports:| {2}- template| {4}(?:to|symbols):)/gm;

/** @param text of a shipped job file */
export function fillJob(text: string, { name, to, dataset, recipients, symbols: given }: JobChoice): string {
  const document = parseDocument(recipients.length > 0 ? text.replace(REPORT_COMMENT, '') : text);
  const symbols = given.map((symbol) => symbol.toUpperCase());
  const listOf = (values: readonly string[]) => document.createNode(values, { flow: true });
  document.set('name', name);
  document.setIn(['drop', 'to'], to);
  if (dataset !== undefined) document.setIn(['drop', 'dataset'], dataset);
  if (symbols.length > 0 && document.hasIn(['source', 'symbols']))
    document.setIn(['source', 'symbols'], listOf(symbols));
  if (recipients.length > 0) document.setIn(['reports', 0, 'to'], listOf(recipients));
  if (recipients.length > 0 && symbols.length > 0) document.setIn(['reports', 0, 'symbols'], listOf(symbols));
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/**
 * The rules of a job file, before there is one: the fault names no file. @param text of the shipped job file
 * @throws Fault `ANSWER_INVALID` (usage)
 */
export function assertAllowed(
  text: string,
  part: Readonly<Record<string, string | readonly string[] | undefined>>,
): void {
  const given = Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined && value.length > 0));
  const { name, to } = INIT_DEFAULTS;
  try {
    parseJob('', fillJob(text, { name, to, recipients: ['desk@example.com'], symbols: [], ...given }));
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID') throw error;
    throw usage(error.message.replace(/^:\d+: /gm, ''), undefined, 'ANSWER_INVALID');
  }
}

/** @param text of the shipped settings file @param settings by name; an empty one stays a comment */
export function fillSettings(text: string, settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .filter(([, value]) => value !== '')
    .reduce((filled, [name, value]) => {
      return filled.replace(new RegExp(`^# ${name}=.*$`, 'm'), () => `${name}=${quoteSetting(value)}`);
    }, text);
}

/**
 * Quotes a value for Node's reader of settings files: text in quotes is literal, except `\n` in double quotes.
 * @throws Fault `SETTING_INVALID`
 */
export function quoteSetting(value: string): string {
  if (/^[\w./:@%+,=?&~-]+$/.test(value)) return value;
  const quote = ["'", '`', '"'].find((mark) => !value.includes(mark) && !(mark === '"' && value.includes('\\n')));
  if (quote !== undefined && !/[\r\n]/.test(value)) return quote + value + quote;
  // The message does not repeat the value: it may be a secret.
  throw new Fault('SETTING_INVALID', 'a settings file cannot hold this value: it contains every kind of quote', {
    kind: 'usage',
    hint: 'Put it into a file, and set the file name: FLOWDROP_API_KEY_FILE, FLOWDROP_SMTP_URL_FILE.',
  });
}
