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
import type { Call } from '../commands.ts';
import type { CliContext, Terminal } from '../context.ts';
import { INIT_DEFAULTS, type InitChoice, quoteSetting } from './init-files.ts';
import { JOB_KIND_NAMES, JOB_KINDS, type JobKind } from './job-kinds.ts';
import { assertAllowed } from './write.ts';

type ChooseCli = Pick<CliContext, 'cwd' | 'self' | 'signal' | 'terminal'>;
type Flags = Call<'init'>['options'];
type Ask = (text: string, fallback: string, check: (answer: string) => void, isSecret?: boolean) => Promise<string>;

/** Asks only where a person, or a pipe that `--ask` announces, can answer. */
async function withAnswers<T>(
  { terminal, signal }: Pick<ChooseCli, 'terminal' | 'signal'>,
  { yes, ask }: Flags,
  act: (ask: Ask) => Promise<T>,
): Promise<T> {
  const asker = !yes && (ask || terminal.inIsTerminal) ? openAsker(terminal, signal) : undefined;
  try {
    return await act(async (text, fallback, check, isSecret = false) =>
      asker ? await asker.ask({ text, fallback, check, isSecret }) : fallback,
    );
  } finally {
    asker?.close();
  }
}

export async function choose(cli: ChooseCli, flags: Flags): Promise<InitChoice> {
  const known = cli.self.env;
  const isSet = (name: string) => Boolean(known[name] || known[`${name}_FILE`]);
  const fileOf = (file: string | undefined) => (file === undefined ? '' : resolve(cli.cwd, file));
  const assertPlace = (to: string) => void parseLocation(to, cli.cwd);
  if (flags.apiUrl !== undefined) assertApiUrl(flags.apiUrl);
  if (flags.to !== undefined) assertPlace(flags.to);
  assertAllowed({ name: flags.name, recipients: flags.reportTo, symbols: flags.symbols });
  return await withAnswers(cli, flags, async (ask) => {
    const later = known['FLOWDROP_API_URL'] ?? '';
    const apiUrl = flags.apiUrl ?? (await ask('Address of the options data API (empty: later)', later, assertApiUrl));
    const apiKey =
      flags.apiKeyFile !== undefined || isSet('FLOWDROP_API_KEY')
        ? ''
        : await ask('Its key, not shown (empty: later)', '', (answer) => void quoteSetting(answer), true);
    const where = 'Where the drops go: a directory or s3://bucket/prefix';
    const to = flags.to ?? (await ask(where, INIT_DEFAULTS.to, assertPlace));
    const recipients =
      flags.reportTo ??
      splitList(
        await ask('Mail the flow report to (addresses, empty: nobody)', '', (answer) =>
          assertAllowed({ recipients: splitList(answer) }),
        ),
      );
    const hasReport = recipients.length > 0;
    const askSymbols = async () =>
      await ask('Watchlist (symbols)', INIT_DEFAULTS.symbols.join(', '), (answer) =>
        assertAllowed({ recipients: flags.reportTo, symbols: splitList(answer) }),
      );
    const symbols = flags.symbols ?? (hasReport ? splitList(await askSymbols()) : []);
    const server = 'Mail server, not shown: smtps://user:password@host (empty: mail is written to out/mail)';
    const assertServer = (answer: string) => {
      parseSmtpUrl(answer);
      quoteSetting(answer);
    };
    const hasServer = flags.smtpUrlFile !== undefined || isSet('FLOWDROP_SMTP_URL');
    const smtpUrl = hasServer || !hasReport ? '' : await ask(server, '', assertServer, true);
    return {
      ...{ name: flags.name ?? INIT_DEFAULTS.name, to, recipients, apiUrl, apiKey, smtpUrl },
      symbols: symbols.map((symbol) => symbol.toUpperCase()),
      apiKeyFile: fileOf(flags.apiKeyFile),
      smtpUrlFile: fileOf(flags.smtpUrlFile),
      mailFrom: flags.mailFrom ?? '',
    };
  });
}

export async function askKind(cli: ChooseCli, flags: Flags): Promise<JobKind> {
  if (flags.yes || !(flags.ask || cli.terminal.inIsTerminal)) return 'trades';
  const width = Math.max(...JOB_KIND_NAMES.map(({ length }) => length));
  for (const kind of JOB_KIND_NAMES) cli.terminal.err(`  ${kind.padEnd(width)}  ${JOB_KINDS[kind]}\n`);
  const answer = await withAnswers(cli, flags, (ask) => ask('Kind of job', 'trades', assertKind));
  return answer as JobKind; // Checked.
}

function assertKind(answer: string): void {
  if (JOB_KIND_NAMES.includes(answer as JobKind)) return;
  throw new Fault('ANSWER_INVALID', `"${answer}" is not a kind; allowed are ${JOB_KIND_NAMES.join(', ')}`, {
    kind: 'usage',
  });
}

function assertApiUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash) return;
  // The message does not repeat the value: it may contain a secret.
  throw new Fault('SETTING_INVALID', 'not an API address; allowed is scheme (http, https), host, port and path', {
    kind: 'usage',
  });
}

/** Several answers in one line, separated by commas, semicolons or spaces. */
function splitList(text: string): readonly string[] {
  return text.split(/[\s,;]+/).filter((part) => part !== '');
}

interface Question {
  readonly text: string;
  /** The answer if the line is empty. */
  readonly fallback: string;
  /** Hidden while it is typed. */
  readonly isSecret?: boolean;
  /** @throws Fault if the answer is not allowed */
  check?(answer: string): void;
}

interface Asker {
  /** @throws Fault `INPUT_ENDED` (usage), or the interruption */
  ask(question: Question): Promise<string>;
  close(): void;
}

function openAsker(terminal: Terminal, signal: AbortSignal): Asker {
  const { stdin, inIsTerminal } = terminal;
  let isMuted = false;
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (!isMuted) terminal.err(chunk.toString());
      done();
    },
  });
  const lines = createInterface({
    input: stdin,
    terminal: inIsTerminal,
    output: inIsTerminal ? output : undefined,
    signal,
  });
  // Lines are buffered from here on: a pipe may deliver all at once.
  const iterator = lines[Symbol.asyncIterator]();

  const read = async ({ text, fallback, isSecret = false }: Question): Promise<string> => {
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
    throw new Fault('INPUT_ENDED', `stdin ended before the question "${text}"; nothing was written`, {
      kind: 'usage',
      hint: 'Give one line per question (empty: the value in brackets), or use flags and --yes.',
    });
  };

  return {
    async ask(question) {
      for (;;) {
        const answer = await read(question);
        try {
          if (answer !== '') question.check?.(answer);
          return answer;
        } catch (error) {
          if (!isFault(error)) throw error;
          terminal.err(`  ${describeError(error)}${error.hint ? `\n  -> ${error.hint}` : ''}\n`);
        }
      }
    },
    close: () => lines.close(),
  };
}
