/** The end of `run` and `backfill`: a summary for people or one JSON document, and the exit code. */
import { EXIT_CODES } from '../core/errors.ts';
import { formatBytes, formatCount, formatDuration } from '../core/units.ts';
import type { Delivery } from '../run/deliver.ts';
import type { RunResult } from '../run/result.ts';
import { judgeRun } from '../run/run.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { formatTable } from './table.ts';

/** @returns the exit code */
export function finishRun(
  cli: CliContext,
  globals: GlobalOptions,
  result: RunResult,
  deliveries: readonly Delivery[],
): number {
  const failedMail = deliveries.some(({ recipients }) => recipients.some(({ outcome }) => outcome === 'failed'));
  const kind = judgeRun(result) ?? (failedMail ? 'failed' : undefined);
  if (globals.json) cli.terminal.out(`${JSON.stringify({ ...result, reports: deliveries }, undefined, 2)}\n`);
  else cli.terminal.out(describeRun(result, deliveries));
  return kind === undefined ? 0 : EXIT_CODES[kind];
}

function describeRun(result: RunResult, deliveries: readonly Delivery[]): string {
  const lines: string[] = [];
  if (result.dates.length > 0) {
    const columns = [
      { title: 'date' },
      { title: 'result' },
      { title: 'rows', align: 'right' as const },
      { title: 'size', align: 'right' as const },
      { title: 'requests', align: 'right' as const },
    ];
    const rows = result.dates.map((date) => [
      date.date,
      date.status,
      formatCount(date.rows),
      date.size === undefined ? '' : formatBytes(date.size),
      formatCount(date.requests),
    ]);
    lines.push(formatTable(columns, rows), '');
  }
  for (const { date, error } of result.dates) {
    if (error) lines.push(`${date}: ${error.message}${error.hint ? `\n  -> ${error.hint}` : ''}`);
  }
  const sealed = result.dates.filter(({ status }) => status === 'sealed');
  const rows = sealed.reduce((sum, date) => sum + date.rows, 0);
  const took = Date.parse(result.finished_at) - Date.parse(result.started_at);
  lines.push(
    sealed.length === 0 && result.dates.length === 0
      ? `Nothing to seal: every date with rows is sealed (${result.requests} request(s)).`
      : `Sealed ${sealed.length} of ${result.dates.length} date(s), ${formatCount(rows)} rows, ${result.requests} requests, ${formatDuration(took)}, into ${result.store}/${result.dataset}`,
  );
  for (const [date, condition] of Object.entries(result.conditions)) {
    if (condition !== 'available') {
      const expires = result.expires[date];
      lines.push(`${date}: ${condition}${expires ? `, begins to expire ${expires}` : ''}`);
    }
  }
  for (const delivery of deliveries) lines.push(...describeDelivery(delivery));
  return `${lines.join('\n')}\n`;
}

export function describeDelivery(delivery: Delivery): readonly string[] {
  if (delivery.leftToOther) return [`Report of ${delivery.date}: another worker is mailing it at the moment.`];
  if (delivery.recipients.length === 0) {
    return [`Report of ${delivery.date}: nobody left to mail (${delivery.alreadySent} had it already).`];
  }
  return [
    `Report of ${delivery.date}: ${delivery.subject}`,
    ...delivery.recipients.map(({ to, outcome, detail }) => `  ${outcome} ${to}: ${detail}`),
  ];
}
