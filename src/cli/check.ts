/** `flowdrop check [JOB...]`: validates job files; `--live` also asks the API for sample rows with each job's query. */

import { wholeDay } from '../calendar/window.ts';
import { EXIT_CODES, type FailureKind, isFault } from '../core/errors.ts';
import { closeSource } from '../export/job-source.ts';
import type { Job } from '../job/job.ts';
import { assertDistinct, listJobFiles, readJob } from '../job/job-folder.ts';
import { buildPage } from '../plan/statement.ts';
import { readSourceSql } from '../run/job-sql.ts';
import { openJobSource } from '../run/open-source.ts';
import type { ActionResult, CommandCall } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { createStyle, type Style } from './terminal/color.ts';
import { describeFailure, type FailureReport } from './terminal/failure-text.ts';

type CheckCli = Pick<CliContext, 'openers' | 'signal' | 'terminal'>;

interface CheckResult {
  readonly job: string;
  readonly ok: boolean;
  readonly message: string;
  /** Kind of failure; `undefined` if there is none. */
  readonly kind?: FailureKind;
  /** The failure as text for people. */
  readonly block?: string;
  readonly failure?: FailureReport['json']['error'];
}

export async function check(
  cli: CheckCli,
  { globals, argument, options }: CommandCall<readonly string[], { readonly live?: boolean | undefined }>,
): ActionResult {
  const wanted = argument.length > 0 ? argument : await listJobFiles(globals.jobs);
  const results: CheckResult[] = [];
  const parsed: Job[] = [];
  for (const reference of wanted) {
    const assertNew = (job: Job) => {
      assertDistinct([...parsed, job]);
      parsed.push(job);
    };
    results.push(await checkJob(cli, globals, reference, { live: options.live === true, assertNew }));
  }
  if (globals.json) {
    const shown = results.map(({ job, ok, message, failure }) => ({ job, ok, message, ...failure }));
    cli.terminal.out(`${JSON.stringify(shown, undefined, 2)}\n`);
  } else for (const result of results) cli.terminal.out(describeResult(result, createStyle(cli.terminal.colors.out)));
  if (results.length === 0)
    cli.terminal.err(`There are no job files in ${globals.jobs}; \`flowdrop init\` writes one.\n`);
  if (results.some(({ kind }) => kind === 'usage')) return EXIT_CODES.usage;
  const other = results.find(({ kind }) => kind !== undefined)?.kind;
  return other && EXIT_CODES[other];
}

async function checkJob(
  cli: CheckCli,
  globals: GlobalOptions,
  reference: string,
  { live, assertNew }: { readonly live: boolean; readonly assertNew: (job: Job) => void },
): Promise<CheckResult> {
  try {
    const job = await readJob(reference, globals.jobs);
    assertNew(job);
    if (!live) await readSourceSql(cli.openers, job);
    const what = `${describeSource(job)} to ${job.drop.to}/${job.drop.dataset}`;
    if (!live) return { job: reference, ok: true, message: what };
    return { job: reference, ok: true, message: `${what}; ${await askLive(cli, job)}` };
  } catch (error) {
    if (!isFault(error) || error.kind === 'interrupted') throw error;
    const { text, json } = describeFailure(error, { redact: cli.openers.redact });
    // The same block as in every command, indented below the line that names its file.
    const block = text
      .trimEnd()
      .replace(/^flowdrop: [A-Z0-9_]+: /, '')
      .replaceAll('\n', '\n    ');
    return { job: reference, ok: false, kind: error.kind, message: json.error.message, block, failure: json.error };
  }
}

function describeResult({ job, ok, message, block = message }: CheckResult, style: Style): string {
  if (ok) return `${style.green('ok')}    ${job}: ${message}\n`;
  // Most faults name file and line themselves.
  const named = block.startsWith(`${job}:`) ? block : `${job}: ${block}`;
  return `${style.red('FAIL')}  ${named}\n`;
}

function describeSource({ source }: Job): string {
  const columns = `${source.columns.length} columns`;
  if (source.kind === 'snapshots') return `${columns} of ${source.api} of ${source.symbols.join(', ')}`;
  return `${columns} of ${source.table}`;
}

/** Sends the smallest request that shows whether a run would work. @returns who answers @throws Fault */
async function askLive({ openers, signal }: CheckCli, job: Job): Promise<string> {
  const { opened } = await openJobSource(openers, job, await openers.openLog({ quiet: true }));
  try {
    switch (opened.kind) {
      case 'sql': {
        const today = new Date(openers.clock.now()).toISOString().slice(0, 10);
        await opened.source.ask(buildPage(opened.job, wholeDay(today), 'open'), { testMode: true, signal });
        return `the API at ${opened.source.url} answers`;
      }
      case 'snapshots':
        for (const symbol of opened.job.source.symbols.slice(0, 1)) await opened.source.greet(symbol, signal);
        return `the API at ${opened.source.url} answers`;
      case 'table':
        await opened.source.describe(signal);
        return `the server at ${opened.source.url} has it`;
      default:
        return opened satisfies never;
    }
  } finally {
    await closeSource(opened);
  }
}
