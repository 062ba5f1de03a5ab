/**
 * `flowdrop report JOB`: sends the reports of a sealed date to those who have not got them, writes a preview, or prints
 * what was mailed.
 */

import { Option } from 'commander';
import { EXIT_CODES } from '../core/errors.ts';
import type { DeliverContext, DeliverOptions } from '../deliver/delivery.ts';
import type { Job } from '../job/job.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

interface ReportOptions {
  readonly date?: string;
  readonly preview?: string;
  readonly only?: string;
  readonly show?: boolean;
  readonly report?: string;
  readonly revision?: string;
}

export const registerReport: Register = (program, context, act) => {
  program
    .command('report')
    .description(
      'mail the reports of a sealed date to those who have not got them, preview them, or print what was mailed',
    )
    .argument('<job>', 'job file, or its name in the jobs folder')
    .option('--date <date>', 'trading date; default: the newest sealed one, and late ones of the lookback')
    .option('--preview <dir>', 'write HTML, text, .eml and attachments there; mail nobody')
    .option(
      '--only <address>',
      'mail, or preview for, only this address, also when it had the report already or is no recipient',
    )
    .addOption(
      new Option('--show', 'print the page that was mailed, as it is in the archive; mail nobody').conflicts([
        'preview',
        'only',
      ]),
    )
    .option('--report <id>', 'with --show: which of the date, as the archive names it')
    .option('--revision <number>', 'with --show: of which revision; default: the newest')
    .action(async (job: string, options: ReportOptions) => {
      await act((globals) => report(context, globals, job, options));
    });
};

async function report(
  cli: CliContext,
  globals: GlobalOptions,
  reference: string,
  options: ReportOptions,
): ActionResult {
  const { readJob } = await import('../job/files.ts');
  const { assertDate } = await import('./range.ts');
  const { Fault } = await import('../core/errors.ts');
  if (options.date !== undefined) assertDate('--date', options.date);
  const job = await readJob(reference, globals.jobs);
  if (options.show) {
    const { showReport } = await import('./report-show.ts');
    return await showReport(cli, globals, job, options);
  }
  if (options.report !== undefined || options.revision !== undefined) {
    throw new Fault('USAGE', '--report and --revision choose what --show prints, which was not asked for', {
      kind: 'usage',
      hint: 'Add --show, or leave them out.',
    });
  }
  if (job.reports.length === 0) {
    throw new Fault('REPORT_NONE', `the job ${job.name} has no reports`, {
      kind: 'usage',
      hint: `Add \`reports:\` to ${job.file}.`,
    });
  }
  const { withDeliverContext } = await import('../run/run-context.ts');
  const { createRunDeps, describeDelivery } = await import('./run-output.ts');
  return await withDeliverContext(createRunDeps(cli), job, async (context) => {
    const chosen = {
      ...(options.date === undefined ? {} : { date: options.date }),
      ...(options.only === undefined ? {} : { only: options.only }),
    };
    if (options.preview !== undefined) return await preview(cli, globals, context, job, options.preview, chosen);
    const { deliverReports } = await import('../deliver/deliver.ts');
    const { hasFailed } = await import('../deliver/delivery.ts');
    const deliveries = await deliverReports(context, job, chosen);
    if (globals.json) cli.terminal.out(`${JSON.stringify(deliveries, undefined, 2)}\n`);
    else if (deliveries.length === 0) cli.terminal.out('Nothing is sealed yet, so there is nothing to report on.\n');
    else cli.terminal.out(`${deliveries.flatMap(describeDelivery).join('\n')}\n`);
    return deliveries.some(hasFailed) ? EXIT_CODES.failed : undefined;
  });
}

/** With `--json`: of each report its model, of a digest those of its sealed datasets. */
async function preview(
  cli: CliContext,
  globals: GlobalOptions,
  context: DeliverContext,
  job: Job,
  folder: string,
  chosen: DeliverOptions,
): ActionResult {
  const { previewReport } = await import('../deliver/deliver.ts');
  const { writePreview } = await import('./report-preview.ts');
  const { Fault } = await import('../core/errors.ts');
  const models: unknown[] = [];
  for (const [index, report] of job.reports.entries()) {
    const edition = await previewReport(context, job, report, chosen);
    if (!edition) throw new Fault('REPORT_PENDING', `nothing of ${job.drop.dataset} is sealed yet`);
    const files = await writePreview(cli.cwd, folder, `${report.template}-${index + 1}`, edition);
    models.push(...edition.parts.flatMap((part) => ('report' in part ? [part.report] : [])));
    if (!globals.json) cli.terminal.out(`${files.join('\n')}\n`);
  }
  if (globals.json) cli.terminal.out(`${JSON.stringify(models, undefined, 2)}\n`);
  return undefined;
}
