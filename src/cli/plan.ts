/**
 * `flowdrop plan [JOB]`: which dates, how many rows, requests and seconds, and what expires before its turn. Without a
 * job: all jobs of the folder, one after the other if they share a budget. Changes nothing.
 */
import type { DateRange } from '../calendar/wall-clock.ts';
import { EXIT_CODES, isFault } from '../core/errors.ts';
import { openDates } from '../export/open-dates.ts';
import { type BackfillMode, readStoredDates, selectDates } from '../export/select-dates.ts';
import { planSpans } from '../export/trades/scan.ts';
import type { Job } from '../job/job.ts';
import { assertDistinct, listJobFiles, readJob } from '../job/job-folder.ts';
import { Ledger } from '../ledger/ledger.ts';
import { closeSource, openJobSource } from '../run/open-source.ts';
import type { PlanDocument } from '../state/documents.ts';
import { openJobState } from '../state/job-state.ts';
import type { ActionResult } from './command.ts';
import type { Call } from './commands.ts';
import type { Cli } from './context.ts';
import { describePlan, describePlans, priceDates, totalDates } from './plan-output.ts';

export async function plan(cli: Cli, { argument }: Call<'plan'>): ActionResult {
  if (argument === undefined) return await printPlans(cli);
  return await printPlan(cli, await readJob(argument, cli.globals.jobs));
}

interface PlanChoice {
  readonly range?: DateRange | undefined;
  readonly mode?: BackfillMode | undefined;
  /** Seconds that earlier jobs take of the same budget. */
  readonly afterSeconds?: number | undefined;
}

/** Prints the plan of a job and its cost; for a backfill, of the dates that it would export. */
export async function printPlan(cli: Cli, job: Job, choice: PlanChoice = {}): ActionResult {
  const document = await planJob(cli, job, choice);
  return cli.print(document, describePlan(document, cli.terminal.style.out));
}

/** Prints the plans of all jobs of the folder; one that cannot be planned is reported, and the others go on. */
async function printPlans(cli: Cli): ActionResult {
  const { terminal, globals, print } = cli;
  const style = terminal.style.out;
  const files = await listJobFiles(globals.jobs);
  if (files.length === 0) terminal.err(`There are no job files in ${globals.jobs}; \`flowdrop init\` writes one.\n`);
  const plans: PlanDocument[] = [];
  const failures: object[] = [];
  const jobs: Job[] = [];
  /** Seconds that earlier jobs take of each budget. */
  const taken = new Map<string, number>();
  let exitCode: number | undefined;
  for (const file of files) {
    try {
      const job = await readJob(file, globals.jobs);
      jobs.push(job);
      const budget = budgetOf(job);
      const before = taken.get(budget) ?? 0;
      const document = await planJob(cli, job, { afterSeconds: before });
      taken.set(budget, before + document.total.seconds);
      plans.push(document);
      if (!globals.json) print(document, `${describePlan(document, style)}\n`);
    } catch (error) {
      if (!isFault(error) || error.kind === 'interrupted') throw error;
      exitCode ??= EXIT_CODES[error.kind];
      const { text, json } = cli.describe(error);
      failures.push({ file, ...json.error });
      if (!globals.json) terminal.err(`${style.bold(file)}\n${text}\n`);
    }
  }
  assertDistinct(jobs);
  const total = totalDates(plans.flatMap(({ dates }) => dates));
  print({ jobs: plans, failures, total }, plans.length > 1 ? describePlans(plans, total, style) : '');
  return exitCode;
}

/** Jobs of one budget wait for each other; both SQL entry points share one. */
function budgetOf({ source }: Job): string {
  return source.api === 'portal' ? 'historical' : source.api;
}

async function planJob(
  { openers, signal }: Cli,
  job: Job,
  { range, mode = 'unsealed', afterSeconds = 0 }: PlanChoice,
): Promise<PlanDocument> {
  const [log, calendar] = [await openers.openLog({ quiet: true }), await openers.readCalendar()];
  const opened = await openJobSource(openers, job, { log, calendar, signal });
  const { source, limits } = opened;
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3 });
  try {
    const facts = await readStoredDates(new Ledger(store, job.drop.dataset), openJobState(openers.stateDir, job.name));
    const planned = await openDates(opened).plan(selectDates(mode, facts, range));
    const nowMs = source.serverNow();
    const dates = priceDates(planned.dates, {
      nowMs,
      waitMs: afterSeconds * 1000,
      intervalMs: source.intervalMs(),
      countRequests: opened.kind === 'sql' ? planSpans(opened).length : 0,
      rowBytes: opened.kind === 'sql' ? limits.rowBytes : 0,
    });
    return {
      job: job.name,
      server_time: new Date(nowMs).toISOString(),
      lookback_edge: planned.lookback.edge,
      earliest_date: planned.lookback.edge === '' ? '' : planned.lookback.firstWhole,
      row_limit: opened.kind === 'sql' ? limits.rowLimit : null,
      sealed: facts.sealed.size,
      dates: [...dates],
      total: totalDates(dates),
      without_rows: [...planned.empty],
      held: planned.held,
    };
  } finally {
    await store.close();
    await closeSource(opened);
  }
}
