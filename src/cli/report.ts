/**
 * `flowdrop report JOB`: mails the reports of a sealed date to recipients who have not received them, writes a preview,
 * or prints what was mailed.
 */
import { join, resolve } from 'node:path';
import { beginEvents, postEvents } from '../alert/events.ts';
import { writeWholeFile } from '../core/atomic-file.ts';
import { EXIT_CODES, Fault } from '../core/errors.ts';
import type { Edition } from '../deliver/dated-report.ts';
import { type DeliverOptions, deliverReports, previewReport } from '../deliver/deliver.ts';
import { readArchivedPage } from '../deliver/report-copies.ts';
import type { Job } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import { embedImages } from '../mail/message.ts';
import { type Run, withRun } from '../run/run.ts';
import { recordRun } from '../run/run-recorder.ts';
import { hasFailed } from '../state/run-result.ts';
import type { ActionResult } from './command.ts';
import type { Call } from './commands.ts';
import type { CliContext, GlobalOptions } from './context.ts';
import { assertDate } from './range.ts';
import { createRunEnv, describeDelivery, type RunCli } from './run-output.ts';

type ReportCli = RunCli & Pick<CliContext, 'cwd'>;

export async function report(cli: ReportCli, { globals, argument, options }: Call<'report'>): ActionResult {
  const { date, only } = options;
  if (date !== undefined) assertDate('--date', date);
  const job = await readJob(argument, globals.jobs);
  if (options.show) return await showReport(cli, globals, job, options);
  if (options.report !== undefined || options.revision !== undefined) {
    throw new Fault('USAGE', '--report and --revision work only with --show', {
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
  if (options.preview !== undefined) {
    const folder = options.preview;
    return await withRun(
      createRunEnv(cli),
      job,
      async (context) => await preview(cli, globals, context, job, folder, { date, only }),
    );
  }
  const args = ['report', job.name, ...(date ? ['--date', date] : []), ...(only ? ['--only', only] : [])];
  await beginEvents(createRunEnv(cli), job);
  const deliveries = await recordRun(
    createRunEnv(cli),
    job,
    { command: 'report', args },
    async (deps) => await withRun(deps, job, async (context) => await deliverReports(context, job, { date, only })),
    (mailed) => ({ outcome: mailed.some(hasFailed) ? 'failed' : 'done', deliveries: mailed }),
  );
  await postEvents(createRunEnv(cli), job, undefined);
  if (globals.json) cli.terminal.out(`${JSON.stringify(deliveries, undefined, 2)}\n`);
  else if (deliveries.length === 0) cli.terminal.out('Nothing is sealed yet, so there is nothing to report on.\n');
  else cli.terminal.out(`${deliveries.flatMap(describeDelivery).join('\n')}\n`);
  return deliveries.some(hasFailed) ? EXIT_CODES.failed : undefined;
}

/** With `--json`, prints the model of each report; for a digest, the models of its sealed datasets. */
async function preview(
  cli: ReportCli,
  globals: GlobalOptions,
  context: Run,
  job: Job,
  folder: string,
  chosen: DeliverOptions,
): ActionResult {
  const models: unknown[] = [];
  for (const [index, report] of job.reports.entries()) {
    const edition = await previewReport(context, job, report, chosen);
    if (!edition) throw new Fault('REPORT_PENDING', `no date of ${job.drop.dataset} is sealed yet`);
    const files = await writePreview(cli.cwd, folder, `${report.template}-${index + 1}`, edition);
    models.push(...edition.parts.flatMap((part) => ('report' in part ? [part.report] : [])));
    if (!globals.json) cli.terminal.out(`${files.join('\n')}\n`);
  }
  if (globals.json) cli.terminal.out(`${JSON.stringify(models, undefined, 2)}\n`);
  return undefined;
}

/**
 * Writes a report as files: the mail as a page that opens in a browser with its pictures, its text part, the message, the
 * full report, and the attachments.
 * @returns the paths written
 */
async function writePreview(
  cwd: string,
  folder: string,
  name: string,
  { rendered, page, attachments, eml }: Edition & { readonly eml: Uint8Array },
): Promise<readonly string[]> {
  const path = join(resolve(cwd, folder), name);
  const { html, text, subject, images } = rendered;
  const files: readonly (readonly [string, string | Uint8Array])[] = [
    [`${path}.html`, embedImages(html, images)],
    [`${path}.txt`, `Subject: ${subject}\n\n${text}`],
    [`${path}.eml`, eml],
    [`${path}-full.html`, page],
    ...attachments.map(({ filename, bytes }) => [`${path}-${filename}`, bytes] as const),
  ];
  for (const [file, content] of files) await writeWholeFile(file, content);
  return files.map(([file]) => file);
}

/**
 * Prints the page of a mailed report from the store's archive. Sends no mail.
 * @throws Fault `REPORT_NOT_ARCHIVED`, `REPORT_AMBIGUOUS`, `REVISION_INVALID` (usage), StoreFault
 */
async function showReport(
  { openers, terminal }: ReportCli,
  globals: GlobalOptions,
  job: Job,
  { date, report, revision }: Call<'report'>['options'],
): ActionResult {
  const choice = { date, report, revision: revision === undefined ? undefined : parseRevision(revision) };
  const store = await openers.openStore(job.drop.to, { objects: job.drop.s3 });
  try {
    const page = await readArchivedPage(store, job.name, choice);
    terminal.out(globals.json ? `${JSON.stringify(page, undefined, 2)}\n` : page.html);
    return undefined;
  } finally {
    await store.close();
  }
}

function parseRevision(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new Fault('REVISION_INVALID', `--revision must be a whole number of 1 or more, not "${text}"`, {
    kind: 'usage',
  });
}
