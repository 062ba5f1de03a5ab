/** `flowdrop plan JOB`: which dates, how many rows, requests and seconds, and what expires when. Changes nothing. */
import { formatCount, formatDuration } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import type { DateRange } from '../run/plan.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { formatTable } from './table.ts';

/** Requests of a date beside its pages: the recount. The probe is shared by all dates. */
const REQUESTS_BESIDE_PAGES = 1;

export const registerPlan: Register = (program, context, act) => {
  program
    .command('plan')
    .description('print what a run would fetch, what it costs and what expires when; one request, changes nothing')
    .argument('<job>', 'job file, or its name in the jobs folder')
    .action(async (job: string) => {
      await act(async (globals) => {
        const { readJob } = await import('../job/files.ts');
        return await printPlan(context, globals, await readJob(job, globals.jobs));
      });
    });
};

/** Prints the plan of a job, for a range of dates or for all that is unsealed. */
export async function printPlan(cli: CliContext, globals: GlobalOptions, job: Job, range?: DateRange): ActionResult {
  const { planRun } = await import('../run/plan.ts');
  const { listSealedDates } = await import('../seal/ledger.ts');
  const { openJobSource } = await import('./source.ts');
  const { compose, terminal, signal } = cli;
  const log = await compose.openLog({ quiet: true });
  const { source, learnt } = await openJobSource(cli, job, log);
  const store = await compose.openStore(job.drop.to);
  try {
    const sealed = new Set(await listSealedDates(store, job.drop.dataset));
    const plan = await planRun({ source, learnt, signal }, job, sealed, range);
    const intervalMs = source.intervalMs();
    const dates = plan.dates.map(({ date, rows, pages, expiresAtMs }) => ({
      date,
      rows,
      requests: pages + REQUESTS_BESIDE_PAGES,
      seconds: ((pages + REQUESTS_BESIDE_PAGES) * intervalMs) / 1000,
      expires: new Date(expiresAtMs).toISOString(),
    }));
    const document = {
      job: job.name,
      server_time: new Date(source.serverNow()).toISOString(),
      lookback_edge: plan.lookback.edge,
      row_limit: learnt.row_limit,
      sealed: sealed.size,
      dates,
      without_rows: [...plan.empty],
    };
    terminal.out(globals.json ? `${JSON.stringify(document, undefined, 2)}\n` : describePlan(document));
    return undefined;
  } finally {
    await store.close();
  }
}

interface PlanDocument {
  readonly lookback_edge: string;
  readonly row_limit: number;
  readonly sealed: number;
  readonly dates: readonly { date: string; rows: number; requests: number; seconds: number; expires: string }[];
  readonly without_rows: readonly string[];
}

function describePlan(plan: PlanDocument): string {
  const right = 'right' as const;
  const columns = [
    { title: 'date' },
    { title: 'rows', align: right },
    { title: 'requests', align: right },
    { title: 'time', align: right },
    { title: 'begins to expire (UTC)' },
  ];
  const total = plan.dates.reduce(
    (sum, date) => ({
      rows: sum.rows + date.rows,
      requests: sum.requests + date.requests,
      seconds: sum.seconds + date.seconds,
    }),
    { rows: 0, requests: 0, seconds: 0 },
  );
  const cells = (date: string, sum: typeof total, expires: string) => [
    date,
    formatCount(sum.rows),
    formatCount(sum.requests),
    formatDuration(sum.seconds * 1000),
    expires,
  ];
  const rows = plan.dates.map((date) => cells(date.date, date, date.expires));
  const lines = [
    `Lookback from ${plan.lookback_edge} (exchange time), ${plan.row_limit} rows a page, ${plan.sealed} date(s) sealed already.`,
  ];
  if (plan.dates.length === 0) lines.push('Nothing to fetch.');
  else lines.push('', formatTable(columns, [...rows, cells('total', total, '')]));
  if (plan.without_rows.length > 0) lines.push('', `No rows at the source: ${plan.without_rows.join(', ')}`);
  return `${lines.join('\n')}\n`;
}
