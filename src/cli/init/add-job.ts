/**
 * `flowdrop init --add NAME`: writes one more job file into the folder, of a chosen kind, and tries it. Settings and other
 * jobs stay as they are.
 */
import { dirname, join, relative } from 'node:path';
import { Fault } from '../../core/errors.ts';
import { listJobFiles, readJob } from '../../job/job-folder.ts';
import type { Call } from '../commands.ts';
import type { CliContext, GlobalOptions } from '../context.ts';
import { nameProgram } from '../invocation.ts';
import { INIT_DEFAULTS } from './init-files.ts';
import { buildAddedJob, JOB_KIND_NAMES, JOB_KINDS, type JobKind } from './job-kinds.ts';
import { assertAllowed, assertUsable } from './job-rules.ts';
import { openAsker } from './questions.ts';
import { tryConnection } from './try-connection.ts';
import { assertAbsent, writeNew } from './write.ts';

type AddCli = Pick<CliContext, 'cwd' | 'openers' | 'self' | 'signal' | 'terminal'>;

type AddFlags = Call<'init'>['options'] & { readonly add: string };

/** @returns the exit code @throws Fault `ANSWER_INVALID`, `FILE_EXISTS`, `JOB_INVALID` (usage) */
export async function addJob(
  cli: AddCli,
  globals: GlobalOptions,
  folder: string,
  { add: name, to, reportTo: recipients = [], symbols = [], ...flags }: AddFlags,
): Promise<number | undefined> {
  const { terminal } = cli;
  assertAllowed({ name, recipients, symbols });
  const jobsFolder = join(folder, globals.jobs);
  const path = join(jobsFolder, `${name}.yaml`);
  if (!flags.force) await assertAbsent([path]);
  const kind = flags.kind ?? (await askKind(cli, flags));
  const place = to ?? (await readCommonPlace(jobsFolder)) ?? INIT_DEFAULTS.to;
  const choice = { name, kind, to: place, recipients, symbols: symbols.map((symbol) => symbol.toUpperCase()) };
  const text = await buildAddedJob(dirname(cli.openers.shippedJob), choice);
  await assertUsable(path, text, jobsFolder);
  const kept = await writeNew([{ path, text }], flags.force === true);
  const show = (file: string) => relative(cli.cwd, file) || file;
  const print = (line: string) => (globals.json ? terminal.err(line) : terminal.out(line));
  for (const file of kept) print(`kept   ${show(file)}\n`);
  print(`wrote  ${show(path)}: ${JOB_KINDS[kind]}\n`);
  const connection = { name, apiUrl: '', apiKey: '', apiKeyFile: '' };
  const exitCode = flags.offline ? undefined : await tryConnection(cli, globals, folder, connection, print);
  const program = nameProgram(cli.self.env);
  const next = [
    ...(relative(cli.cwd, folder) === '' ? [] : [`cd ${relative(cli.cwd, folder)}`]),
    ...['plan', 'run'].map((command) => `${program} ${command} ${name}`),
  ];
  if (globals.json) {
    const tried = exitCode === undefined ? 'untried' : exitCode === 0 ? 'ok' : 'failed';
    terminal.out(
      `${JSON.stringify({ job: name, kind, written: [path], kept, connection: tried, next }, undefined, 2)}\n`,
    );
  } else terminal.out(`Next:\n${next.map((line) => `  ${line}\n`).join('')}`);
  return exitCode === 0 ? undefined : exitCode;
}

async function askKind(cli: AddCli, { ask, yes }: Pick<AddFlags, 'ask' | 'yes'>): Promise<JobKind> {
  if (yes || !(ask || cli.terminal.inIsTerminal)) return 'trades';
  for (const kind of JOB_KIND_NAMES) cli.terminal.err(`  ${kind.padEnd(KIND_WIDTH)}  ${JOB_KINDS[kind]}\n`);
  const asker = openAsker(cli.terminal, cli.signal);
  try {
    const answer = await asker.ask({ text: 'Kind of job', fallback: 'trades', check: assertKind });
    return answer as JobKind; // Checked.
  } finally {
    asker.close();
  }
}

const KIND_WIDTH = Math.max(...JOB_KIND_NAMES.map(({ length }) => length));

function assertKind(answer: string): void {
  if (JOB_KIND_NAMES.includes(answer as JobKind)) return;
  throw new Fault('ANSWER_INVALID', `"${answer}" is not a kind; allowed are ${JOB_KIND_NAMES.join(', ')}`, {
    kind: 'usage',
  });
}

/** Where the other jobs of the folder put their drops; `undefined` if they differ, or there are none. */
async function readCommonPlace(jobsFolder: string): Promise<string | undefined> {
  const places = new Set<string>();
  for (const file of await listJobFiles(jobsFolder).catch(() => [])) {
    // Other invalid files do not matter here.
    const job = await readJob(file, jobsFolder).catch(() => undefined);
    if (job) places.add(job.drop.to);
  }
  const [only] = places;
  return places.size === 1 ? only : undefined;
}
