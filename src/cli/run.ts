/**
 * `flowdrop run JOB`: exports everything unsealed inside the lookback, soonest expiry first; then mails the reports. With
 * `--stage` it only fetches what is visible of the running session.
 *
 * `flowdrop backfill JOB`: exports a date selection on demand, resumable; dates outside the lookback are an error.
 * Sealed dates are left alone by default, unless damaged or left half restated; `--failed` takes degraded drops too,
 * `--all` every date. `--accept-change` takes over what the source has of one date, however doubtful, and is recorded.
 */
import type { DateRange } from '../calendar/wall-clock.ts';
import { countOf } from '../core/units.ts';
import { runJob, stageJob } from '../export/run-job.ts';
import type { BackfillMode } from '../export/select-dates.ts';
import type { StagedAhead } from '../export/trades/ahead.ts';
import { readJob } from '../job/job-folder.ts';
import { assertDate, type Call, type Cli, nameUser, readPatience, usage } from './context.ts';
import { printPlan } from './plan.ts';
import { printRun } from './run-output.ts';

export async function run(cli: Cli, { argument, options }: Call<'run'>) {
  const job = await readJob(argument, cli.globals.jobs);
  if (options.stage) {
    const staged = await stageJob(cli.env, job);
    return cli.print({ job: job.name, ...staged }, [describe(staged)]);
  }
  const { noReport = false, newStore: isNewStore } = options;
  const env = { ...cli.env, mailPatienceMs: readPatience(cli, options.wait) };
  return printRun(cli, await runJob(env, job, { command: 'run', withReports: !noReport, isNewStore }));
}

function describe({ date, through, rows, pages, requests, reason }: StagedAhead): string {
  const done = `${countOf(pages, 'page')} now, ${countOf(requests, 'request')}; ${reason}.`;
  if (date === null) return `Nothing to stage: ${reason}.`;
  if (through === null) return `${date}: nothing is staged yet: ${done}`;
  return `${date} is staged to ${through} (exchange time), ${countOf(rows, 'row')}: ${done}`;
}

type Flags = Call<'backfill'>['options'];

export async function backfill(cli: Cli, { argument, options }: Call<'backfill'>) {
  const range = readRange(options);
  const job = await readJob(argument, cli.globals.jobs);
  const { missing, failed, all, acceptChange } = options;
  const mode: BackfillMode = all || acceptChange ? 'all' : failed ? 'failed' : missing ? 'missing' : 'unsealed';
  const acceptedBy = acceptChange ? nameUser() : undefined;
  if (acceptChange && (range === undefined || range.from !== range.to)) {
    const came = range === undefined ? 'no date' : `${range.from} to ${range.to}`;
    const hint = `flowdrop backfill ${job.name} --from DATE --to DATE --accept-change, with the same DATE twice`;
    throw usage(`--accept-change takes one date, not ${came}`, hint, 'DATE_INVALID');
  }
  if (options.dryRun) return await printPlan(cli, job, mode, range);
  const dates = options.sealDegraded ? ({ mode: 'staged', range } as const) : { mode, range, acceptedBy };
  return printRun(cli, await runJob(cli.env, job, { command: 'backfill', dates, withReports: false }));
}

/** @throws Fault `DATE_INVALID` */
function readRange({ from, to }: Flags): DateRange | undefined {
  if (from === undefined && to === undefined) return undefined;
  if (from === undefined || to === undefined) {
    const hint = 'Give both --from and --to, or neither for the whole lookback.';
    throw usage(from === undefined ? '--to needs --from' : '--from needs --to', hint, 'DATE_INVALID');
  }
  assertDate('--from', from);
  assertDate('--to', to);
  if (from <= to) return { from, to };
  throw usage(`--from ${from} is after --to ${to}`, 'Give the earlier date as --from.', 'DATE_INVALID');
}
