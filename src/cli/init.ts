/**
 * `flowdrop init [DIR]`: writes a commented job file, for reports one of the option chains that they need, and a
 * settings file, which the API has accepted; with `--add NAME` it writes one more job file, of a chosen kind. They are
 * shipped files with the choices of the caller: flags first, then answers, then defaults; what was not chosen stays a
 * comment. Questions come line by line; each gets a valid answer, or nothing is written. Invariants: nothing is overwritten
 * without --force, and replaced files are kept beside the new ones; every value is read back exactly as it was given;
 * secrets come from answers or files, never from arguments, which other users and the shell's history can see.
 */
import { appendFile, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { parseDocument } from 'yaml';
import { readFileIfExists, tryParseJson, writeWholeFile } from '../core/atomic-file.ts';
import { assertNotAborted, describeError, EXIT_CODES, Fault, isFault } from '../core/errors.ts';
import { startProcess } from '../daemon/run-process.ts';
import type { Job } from '../job/job.ts';
import { assertDistinct, readValidJobs } from '../job/job-folder.ts';
import { parseJob } from '../job/parse.ts';
import { USUAL_CHAIN } from '../job/report-shape.ts';
import { parseSmtpUrl } from '../mail/smtp.ts';
import { MAIL_FOLDER } from '../settings/setting-list.ts';
import { completeAddress, sourceUrl } from '../settings/settings.ts';
import { parseLocation } from '../store/object-key.ts';
import { JOB_KINDS } from './commands.ts';
import { type Call, type Cli, nameProgram, usage } from './context.ts';

type Flags = Call<'init'>['options'];

/** What a job file gets, as far as it was chosen. */
interface Choice {
  readonly name: string;
  readonly to: string;
  /** Default: as in the shipped file. */
  readonly dataset?: string;
  /** Who gets the flow report; empty: nobody. */
  readonly recipients: readonly string[];
  /** Of the source, or of the report's watchlist. */
  readonly symbols: readonly string[];
}

/** By name; an empty one was not chosen, and stays a comment. */
type Settings = Readonly<Record<string, string>>;

type Chosen = Choice & Readonly<{ kind: Kind; settings: Settings; tried?: Trial | undefined }>;

/** @throws Fault `ANSWER_INVALID`, `FILE_EXISTS`, `JOB_INVALID` (usage); what the API refused */
export async function init(cli: Cli, { argument: dir = '.', options: flags }: Call<'init'>) {
  const { terminal, globals, self } = cli;
  const folder = resolve(cli.cwd, dir);
  const { add, force = false, offline = false } = flags;
  const path = join(folder, globals.jobs, `${add ?? flags.name ?? INIT_DEFAULTS.name}.yaml`);
  const isFirst = add === undefined;
  const chainPath = join(folder, globals.jobs, `${USUAL_CHAIN}.yaml`);
  const settingsPath = join(folder, '.env');
  // Before the questions, so that no one types a key in vain.
  if (!force) await assertAbsent(isFirst ? [path, chainPath, settingsPath] : [path]);
  const others = (await readValidJobs(dirname(path)).catch(() => [])).filter(({ file }) => file !== path);
  const { kind, settings, tried, ...choice } = await withAnswers<Chosen>(cli, flags, (ask) =>
    isFirst ? choose(cli, flags, ask) : chooseMore(cli, flags, ask, add, others),
  );
  const { name, to, symbols, recipients } = choice;
  const files: NewFile[] = [{ path, text: fillJob(await readShipped(cli, kind), choice) }];
  const hasChain = isFirst && recipients.length > 0;
  if (hasChain) {
    // Whatever is watched, the first screen shows the symbol with most premium.
    const chains = [...new Set(['SPX', ...symbols.map((symbol) => symbol.toUpperCase())])];
    const text = fillJob(await readShipped(cli, 'chain'), { name: USUAL_CHAIN, to, symbols: chains, recipients: [] });
    files.push({ path: chainPath, text });
  }
  // Before anything is written: they must be valid, and not clash with others.
  assertDistinct([...others, ...files.map((file) => parseJob(file.path, file.text))]);
  if (isFirst) {
    const shipped = await readFile(join(dirname(cli.openers.shippedJob), 'init', 'settings.env'), 'utf8');
    files.push({ path: settingsPath, text: fillSettings(shipped, settings), mode: 0o600 });
  }
  const kept = await writeNew(files, force);
  if (isFirst) await hideFromGit(folder, basename(settingsPath));

  const show = (file: string) => relative(cli.cwd, file) || file;
  const tell = (said: string) => (globals.json ? terminal.err(said) : terminal.out(said));
  for (const file of kept) tell(`kept   ${show(file)}\n`);
  for (const file of files) tell(`wrote  ${show(file.path)}\n`);
  // Another job may need what the folder does not have yet.
  const trial = isFirst || offline ? tried : await tryJob(cli, folder, dirname(path), name, self.env);
  if (trial) tell(`${trial.ok ? 'ok    ' : 'FAIL  '} ${name}: ${describeTrial(trial)}\n`);
  if (trial?.ok === false)
    tell(`The files are written. Correct them, then: ${nameProgram(self.env)} check --live ${name}\n`);
  const missing = isFirst ? listMissing(settings, self.env) : [];
  if (missing.length > 0)
    tell(`The connection was not tested; first put ${missing.join(' and ')} into ${show(settingsPath)}.\n`);
  const commands = [`plan ${name}`, ...(hasChain ? [`run ${USUAL_CHAIN}`] : []), `run ${name}`];
  const cd = relative(cli.cwd, folder);
  const next = [
    ...(cd === '' ? [] : [`cd ${cd}`]),
    ...(isFirst ? [`doctor ${name}`, ...commands, 'start'] : commands).map((one) => `${nameProgram(self.env)} ${one}`),
  ];
  const connection = trial === undefined ? 'untried' : trial.ok ? 'ok' : 'failed';
  const document = { job: name, kind: add && kind, written: files.map((file) => file.path), kept, connection, next };
  cli.print(document, ['Next:', ...next.map((line) => `  ${line}`)]);
  return trial?.exitCode;
}

/** What the connection cannot be tested without. */
function listMissing(settings: Settings, env: Cli['self']['env']): readonly string[] {
  return ['FLOWDROP_API_URL', 'FLOWDROP_API_KEY'].filter(
    (one) => ![one, `${one}_FILE`].some((setting) => settings[setting] || env[setting]),
  );
}

/** Without a mode it has the system's. */
type NewFile = Readonly<{ path: string; text: string; mode?: number }>;

/** Call it before questions whose answers would be lost. @throws Fault `FILE_EXISTS` (usage), which names the files */
async function assertAbsent(paths: readonly string[]): Promise<void> {
  const present: string[] = [];
  for (const path of paths) if (await stat(path).catch(() => undefined)) present.push(path);
  if (present.length === 0) return;
  const hint =
    'One more job: `flowdrop init --add NAME`. To replace: `flowdrop init --force`; what is there is kept as FILE.old. Another folder: `flowdrop init DIR`.';
  throw usage(`${present.join(' and ')} already ${present.length > 1 ? 'exist' : 'exists'}`, hint, 'FILE_EXISTS');
}

/** @returns where the replaced files are kept @throws Fault `FILE_EXISTS` (usage) */
async function writeNew(files: readonly NewFile[], replace: boolean): Promise<readonly string[]> {
  const kept: string[] = [];
  for (const { path, text, mode } of files) {
    if (replace && (await stat(path).catch(() => undefined))) {
      await rename(path, `${path}.old`);
      kept.push(`${path}.old`);
    }
    // Exclusive, in case another process just created it.
    if (!(await writeWholeFile(path, text, { exclusive: true, mode }))) await assertAbsent([path]);
  }
  return kept;
}

/** Adds the file to the folder's `.gitignore`, once: it holds secrets. Nothing else of that file is changed. */
async function hideFromGit(folder: string, name: string): Promise<void> {
  const path = join(folder, '.gitignore');
  const text = (await readFileIfExists(path)) ?? '';
  if (text.split(/\r?\n/).some((line) => line.trim() === name)) return;
  await appendFile(path, `${text === '' || text.endsWith('\n') ? '' : '\n'}${name}\n`);
}

const DENIED: ReadonlySet<string> = new Set(['UNAUTHORIZED', 'SUBSCRIPTION_REQUIRED']);

/** What `check --live` says of one job. */
type Trial = Readonly<{ ok: boolean; message: string; exitCode: number; code?: string; hint?: string }>;

function describeTrial({ message, hint }: Trial): string {
  return [message, hint].filter(Boolean).join('\n  -> ');
}

/** Runs the check as the next command would: in its own process. */
async function tryJob({ self }: Cli, cwd: string, jobs: string, name: string, env: Cli['self']['env']): Promise<Trial> {
  const args = [...self.args, '--json', '--jobs', jobs, 'check', '--live', name];
  const { code: exitCode = EXIT_CODES.failed, stdout, stderr } = await startProcess({ ...self, args, env, cwd }).done;
  const [said] = (tryParseJson(stdout) as readonly Omit<Trial, 'exitCode'>[] | undefined) ?? []; // As `check` prints it.
  return { ...(said ?? { ok: false, message: stderr.trim() }), exitCode };
}

/** Tries settings and job before they are written; an API that does not answer takes a while. @returns `undefined` without all of them */
async function trySettings(cli: Cli, text: string, settings: Settings): Promise<Trial | undefined> {
  if (listMissing(settings, cli.self.env).length > 0) return undefined;
  cli.terminal.err('Testing the connection ...\n');
  const scratch = await mkdtemp(join(tmpdir(), 'flowdrop-init-'));
  try {
    await writeWholeFile(join(scratch, 'job.yaml'), text);
    // This process may have settings from an older file: the new ones win.
    const fresh = Object.entries(settings).filter(([setting, value]) => setting.startsWith('FLOWDROP_API_') && value);
    const older = settings['FLOWDROP_API_KEY_FILE'] ? { FLOWDROP_API_KEY: '' } : {};
    const env = { ...cli.self.env, ...older, ...Object.fromEntries(fresh), FLOWDROP_STATE_DIR: join(scratch, 'state') };
    return await tryJob(cli, cli.cwd, scratch, 'job', env);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** @param check throws a Fault for an answer that is not allowed @param isSecret hidden while it is typed */
type Ask = (text: string, fallback: string, check: (answer: string) => void, isSecret?: boolean) => Promise<string>;

async function choose(cli: Cli, flags: Flags, ask: Ask) {
  const shipped = await readShipped(cli, 'trades');
  const known = cli.self.env;
  const isSet = (name: string) => Boolean(known[name] || known[`${name}_FILE`]);
  const fileOf = (file: string | undefined) => (file === undefined ? '' : resolve(cli.cwd, file));
  const assertPlace = (to: string) => void parseLocation(to, cli.cwd);
  const assertApiUrl = (url: string) => {
    try {
      sourceUrl({ FLOWDROP_API_URL: url }, 'historical');
    } catch {
      // The message does not repeat the value: it may be the key.
      const message = 'not an API address; allowed is scheme (http, https), host, port and path';
      const complete = completeAddress(url);
      throw usage(message, complete && `Write ${complete}`, 'SETTING_INVALID');
    }
  };
  if (flags.apiUrl !== undefined) assertApiUrl(flags.apiUrl);
  if (flags.to !== undefined) assertPlace(flags.to);
  assertAllowed(shipped, { name: flags.name, recipients: flags.reportTo, symbols: flags.symbols });
  const later = known['FLOWDROP_API_URL'] ?? '';
  const askUrl = async () => await ask('Address of the options data API (empty: later)', later, assertApiUrl);
  const hasKey = flags.apiKeyFile !== undefined || isSet('FLOWDROP_API_KEY');
  const askKey = async () => await ask('Its key, not shown (empty: later)', '', quoteSetting, true);
  let apiUrl = flags.apiUrl ?? (await askUrl());
  let apiKey = hasKey ? '' : await askKey();
  const api = () => ({
    FLOWDROP_API_URL: apiUrl,
    FLOWDROP_API_KEY: apiKey,
    FLOWDROP_API_KEY_FILE: fileOf(flags.apiKeyFile),
  });
  const { name = INIT_DEFAULTS.name } = flags;
  const trialJob = fillJob(shipped, { name, to: INIT_DEFAULTS.to, recipients: [], symbols: [] });
  // Before the other questions: a wrong key must not cost a person all of them.
  const tryApi = async () => (flags.offline ? undefined : await trySettings(cli, trialJob, api()));
  let tried = await tryApi();
  while (tried?.ok === false) {
    const isKey = DENIED.has(tried.code ?? '');
    if (!canAsk(cli, flags) || (isKey ? hasKey : flags.apiUrl !== undefined)) {
      const kind = tried.exitCode === EXIT_CODES.usage ? 'usage' : 'failed';
      const hint = `${tried.hint ?? ''} Then type the same again; with --offline nothing is tested.`.trimStart();
      throw new Fault(tried.code ?? 'API_FAILED', `${tried.message}; nothing was written`, { kind, hint });
    }
    cli.terminal.err(`  ${isKey ? 'Not with this key: ' : ''}${describeTrial(tried)}\n`);
    if (isKey) apiKey = await askKey();
    else apiUrl = await askUrl();
    tried = await tryApi();
  }
  const where = 'Where the drops go: a directory or s3://bucket/prefix';
  const to = flags.to ?? (await ask(where, INIT_DEFAULTS.to, assertPlace));
  /** Several answers in one line. */
  const splitList = (text: string) => text.split(/[\s,;]+/).filter((part) => part !== '');
  const askList = async (text: string, fallback: string, part: 'recipients' | 'symbols') =>
    splitList(await ask(text, fallback, (answer) => assertAllowed(shipped, { [part]: splitList(answer) })));
  const recipients =
    flags.reportTo ?? (await askList('Mail the flow report to (addresses, empty: nobody)', '', 'recipients'));
  const hasReport = recipients.length > 0;
  const usual = INIT_DEFAULTS.symbols.join(', ');
  const symbols = flags.symbols ?? (hasReport ? await askList('Watchlist (symbols)', usual, 'symbols') : []);
  const server = 'Mail server, not shown: smtps://user:password@host (empty: mail is only written to out/mail)';
  const assertServer = (answer: string) => answer === MAIL_FOLDER || (parseSmtpUrl(answer) && quoteSetting(answer));
  const hasServer = flags.smtpUrlFile !== undefined || isSet('FLOWDROP_SMTP_URL');
  const smtpUrl = hasServer || !hasReport ? '' : await ask(server, '', assertServer, true);
  const settings = {
    ...api(),
    FLOWDROP_SMTP_URL: smtpUrl,
    FLOWDROP_SMTP_URL_FILE: fileOf(flags.smtpUrlFile),
    FLOWDROP_MAIL_FROM: flags.mailFrom ?? '',
  };
  return { kind: 'trades' as const, name, to, recipients, symbols, settings, tried };
}

async function chooseMore(cli: Cli, flags: Flags, ask: Ask, name: string, others: readonly Job[]) {
  const { reportTo = [], symbols = [] } = flags;
  assertAllowed(await readShipped(cli, 'trades'), { name, recipients: reportTo, symbols });
  const kinds = JOB_KINDS.join(', ');
  const assertKind = (answer: string) => {
    if (JOB_KINDS.some((one) => one === answer)) return;
    throw usage(`"${answer}" is not a kind; allowed are ${kinds}`, undefined, 'ANSWER_INVALID');
  };
  const kind = flags.kind ?? ((await ask(`Kind of job (${kinds})`, 'trades', assertKind)) as Kind); // Checked.
  // Where the other jobs of the folder put their drops, if that is one place.
  const [only, ...more] = new Set(others.map(({ drop }) => drop.to));
  const to = flags.to ?? (more.length === 0 ? only : undefined) ?? INIT_DEFAULTS.to;
  return { kind, name, to, dataset: name, recipients: kind === 'trades' ? reportTo : [], symbols, settings: {} };
}

/** Only where a person, or a pipe that `--ask` announces, can answer. */
function canAsk({ terminal }: Cli, { yes, ask }: Flags): boolean {
  return !yes && (ask || terminal.inIsTerminal);
}

async function withAnswers<T>(cli: Cli, flags: Flags, act: (ask: Ask) => Promise<T>): Promise<T> {
  if (!canAsk(cli, flags)) return await act(async (_, fallback) => fallback);
  const { terminal, signal } = cli;
  const { stdin, inIsTerminal } = terminal;
  let isMuted = false;
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (!isMuted) terminal.err(chunk.toString());
      done();
    },
  });
  const screen = inIsTerminal ? output : undefined;
  const lines = createInterface({ input: stdin, terminal: inIsTerminal, output: screen, signal });
  // Lines are buffered from here on: a pipe may deliver all at once.
  const iterator = lines[Symbol.asyncIterator]();
  const read = async (text: string, fallback: string, isSecret: boolean): Promise<string> => {
    const prompt = `${text}${fallback === '' || isSecret ? '' : ` [${fallback}]`}: `;
    lines.setPrompt(prompt);
    if (inIsTerminal) lines.prompt();
    else terminal.err(prompt);
    isMuted = isSecret;
    const next = await iterator.next();
    isMuted = false;
    // The Enter key was hidden too; input from a pipe is never shown.
    if (isSecret || !inIsTerminal) terminal.err('\n');
    assertNotAborted(signal);
    if (!next.done) return next.value.trim() || fallback;
    if (inIsTerminal) throw new Fault('INTERRUPTED', 'stopped; nothing was written', { kind: 'interrupted' });
    const hint = 'Give one line per question (empty: the value in brackets), or use flags and --yes.';
    throw usage(`stdin ended before the question "${text}"; nothing was written`, hint, 'INPUT_ENDED');
  };
  try {
    return await act(async (text, fallback, check, isSecret = false) => {
      for (;;) {
        const answer = await read(text, fallback, isSecret);
        try {
          if (answer !== '') check(answer);
          return answer;
        } catch (error) {
          if (!isFault(error)) throw error;
          terminal.err(`  ${describeError(error)}${error.hint ? `\n  -> ${error.hint}` : ''}\n`);
        }
      }
    });
  } finally {
    lines.close();
  }
}

type Kind = (typeof JOB_KINDS)[number];

export const SHIPPED_JOBS: Readonly<Record<Kind, string>> = {
  trades: 'init/nightly-trades.yaml',
  'minute-flow': 'symbol-minute-flow.yaml',
  chain: 'option-chain.yaml',
  structure: 'market-structure.yaml',
  clickhouse: 'init/server-table.yaml',
  sql: 'init/own-sql.yaml',
};

async function readShipped({ openers }: Cli, kind: Kind): Promise<string> {
  return await readFile(join(dirname(openers.shippedJob), SHIPPED_JOBS[kind]), 'utf8');
}

const INIT_DEFAULTS = { name: 'nightly-trades', to: 'out/drops', symbols: ['SPY', 'QQQ', 'NVDA'] } as const;

/** What makes the report of the shipped file a comment. */
const REPORT_COMMENT = /^# (?=reports:| {2}- template| {4}(?:to|symbols):)/gm;

export function fillJob(text: string, choice: Choice): string {
  const { name, to, dataset, recipients } = choice;
  const document = parseDocument(recipients.length > 0 ? text.replace(REPORT_COMMENT, '') : text);
  const symbols = choice.symbols.map((symbol) => symbol.toUpperCase());
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
function assertAllowed(text: string, part: Readonly<Record<string, string | readonly string[] | undefined>>): void {
  const given = Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined && value.length > 0));
  const { name, to } = INIT_DEFAULTS;
  try {
    parseJob('', fillJob(text, { name, to, recipients: ['desk@example.com'], symbols: [], ...given }));
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID') throw error;
    const lines = error.message.replace(/^:\d+: /gm, '').split('\n');
    // Of several in one answer, the rule once.
    const wrong = lines.map((line) => /^(\w+)[\w.]*: got (".*"); (.*)$/.exec(line));
    const [, key, , rule] = wrong[0] ?? [];
    const values = wrong.map((one) => (one?.[3] === rule ? one?.[2] : undefined));
    const isOne = !values.includes(undefined);
    throw usage(isOne ? `${key}: got ${values.join(', ')}; ${rule}` : lines.join('; '), undefined, 'ANSWER_INVALID');
  }
}

export function fillSettings(text: string, settings: Settings): string {
  return text.replace(/^# ([A-Z0-9_]+)=.*$/gm, (line, name: string) => {
    return settings[name] ? `${name}=${quoteSetting(settings[name])}` : line;
  });
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
