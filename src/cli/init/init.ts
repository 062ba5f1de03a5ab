/**
 * `flowdrop init [DIR]`: writes a commented job file and a settings file, and tries the connection; with `--add NAME` it
 * writes one more job file, of a chosen kind. Invariant: nothing is overwritten without --force, and replaced files are
 * kept beside the new ones; secrets come from answers or files, never from arguments, which other users and the shell's
 * history can see.
 */
import { dirname, join, relative, resolve } from 'node:path';
import { EXIT_CODES } from '../../core/errors.ts';
import { readValidJobs } from '../../job/job-folder.ts';
import { nameProgram, startChild } from '../child.ts';
import type { ActionResult } from '../command.ts';
import type { Call } from '../commands.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { askKind, choose } from './choose.ts';
import { buildSettingsText, INIT_DEFAULTS, type InitChoice } from './init-files.ts';
import { buildAddedJob, buildJobText, JOB_KINDS } from './job-kinds.ts';
import { assertAbsent, assertAllowed, assertUsable, hideFromGit, type NewFile, writeNew } from './write.ts';

type InitCli = Pick<CliContext, 'cwd' | 'openers' | 'self' | 'signal' | 'terminal'>;
type Connection = Pick<InitChoice, 'name' | 'apiUrl' | 'apiKey' | 'apiKeyFile'>;

/** @throws Fault `ANSWER_INVALID`, `FILE_EXISTS`, `JOB_INVALID` (usage) */
export async function init(cli: InitCli, { globals, argument: dir = '.', options: flags }: Call<'init'>): ActionResult {
  const folder = resolve(cli.cwd, dir);
  const jobsFolder = join(folder, globals.jobs);
  const path = join(jobsFolder, `${flags.add ?? flags.name ?? INIT_DEFAULTS.name}.yaml`);
  if (flags.add !== undefined) return await addJob(cli, globals, folder, path, flags, flags.add);
  const settings = join(folder, '.env');
  // Before the questions, so that no one types a key in vain.
  if (!flags.force) await assertAbsent([path, settings]);
  const choice = await choose(cli, flags);
  const text = buildJobText(choice);
  await assertUsable(path, text, jobsFolder);
  const files = [
    { path, text },
    { path: settings, text: buildSettingsText(choice), mode: 0o600 },
  ];
  const kept = await writeNew(files, flags.force === true);
  await hideFromGit(folder, relative(folder, settings));
  const missing = listMissing(cli, choice);
  const untried = flags.offline || missing.length > 0;
  const note = `The connection was not tested; first put ${missing.join(' and ')} into ${relative(cli.cwd, settings)}.\n`;
  return await finish(cli, globals, folder, {
    ...{ kept, files, connection: choice, isTried: !untried, note: missing.length > 0 ? note : '' },
    commands: [...['doctor', 'plan', 'run'].map((command) => `${command} ${choice.name}`), 'start'],
  });
}

async function addJob(
  cli: InitCli,
  globals: GlobalOptions,
  folder: string,
  path: string,
  flags: Call<'init'>['options'],
  name: string,
): ActionResult {
  const { to, reportTo: recipients = [], symbols = [], force = false } = flags;
  assertAllowed({ name, recipients, symbols });
  const jobsFolder = dirname(path);
  if (!force) await assertAbsent([path]);
  const kind = flags.kind ?? (await askKind(cli, flags));
  const place = to ?? (await readCommonPlace(jobsFolder)) ?? INIT_DEFAULTS.to;
  const choice = { name, kind, to: place, recipients, symbols: symbols.map((symbol) => symbol.toUpperCase()) };
  const text = await buildAddedJob(dirname(cli.openers.shippedJob), choice);
  await assertUsable(path, text, jobsFolder);
  const files = [{ path, text, what: JOB_KINDS[kind] }];
  return await finish(cli, globals, folder, {
    ...{ kind, kept: await writeNew(files, force), files, isTried: !flags.offline },
    connection: { name, apiUrl: '', apiKey: '', apiKeyFile: '' },
    commands: ['plan', 'run'].map((command) => `${command} ${name}`),
  });
}

/** Where the other jobs of the folder put their drops; `undefined` if they differ, or there are none. */
async function readCommonPlace(jobsFolder: string): Promise<string | undefined> {
  const jobs = await readValidJobs(jobsFolder).catch(() => []);
  const [only, ...others] = new Set(jobs.map(({ drop }) => drop.to));
  return others.length === 0 ? only : undefined;
}

/** Settings that are missing for a connection. */
function listMissing({ self: { env } }: InitCli, { apiUrl, apiKey, apiKeyFile }: InitChoice): readonly string[] {
  const hasKey = apiKey || apiKeyFile || env['FLOWDROP_API_KEY'] || env['FLOWDROP_API_KEY_FILE'];
  const missing = [...(apiUrl || env['FLOWDROP_API_URL'] ? [] : ['FLOWDROP_API_URL'])];
  return hasKey ? missing : [...missing, 'FLOWDROP_API_KEY'];
}

interface Written {
  readonly files: readonly (NewFile & { readonly what?: string })[];
  /** Where the replaced files are. */
  readonly kept: readonly string[];
  readonly kind?: string;
  readonly connection: Connection;
  readonly isTried: boolean;
  readonly note?: string;
  /** What to type next, without the program's name. */
  readonly commands: readonly string[];
}

/** Says what was written, tries the connection, and says what is next. */
async function finish(cli: InitCli, globals: GlobalOptions, folder: string, written: Written): ActionResult {
  const { files, kept, kind, connection, isTried, note = '', commands } = written;
  const { terminal } = cli;
  const show = (path: string) => relative(cli.cwd, path) || path;
  const print = (text: string) => (globals.json ? terminal.err(text) : terminal.out(text));
  for (const path of kept) print(`kept   ${show(path)}\n`);
  for (const { path, what } of files) print(`wrote  ${show(path)}${what === undefined ? '' : `: ${what}`}\n`);
  const exitCode = isTried ? await tryConnection(cli, globals, folder, connection, print) : undefined;
  print(note);
  const place = relative(cli.cwd, folder);
  const program = nameProgram(cli.self.env);
  const next = [...(place === '' ? [] : [`cd ${place}`]), ...commands.map((command) => `${program} ${command}`)];
  if (globals.json) {
    const tried = exitCode === undefined ? 'untried' : exitCode === 0 ? 'ok' : 'failed';
    const paths = files.map(({ path }) => path);
    const document = { job: connection.name, kind, written: paths, kept, connection: tried, next };
    terminal.out(`${JSON.stringify(document, undefined, 2)}\n`);
  } else terminal.out(`Next:\n${next.map((line) => `  ${line}\n`).join('')}`);
  return exitCode === 0 ? undefined : exitCode;
}

/** Runs the check as the next command would: in its own process, in that directory. @returns its exit code */
async function tryConnection(
  { self }: InitCli,
  globals: GlobalOptions,
  folder: string,
  { name, apiUrl, apiKey, apiKeyFile }: Connection,
  print: (text: string) => void,
): Promise<number> {
  // This process may have settings from an older file: the new ones win.
  const fresh: Record<string, string | undefined> = {};
  if (apiUrl) fresh['FLOWDROP_API_URL'] = apiUrl;
  if (apiKey) fresh['FLOWDROP_API_KEY'] = apiKey;
  if (apiKeyFile) Object.assign(fresh, { FLOWDROP_API_KEY: undefined, FLOWDROP_API_KEY_FILE: apiKeyFile });
  const args = [...self.args, '--jobs', globals.jobs, 'check', '--live', name];
  const pass = (line: string) => print(`${line}\n`);
  const child = startChild(
    { executable: self.executable, args, env: { ...self.env, ...fresh }, cwd: folder },
    { onOut: pass, onErr: pass },
  );
  const exitCode = await child.done;
  if (exitCode !== 0)
    print(`The files are written. Correct them, then: ${nameProgram(self.env)} check --live ${name}\n`);
  return exitCode === EXIT_CODES.usage || exitCode === 0 ? exitCode : EXIT_CODES.failed;
}
