/**
 * Choices of `flowdrop init`: flags first, then answers, then defaults. Questions come line by line: on a terminal with
 * editing and hidden secrets, from a pipe in order. Invariant: every question gets a valid answer, or nothing is written.
 */
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { assertNotAborted, describeError, Fault, isFault } from '../../core/errors.ts';
import { parseSmtpUrl } from '../../mail/smtp-url.ts';
import { parseLocation } from '../../store/object-key.ts';
import { usage } from '../arguments.ts';
import type { Call } from '../commands.ts';
import type { Cli } from '../context.ts';
import { assertAllowed, INIT_DEFAULTS, JOB_KINDS, type JobChoice, type JobKind, quoteSetting } from './files.ts';

type Flags = Call<'init'>['options'];
/** @param check throws a Fault for an answer that is not allowed @param isSecret hidden while it is typed */
type Ask = (text: string, fallback: string, check: (answer: string) => void, isSecret?: boolean) => Promise<string>;

export interface Choice extends JobChoice {
  /** By their names; empty ones were not chosen. */
  readonly settings: Readonly<Record<string, string>>;
}

/** @param shipped text of the shipped job file, whose rules the answers follow */
export async function choose(cli: Cli, flags: Flags, shipped: string): Promise<Choice> {
  const known = cli.self.env;
  const isSet = (name: string) => Boolean(known[name] || known[`${name}_FILE`]);
  const fileOf = (file: string | undefined) => (file === undefined ? '' : resolve(cli.cwd, file));
  const assertPlace = (to: string) => void parseLocation(to, cli.cwd);
  if (flags.apiUrl !== undefined) assertApiUrl(flags.apiUrl);
  if (flags.to !== undefined) assertPlace(flags.to);
  assertAllowed(shipped, { name: flags.name, recipients: flags.reportTo, symbols: flags.symbols });
  return await withAnswers(cli, flags, async (ask) => {
    const later = known['FLOWDROP_API_URL'] ?? '';
    const apiUrl = flags.apiUrl ?? (await ask('Address of the options data API (empty: later)', later, assertApiUrl));
    const hasKey = flags.apiKeyFile !== undefined || isSet('FLOWDROP_API_KEY');
    const apiKey = hasKey ? '' : await ask('Its key, not shown (empty: later)', '', quoteSetting, true);
    const where = 'Where the drops go: a directory or s3://bucket/prefix';
    const to = flags.to ?? (await ask(where, INIT_DEFAULTS.to, assertPlace));
    const askList = async (text: string, fallback: string, part: 'recipients' | 'symbols') =>
      splitList(await ask(text, fallback, (answer) => assertAllowed(shipped, { [part]: splitList(answer) })));
    const recipients =
      flags.reportTo ?? (await askList('Mail the flow report to (addresses, empty: nobody)', '', 'recipients'));
    const hasReport = recipients.length > 0;
    const usual = INIT_DEFAULTS.symbols.join(', ');
    const symbols = flags.symbols ?? (hasReport ? await askList('Watchlist (symbols)', usual, 'symbols') : []);
    const server = 'Mail server, not shown: smtps://user:password@host (empty: mail is written to out/mail)';
    const assertServer = (answer: string) => {
      parseSmtpUrl(answer);
      quoteSetting(answer);
    };
    const hasServer = flags.smtpUrlFile !== undefined || isSet('FLOWDROP_SMTP_URL');
    const smtpUrl = hasServer || !hasReport ? '' : await ask(server, '', assertServer, true);
    const settings = {
      FLOWDROP_API_URL: apiUrl,
      FLOWDROP_API_KEY: apiKey,
      FLOWDROP_API_KEY_FILE: fileOf(flags.apiKeyFile),
      FLOWDROP_SMTP_URL: smtpUrl,
      FLOWDROP_SMTP_URL_FILE: fileOf(flags.smtpUrlFile),
      FLOWDROP_MAIL_FROM: flags.mailFrom ?? '',
    };
    return { name: flags.name ?? INIT_DEFAULTS.name, to, recipients, symbols, settings };
  });
}

export async function askKind(cli: Cli, flags: Flags): Promise<JobKind> {
  const names = Object.keys(JOB_KINDS) as JobKind[]; // Its keys.
  const width = Math.max(...names.map(({ length }) => length));
  const answer = await withAnswers(cli, flags, async (ask) => {
    if (isAsking(cli, flags))
      for (const kind of names) cli.terminal.err(`  ${kind.padEnd(width)}  ${JOB_KINDS[kind]}\n`);
    return await ask('Kind of job', 'trades', (kind) => {
      if (kind in JOB_KINDS) return;
      throw usage(`"${kind}" is not a kind; allowed are ${names.join(', ')}`, undefined, 'ANSWER_INVALID');
    });
  });
  return answer as JobKind; // Checked.
}

function assertApiUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash) return;
  // The message does not repeat the value: it may contain a secret.
  const message = 'not an API address; allowed is scheme (http, https), host, port and path';
  throw usage(message, undefined, 'SETTING_INVALID');
}

/** Several answers in one line, separated by commas, semicolons or spaces. */
function splitList(text: string): readonly string[] {
  return text.split(/[\s,;]+/).filter((part) => part !== '');
}

/** Only where a person, or a pipe that `--ask` announces, can answer. */
function isAsking({ terminal }: Cli, { yes, ask }: Flags): boolean {
  return !yes && (ask || terminal.inIsTerminal);
}

async function withAnswers<T>(cli: Cli, flags: Flags, act: (ask: Ask) => Promise<T>): Promise<T> {
  if (!isAsking(cli, flags)) return await act(async (_, fallback) => fallback);
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
