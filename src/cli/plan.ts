/** `flowdrop plan JOB`: which dates, how many rows, requests and seconds, and what expires when. Changes nothing. */
import { formatBytes, formatCount, formatDuration } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import { priceDates } from '../plan/price.ts';
import type { BackfillMode, DateRange } from '../run/choice.ts';
import { countSpans } from '../run/sql/scan.ts';
import { stateOf } from '../run/state.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { formatTable } from './table.ts';

export const registerPlan: Register = (program, context, act) => {
  program
    .command('plan')
    .description('print what a run would fetch, what it costs and what expires when; changes nothing')
    .argument('<job>', 'job file, or its name in the jobs folder')
    .action(async (job: string) => {
      await act(async (globals) => {
        const { readJob } = await import('../job/files.ts');
        return await printPlan(context, globals, await readJob(job, globals.jobs));
      });
    });
};

export interface PlanChoice {
  readonly range?: DateRange;
  readonly mode?: BackfillMode;
}

/** Prints the plan of a job and its price: for a backfill, of the dates that it would go for. */
export async function printPlan(
  cli: CliContext,
  globals: GlobalOptions,
  job: Job,
  { range, mode = 'unsealed' }: PlanChoice = {},
): ActionResult {
  const { planDates } = await import('../run/planner.ts');
  const { closeSource } = await import('../run/opened.ts');
  const { chooseDates } = await import('../run/choice.ts');
  const { readChoiceFacts } = await import('../run/conditions.ts');
  const { openJobSource } = await import('./source.ts');
  const { compose, terminal, signal } = cli;
  const log = await compose.openLog({ quiet: true });
  const { opened, learnt } = await openJobSource(cli, job, log);
  const { source } = opened;
  const store = await compose.openStore(job.drop.to, job.drop.s3);
  try {
    const facts = await readChoiceFacts(store, job, stateOf(compose.stateDir, job.name));
    const plan = await planDates(
      opened,
      { learnt, signal, calendar: await cli.compose.readCalendar() },
      chooseDates(mode, facts, range),
    );
    const prices = priceDates(plan.dates, {
      nowMs: source.serverNow(),
      intervalMs: source.intervalMs(),
      countRequests: opened.kind === 'sql' ? countSpans(opened.job, learnt) : 0,
      rowBytes: opened.kind === 'sql' ? learnt.row_bytes : 0,
    });
    const document: PlanDocument = {
      job: job.name,
      server_time: new Date(source.serverNow()).toISOString(),
      lookback_edge: plan.lookback.edge,
      row_limit: opened.kind === 'sql' ? learnt.row_limit : null,
      sealed: facts.sealed.size,
      dates: prices.map(({ date, rows, isCounted, requests, seconds, bytes, expiresAtMs, isLost }) => ({
        ...{ date, rows: rows ?? null, estimated: !isCounted, requests, seconds, bytes, expires_before_turn: isLost },
        expires: Number.isFinite(expiresAtMs) ? new Date(expiresAtMs).toISOString() : null,
      })),
      without_rows: [...plan.empty],
    };
    terminal.out(globals.json ? `${JSON.stringify(document, undefined, 2)}\n` : describePlan(document));
    return undefined;
  } finally {
    await store.close();
    await closeSource(opened);
  }
}

interface PlanDocument {
  readonly job: string;
  readonly server_time: string;
  /** Empty where nothing is ever forgotten. */
  readonly lookback_edge: string;
  readonly row_limit: number | null;
  readonly sealed: number;
  readonly dates: readonly {
    readonly date: string;
    /** Null where they cannot be told beforehand. */
    readonly rows: number | null;
    /** Whether the rows are those of another date. */
    readonly estimated: boolean;
    readonly requests: number;
    readonly seconds: number;
    /** Of JSON, before compression; 0 where it is not JSON. */
    readonly bytes: number;
    readonly expires: string | null;
    readonly expires_before_turn: boolean;
  }[];
  readonly without_rows: readonly string[];
}

function describePlan(plan: PlanDocument): string {
  const right = 'right' as const;
  const columns = [
    { title: 'date' },
    { title: 'rows', align: right },
    { title: 'requests', align: right },
    { title: 'time', align: right },
    { title: 'transfer', align: right },
    { title: 'begins to expire (UTC)' },
  ];
  const sum = (pick: (date: PlanDocument['dates'][number]) => number) =>
    plan.dates.reduce((total, date) => total + pick(date), 0);
  const cells = (date: string, rows: string, requests: number, seconds: number, bytes: number, expires: string) => [
    ...[
      date,
      rows,
      formatCount(requests),
      formatDuration(seconds * 1000),
      bytes === 0 ? '' : formatBytes(bytes),
      expires,
    ],
  ];
  const isKnown = plan.dates.every(({ rows }) => rows !== null);
  const isEstimated = plan.dates.some(({ estimated }) => estimated);
  const rows = plan.dates.map((date) => {
    const count = date.rows === null ? '?' : `${date.estimated ? '~' : ''}${formatCount(date.rows)}`;
    const expires = `${date.expires ?? 'never'}${date.expires_before_turn ? '  before its turn is over' : ''}`;
    return cells(date.date, count, date.requests, date.seconds, date.bytes, expires);
  });
  const totalRows = isKnown ? `${isEstimated ? '~' : ''}${formatCount(sum((date) => date.rows ?? 0))}` : '?';
  const total = cells(
    'total',
    totalRows,
    sum((date) => date.requests),
    sum((date) => date.seconds),
    sum((date) => date.bytes),
    '',
  );
  const facts = [
    ...(plan.lookback_edge === '' ? [] : [`Lookback from ${plan.lookback_edge} (exchange time)`]),
    ...(plan.row_limit === null ? [] : [`${plan.row_limit} rows a page`]),
    `${plan.sealed} date(s) sealed already`,
  ];
  const lines = [`${facts.join(', ')}.`];
  if (plan.dates.length === 0) lines.push('Nothing to fetch.');
  else lines.push('', formatTable(columns, [...rows, total]));
  if (isEstimated) lines.push('', '~ as many as the last date had: this date is counted when its turn comes.');
  if (plan.without_rows.length > 0) lines.push('', `No rows at the source: ${plan.without_rows.join(', ')}`);
  return `${lines.join('\n')}\n`;
}
