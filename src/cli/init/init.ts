/**
 * `flowdrop init [DIR]`: writes a commented job file and a settings file, and tries the connection. Invariant: nothing
 * is overwritten without --force, and replaced files are kept beside the new ones; secrets come from answers or files,
 * never from arguments, which other users and the shell's history can see.
 */
import { join, relative, resolve } from 'node:path';
import { EXIT_CODES, Fault } from '../../core/errors.ts';
import { assertDistinct, listJobFiles, readJob } from '../../job/job-folder.ts';
import { parseJob } from '../../job/parse.ts';
import { parseLocation } from '../../store/location.ts';
import { startChild } from '../child.ts';
import type { ActionResult, CommandCall } from '../command.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { nameProgram } from '../invocation.ts';
import { buildJobText, buildSettingsText, INIT_DEFAULTS, type InitChoice, quoteSetting } from './init-files.ts';
import { openAsker } from './questions.ts';
import { assertAbsent, writeNew } from './write.ts';

interface InitFlags {
  readonly name?: string | undefined;
  readonly apiUrl?: string | undefined;
  readonly apiKeyFile?: string | undefined;
  readonly to?: string | undefined;
  readonly reportTo?: readonly string[] | undefined;
  readonly symbols?: readonly string[] | undefined;
  readonly smtpUrlFile?: string | undefined;
  readonly mailFrom?: string | undefined;
  readonly ask?: boolean | undefined;
  readonly yes?: boolean | undefined;
  readonly force?: boolean | undefined;
  readonly offline?: boolean | undefined;
}

type InitCli = Pick<CliContext, 'cwd' | 'self' | 'signal' | 'terminal'>;

export async function init(
  cli: InitCli,
  { globals, argument: dir = '.', options: flags }: CommandCall<string | undefined, InitFlags>,
): ActionResult {
  const { terminal } = cli;
  const folder = resolve(cli.cwd, dir);
  const paths = {
    job: join(folder, globals.jobs, `${flags.name ?? INIT_DEFAULTS.name}.yaml`),
    settings: join(folder, '.env'),
  };
  // Before the questions, so that no one types a key in vain.
  if (!flags.force) await assertAbsent(Object.values(paths));
  const choice = await choose(cli, flags);
  const job = { path: paths.job, text: buildJobText(choice) };
  const settings = { path: paths.settings, text: buildSettingsText(choice), mode: 0o600 };
  await assertUsable(job.path, job.text, join(folder, globals.jobs));
  const kept = await writeNew([job, settings], flags.force === true);

  const show = (path: string) => relative(cli.cwd, path) || path;
  const print = (text: string) => (globals.json ? terminal.err(text) : terminal.out(text));
  for (const path of kept) print(`kept   ${show(path)}\n`);
  for (const { path } of [job, settings]) print(`wrote  ${show(path)}\n`);
  const missing = listMissing(cli, choice);
  const exitCode =
    flags.offline || missing.length > 0 ? undefined : await tryConnection(cli, globals, folder, choice, print);
  if (missing.length > 0)
    print(`The connection was not tested; first put ${missing.join(' and ')} into ${show(settings.path)}.\n`);
  const place = relative(cli.cwd, folder);
  const program = nameProgram(cli.self.env);
  const next = [
    ...(place === '' ? [] : [`cd ${place}`]),
    ...['doctor', 'plan', 'run'].map((command) => `${program} ${command} ${choice.name}`),
    `${program} start`,
  ];
  if (globals.json) {
    const connection = exitCode === undefined ? 'untried' : exitCode === 0 ? 'ok' : 'failed';
    const written = [job.path, settings.path];
    terminal.out(`${JSON.stringify({ job: choice.name, written, kept, connection, next }, undefined, 2)}\n`);
  } else terminal.out(`Next:\n${next.map((line) => `  ${line}\n`).join('')}`);
  return exitCode === 0 ? undefined : exitCode;
}

/** Flags first, then answers, then defaults. */
async function choose(cli: InitCli, flags: InitFlags): Promise<InitChoice> {
  const asks = !flags.yes && (flags.ask === true || cli.terminal.inIsTerminal);
  const asker = asks ? openAsker(cli.terminal, cli.signal) : undefined;
  const ask: NonNullable<typeof asker>['ask'] = async (question) =>
    asker ? await asker.ask(question) : question.fallback;
  const fileOf = (file: string | undefined) => (file === undefined ? '' : resolve(cli.cwd, file));
  if (flags.apiUrl !== undefined) assertApiUrl(flags.apiUrl);
  if (flags.to !== undefined) parseLocation(flags.to, cli.cwd);
  const known = cli.self.env;
  try {
    const apiUrl =
      flags.apiUrl ??
      (await ask({
        text: 'Address of the options data API (empty: later)',
        fallback: known['FLOWDROP_API_URL'] ?? '',
        check: assertApiUrl,
      }));
    const hasKey =
      flags.apiKeyFile !== undefined || Boolean(known['FLOWDROP_API_KEY'] || known['FLOWDROP_API_KEY_FILE']);
    const apiKey = hasKey
      ? ''
      : await ask({
          text: 'Its key, not shown (empty: later)',
          fallback: '',
          isSecret: true,
          check: (answer) => void quoteSetting(answer),
        });
    const to =
      flags.to ??
      (await ask({
        text: 'Where the drops go: a directory or s3://bucket/prefix',
        fallback: INIT_DEFAULTS.to,
        check: (answer) => void parseLocation(answer, cli.cwd),
      }));
    const recipients =
      flags.reportTo ??
      splitList(await ask({ text: 'Mail the flow report to (addresses, empty: nobody)', fallback: '' }));
    const hasReport = recipients.length > 0;
    const watchlist: readonly string[] = INIT_DEFAULTS.symbols;
    const symbols =
      flags.symbols ??
      (hasReport ? splitList(await ask({ text: 'Watchlist (symbols)', fallback: watchlist.join(', ') })) : []);
    const hasServer =
      flags.smtpUrlFile !== undefined || Boolean(known['FLOWDROP_SMTP_URL'] || known['FLOWDROP_SMTP_URL_FILE']);
    const smtpUrl =
      hasServer || !hasReport
        ? ''
        : await ask({
            text: 'Mail server, not shown: smtps://user:password@host (empty: mail is written to out/mail)',
            fallback: '',
            isSecret: true,
            check: (answer) => void quoteSetting(answer),
          });
    return {
      name: flags.name ?? INIT_DEFAULTS.name,
      to,
      recipients,
      symbols: symbols.map((symbol) => symbol.toUpperCase()),
      apiUrl,
      apiKey,
      apiKeyFile: fileOf(flags.apiKeyFile),
      smtpUrl,
      smtpUrlFile: fileOf(flags.smtpUrlFile),
      mailFrom: flags.mailFrom ?? '',
    };
  } finally {
    asker?.close();
  }
}

/**
 * Checks, before anything is written, that the job is valid and does not clash with others. @throws Fault `JOB_INVALID`
 */
async function assertUsable(path: string, text: string, jobsFolder: string): Promise<void> {
  const job = parseJob(path, text);
  const others = [];
  for (const file of await listJobFiles(jobsFolder).catch(() => [])) {
    // Other invalid files do not matter here.
    const other = file === path ? undefined : await readJob(file, jobsFolder).catch(() => undefined);
    if (other) others.push(other);
  }
  assertDistinct([...others, job]);
}

/** Runs the check as the next command would: in its own process, in that directory. @returns its exit code */
async function tryConnection(
  { self }: InitCli,
  globals: GlobalOptions,
  folder: string,
  choice: InitChoice,
  print: (text: string) => void,
): Promise<number> {
  const { apiUrl, apiKey, apiKeyFile } = choice;
  // This process may have settings from an older file: the new ones win.
  const fresh: Record<string, string | undefined> = {};
  if (apiUrl) fresh['FLOWDROP_API_URL'] = apiUrl;
  if (apiKey) fresh['FLOWDROP_API_KEY'] = apiKey;
  if (apiKeyFile) Object.assign(fresh, { FLOWDROP_API_KEY: undefined, FLOWDROP_API_KEY_FILE: apiKeyFile });
  const args = [...self.args, '--jobs', globals.jobs, 'check', '--live', choice.name];
  const pass = (line: string) => print(`${line}\n`);
  const child = startChild(
    { executable: self.executable, args, env: { ...self.env, ...fresh }, cwd: folder },
    { onOut: pass, onErr: pass },
  );
  const exitCode = await child.done;
  if (exitCode !== 0)
    print(`Both files are written. Correct them, then: ${nameProgram(self.env)} check --live ${choice.name}\n`);
  return exitCode === EXIT_CODES.usage ? EXIT_CODES.usage : exitCode === 0 ? 0 : EXIT_CODES.failed;
}

/** Settings that are missing for a connection. */
function listMissing({ self: { env } }: InitCli, { apiUrl, apiKey, apiKeyFile }: InitChoice): readonly string[] {
  const hasKey = apiKey || apiKeyFile || env['FLOWDROP_API_KEY'] || env['FLOWDROP_API_KEY_FILE'];
  const missing = [...(apiUrl || env['FLOWDROP_API_URL'] ? [] : ['FLOWDROP_API_URL'])];
  return hasKey ? missing : [...missing, 'FLOWDROP_API_KEY'];
}

function splitList(text: string): readonly string[] {
  return text.split(/[\s,;]+/).filter((part) => part !== '');
}

function assertApiUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash) return;
  // The message does not repeat the value: it may contain a secret.
  throw new Fault('SETTING_INVALID', 'not an API address; allowed is scheme (http, https), host, port and path', {
    kind: 'usage',
  });
}
