/**
 * `flowdrop init [DIR]`: writes a commented job file and a settings file, and tries the connection. Invariant: nothing
 * is overwritten without --force, and replaced files are kept beside the new ones; secrets come from answers or files,
 * never from arguments, which other users and the shell's history can see.
 */
import { join, relative, resolve } from 'node:path';
import { Fault } from '../../core/errors.ts';
import { parseSmtpUrl } from '../../mail/smtp-url.ts';
import { parseLocation } from '../../store/location.ts';
import type { ActionResult } from '../command.ts';
import type { Call } from '../commands.ts';
import type { CliContext } from '../context.ts';
import { nameProgram } from '../invocation.ts';
import { addJob } from './add-job.ts';
import { buildJobText, buildSettingsText, INIT_DEFAULTS, type InitChoice, quoteSetting } from './init-files.ts';
import { assertAllowed, assertUsable } from './job-rules.ts';
import { openAsker, splitList } from './questions.ts';
import { tryConnection } from './try-connection.ts';
import { assertAbsent, hideFromGit, writeNew } from './write.ts';

type InitCli = Pick<CliContext, 'cwd' | 'openers' | 'self' | 'signal' | 'terminal'>;

export async function init(cli: InitCli, { globals, argument: dir = '.', options: flags }: Call<'init'>): ActionResult {
  const { terminal } = cli;
  const folder = resolve(cli.cwd, dir);
  if (flags.add !== undefined) return await addJob(cli, globals, folder, { ...flags, add: flags.add });
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
  await hideFromGit(folder, relative(folder, settings.path));

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
async function choose(cli: InitCli, flags: Call<'init'>['options']): Promise<InitChoice> {
  const asks = !flags.yes && (flags.ask === true || cli.terminal.inIsTerminal);
  const asker = asks ? openAsker(cli.terminal, cli.signal) : undefined;
  const ask: NonNullable<typeof asker>['ask'] = async (question) =>
    asker ? await asker.ask(question) : question.fallback;
  const fileOf = (file: string | undefined) => (file === undefined ? '' : resolve(cli.cwd, file));
  if (flags.apiUrl !== undefined) assertApiUrl(flags.apiUrl);
  if (flags.to !== undefined) parseLocation(flags.to, cli.cwd);
  assertAllowed({ name: flags.name, recipients: flags.reportTo, symbols: flags.symbols });
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
      splitList(
        await ask({
          text: 'Mail the flow report to (addresses, empty: nobody)',
          fallback: '',
          check: (answer) => assertAllowed({ recipients: splitList(answer) }),
        }),
      );
    const hasReport = recipients.length > 0;
    const watchlist: readonly string[] = INIT_DEFAULTS.symbols;
    const symbols =
      flags.symbols ??
      (hasReport
        ? splitList(
            await ask({
              text: 'Watchlist (symbols)',
              fallback: watchlist.join(', '),
              check: (answer) => assertAllowed({ recipients: flags.reportTo, symbols: splitList(answer) }),
            }),
          )
        : []);
    const hasServer =
      flags.smtpUrlFile !== undefined || Boolean(known['FLOWDROP_SMTP_URL'] || known['FLOWDROP_SMTP_URL_FILE']);
    const smtpUrl =
      hasServer || !hasReport
        ? ''
        : await ask({
            text: 'Mail server, not shown: smtps://user:password@host (empty: mail is written to out/mail)',
            fallback: '',
            isSecret: true,
            check(answer) {
              parseSmtpUrl(answer);
              quoteSetting(answer);
            },
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

/** Settings that are missing for a connection. */
function listMissing({ self: { env } }: InitCli, { apiUrl, apiKey, apiKeyFile }: InitChoice): readonly string[] {
  const hasKey = apiKey || apiKeyFile || env['FLOWDROP_API_KEY'] || env['FLOWDROP_API_KEY_FILE'];
  const missing = [...(apiUrl || env['FLOWDROP_API_URL'] ? [] : ['FLOWDROP_API_URL'])];
  return hasKey ? missing : [...missing, 'FLOWDROP_API_KEY'];
}

function assertApiUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash) return;
  // The message does not repeat the value: it may contain a secret.
  throw new Fault('SETTING_INVALID', 'not an API address; allowed is scheme (http, https), host, port and path', {
    kind: 'usage',
  });
}
