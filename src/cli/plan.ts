/**
 * `flowdrop plan [JOB]`: which dates, how many rows, requests and seconds, and what expires before its turn. Without a job
 * all of the folder, one after the other where they share a budget. Changes nothing.
 */

import type { DateRange } from '../calendar/date-range.ts';
import { EXIT_CODES, isFault } from '../core/errors.ts';
import type { BackfillMode } from '../export/date-selection.ts';
import type { Job } from '../job/job.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import type { PlanDocument } from './plan-output.ts';
import { createStyle } from './terminal/color.ts';

export const registerPlan: Register = (program, context, act) => {
  program
    .command('plan')
    .description('print what a run would fetch, what it costs and what expires when; changes nothing')
    .argument('[job]', 'job file, or its name in the jobs folder; without it all of the folder')
    .action(async (job: string | undefined) => {
      await act(async (globals) => {
        const { readJob } = await import('../job/files.ts');
        if (job === undefined) return await printPlans(context, globals);
        return await printPlan(context, globals, await readJob(job, globals.jobs));
      });
    });
};

export interface PlanChoice {
  readonly range?: DateRange;
  readonly mode?: BackfillMode;
  /** What goes before it in the same budget. */
  readonly afterSeconds?: number;
}

/** Prints the plan of a job and its price: for a backfill, of the dates that it would go for. */
export async function printPlan(
  cli: CliContext,
  globals: GlobalOptions,
  job: Job,
  choice: PlanChoice = {},
): ActionResult {
  const plan = await planJob(cli, job, choice);
  if (globals.json) cli.terminal.out(`${JSON.stringify(plan, undefined, 2)}\n`);
  else {
    const { describePlan } = await import('./plan-output.ts');
    cli.terminal.out(describePlan(plan, createStyle(cli.terminal.colors.out)));
  }
  return undefined;
}

/** Of all jobs of the folder; one that cannot be planned is told, and does not hinder the others. */
async function printPlans(cli: CliContext, globals: GlobalOptions): ActionResult {
  const { assertDistinct, listJobFiles, readJob } = await import('../job/files.ts');
  const { describePlan, describePlans, totalDates } = await import('./plan-output.ts');
  const { describeFailure } = await import('./terminal/failure.ts');
  const { terminal, compose } = cli;
  const style = createStyle(terminal.colors.out);
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
      const plan = await planJob(cli, job, { afterSeconds: before });
      taken.set(budget, before + plan.total.seconds);
      plans.push(plan);
      if (!globals.json) terminal.out(`${describePlan(plan, style)}\n`);
    } catch (error) {
      if (!isFault(error) || error.kind === 'interrupted') throw error;
      exitCode ??= EXIT_CODES[error.kind];
      const layout = { width: terminal.columns.err, style: createStyle(terminal.colors.err), redact: compose.redact };
      const { text, json } = describeFailure(error, layout);
      failures.push({ file, ...json.error });
      if (!globals.json) terminal.err(`${style.bold(file)}\n${text}\n`);
    }
  }
  assertDistinct(jobs);
  const total = totalDates(plans.flatMap(({ dates }) => dates));
  if (globals.json) terminal.out(`${JSON.stringify({ jobs: plans, failures, total }, undefined, 2)}\n`);
  else if (plans.length > 1) terminal.out(describePlans(plans, total, style));
  return exitCode;
}

/** Jobs of one budget wait for each other: both entry points of SQL have the same. */
function budgetOf({ source }: Job): string {
  return source.api === 'portal' ? 'historical' : source.api;
}

async function planJob(
  cli: CliContext,
  job: Job,
  { range, mode = 'unsealed', afterSeconds = 0 }: PlanChoice,
): Promise<PlanDocument> {
  const { planDates } = await import('../export/planner.ts');
  const { closeSource } = await import('../export/job-source.ts');
  const { selectDates } = await import('../export/date-selection.ts');
  const { readSelectionFacts } = await import('../export/selection-facts.ts');
  const { countSpans } = await import('../export/trades/scan.ts');
  const { JobState } = await import('../state/job-state.ts');
  const { priceDates } = await import('../plan/price.ts');
  const { openJobSource } = await import('../run/job-source.ts');
  const { describeDate, totalDates } = await import('./plan-output.ts');
  const { compose, signal } = cli;
  const log = await compose.openLog({ quiet: true });
  const { opened, limits } = await openJobSource(cli.compose, job, log);
  const { source } = opened;
  const store = await compose.openStore(job.drop.to, { objects: job.drop.s3 });
  try {
    const facts = await readSelectionFacts(store, job, new JobState(compose.stateDir, job.name));
    const plan = await planDates(
      opened,
      { limits, signal, calendar: await compose.readCalendar(), clock: compose.clock, clockRule: compose.clockRule },
      selectDates(mode, facts, range),
    );
    const nowMs = source.serverNow();
    const prices = priceDates(plan.dates, {
      nowMs: nowMs + afterSeconds * 1000,
      intervalMs: source.intervalMs(),
      countRequests: opened.kind === 'sql' ? countSpans(opened.job, limits) : 0,
      rowBytes: opened.kind === 'sql' ? limits.rowBytes : 0,
    });
    const dates = prices.map((price) => describeDate(price, nowMs));
    return {
      job: job.name,
      server_time: new Date(nowMs).toISOString(),
      lookback_edge: plan.lookback.edge,
      earliest_date: plan.lookback.edge === '' ? '' : plan.lookback.firstWhole,
      row_limit: opened.kind === 'sql' ? limits.rowLimit : null,
      sealed: facts.sealed.size,
      dates,
      total: totalDates(dates),
      without_rows: [...plan.empty],
      held: plan.held,
    };
  } finally {
    await store.close();
    await closeSource(opened);
  }
}
