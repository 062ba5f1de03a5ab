/**
 * `flowdrop init [DIR]`: writes a commented job file and a settings file, and tries the connection; with `--add NAME` it
 * writes one more job file, of a chosen kind. Invariant: nothing is overwritten without --force, and replaced files are
 * kept beside the new ones; secrets come from answers or files, never from arguments, which other users and the shell's
 * history can see.
 */
import { appendFile, rename, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import { readFileIfExists, writeWholeFile } from '../../core/atomic-file.ts';
import { EXIT_CODES, type Fault } from '../../core/errors.ts';
import { assertDistinct, readValidJobs } from '../../job/job-folder.ts';
import { parseJob } from '../../job/parse.ts';
import { usage } from '../arguments.ts';
import { nameProgram, startChild } from '../child.ts';
import type { ActionResult } from '../command.ts';
import type { Call } from '../commands.ts';
import type { Cli } from '../context.ts';
import { askKind, choose } from './choose.ts';
import { assertAllowed, fillJob, fillSettings, INIT_DEFAULTS, JOB_KINDS, readShipped } from './files.ts';

type Flags = Call<'init'>['options'];

/** @throws Fault `ANSWER_INVALID`, `FILE_EXISTS`, `JOB_INVALID` (usage) */
export async function init(cli: Cli, { argument: dir = '.', options: flags }: Call<'init'>): ActionResult {
  const folder = resolve(cli.cwd, dir);
  const path = join(folder, cli.globals.jobs, `${flags.add ?? flags.name ?? INIT_DEFAULTS.name}.yaml`);
  if (flags.add !== undefined) return await addJob(cli, folder, path, flags, flags.add);
  const settingsPath = join(folder, '.env');
  // Before the questions, so that no one types a key in vain.
  if (!flags.force) await assertAbsent([path, settingsPath]);
  const shipped = await readShipped(cli, 'trades');
  const { settings, ...job } = await choose(cli, flags, shipped);
  const text = fillJob(shipped, job);
  await assertUsable(path, text);
  const files = [
    { path, text },
    { path: settingsPath, text: fillSettings(await readShipped(cli, 'settings'), settings), mode: 0o600 },
  ];
  const kept = await writeNew(files, flags.force === true);
  await hideFromGit(folder, relative(folder, settingsPath));
  const { env } = cli.self;
  const missing = ['FLOWDROP_API_URL', 'FLOWDROP_API_KEY'].filter(
    (name) => ![name, `${name}_FILE`].some((one) => settings[one] || env[one]),
  );
  const note = `The connection was not tested; first put ${missing.join(' and ')} into ${relative(cli.cwd, settingsPath)}.\n`;
  return await finish(cli, folder, {
    ...{ name: job.name, kept, files, settings, isTried: !flags.offline && missing.length === 0 },
    note: missing.length > 0 ? note : '',
    commands: [...['doctor', 'plan', 'run'].map((command) => `${command} ${job.name}`), 'start'],
  });
}

async function addJob(cli: Cli, folder: string, path: string, flags: Flags, name: string): ActionResult {
  const { reportTo: recipients = [], symbols = [], force = false } = flags;
  assertAllowed(await readShipped(cli, 'trades'), { name, recipients, symbols });
  if (!force) await assertAbsent([path]);
  const kind = flags.kind ?? (await askKind(cli, flags));
  // Where the other jobs of the folder put their drops, if that is one place.
  const others = await readValidJobs(dirname(path)).catch(() => []);
  const [only, ...more] = new Set(others.map(({ drop }) => drop.to));
  const to = flags.to ?? (more.length === 0 ? only : undefined) ?? INIT_DEFAULTS.to;
  const choice = { name, to, dataset: name, recipients: kind === 'trades' ? recipients : [], symbols };
  const text = fillJob(await readShipped(cli, kind), choice);
  await assertUsable(path, text);
  const files = [{ path, text, what: JOB_KINDS[kind] }];
  return await finish(cli, folder, {
    ...{ name, kind, kept: await writeNew(files, force), files, settings: {}, isTried: !flags.offline },
    commands: ['plan', 'run'].map((command) => `${command} ${name}`),
  });
}

interface NewFile {
  readonly path: string;
  readonly text: string;
  /** Default: the system's. */
  readonly mode?: number;
  readonly what?: string;
}

/** Call it before questions whose answers would be lost. @throws Fault `FILE_EXISTS` (usage), which names the files */
async function assertAbsent(paths: readonly string[]): Promise<void> {
  const present: string[] = [];
  for (const path of paths) if (await stat(path).catch(() => undefined)) present.push(path);
  if (present.length > 0) throw existing(present);
}

function existing(paths: readonly string[]): Fault {
  const hint =
    'Choose another directory (`flowdrop init DIR`), or replace with --force: existing files are kept as FILE.old.';
  return usage(`${paths.join(' and ')} already ${paths.length > 1 ? 'exist' : 'exists'}`, hint, 'FILE_EXISTS');
}

/** Checks, before anything is written, that a job is valid and does not clash with others. @throws Fault `JOB_INVALID` */
async function assertUsable(path: string, text: string): Promise<void> {
  const job = parseJob(path, text);
  const others = (await readValidJobs(dirname(path)).catch(() => [])).filter(({ file }) => file !== path);
  assertDistinct([...others, job]);
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
    if (!(await writeWholeFile(path, text, { exclusive: true, mode }))) throw existing([path]);
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

interface Written {
  readonly name: string;
  readonly kind?: string;
  readonly files: readonly NewFile[];
  /** Where the replaced files are. */
  readonly kept: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
  readonly isTried: boolean;
  readonly note?: string;
  /** What to type next, without the program's name. */
  readonly commands: readonly string[];
}

/** Says what was written, tries the connection, and says what is next. */
async function finish(cli: Cli, folder: string, written: Written): ActionResult {
  const { name, kind, files, kept, settings, isTried, note = '', commands } = written;
  const { terminal, globals, self } = cli;
  const show = (path: string) => relative(cli.cwd, path) || path;
  const tell = (text: string) => (globals.json ? terminal.err(text) : terminal.out(text));
  for (const path of kept) tell(`kept   ${show(path)}\n`);
  for (const { path, what } of files) tell(`wrote  ${show(path)}${what === undefined ? '' : `: ${what}`}\n`);
  const exitCode = isTried ? await tryConnection(cli, folder, name, settings, tell) : undefined;
  tell(note);
  const place = relative(cli.cwd, folder);
  const program = nameProgram(self.env);
  const next = [...(place === '' ? [] : [`cd ${place}`]), ...commands.map((command) => `${program} ${command}`)];
  const connection = exitCode === undefined ? 'untried' : exitCode === 0 ? 'ok' : 'failed';
  const document = { job: name, kind, written: files.map(({ path }) => path), kept, connection, next };
  cli.print(document, `Next:\n${next.map((line) => `  ${line}\n`).join('')}`);
  return exitCode;
}

/** Runs the check as the next command would: in its own process, in that directory. @returns its exit code */
async function tryConnection(
  { self, globals }: Cli,
  folder: string,
  name: string,
  settings: Readonly<Record<string, string>>,
  tell: (text: string) => void,
): Promise<number> {
  // This process may have settings from an older file: the new ones win.
  const fresh = Object.entries(settings).filter(([setting, value]) => setting.startsWith('FLOWDROP_API_') && value);
  const older = settings['FLOWDROP_API_KEY_FILE'] ? { FLOWDROP_API_KEY: undefined } : {};
  const args = [...self.args, '--jobs', globals.jobs, 'check', '--live', name];
  const pass = (line: string) => tell(`${line}\n`);
  const child = startChild(
    { executable: self.executable, args, env: { ...self.env, ...older, ...Object.fromEntries(fresh) }, cwd: folder },
    { onOut: pass, onErr: pass },
  );
  const exitCode = await child.done;
  if (exitCode !== 0)
    tell(`The files are written. Correct them, then: ${nameProgram(self.env)} check --live ${name}\n`);
  return exitCode === EXIT_CODES.usage || exitCode === 0 ? exitCode : EXIT_CODES.failed;
}
