/**
 * `flowdrop report JOB`: mails the reports of a sealed date to recipients who have not received them, writes a preview,
 * or prints what was mailed.
 */
import { join, resolve } from 'node:path';
import { beginEvents, postEvents } from '../alert/events.ts';
import { writeWholeFile } from '../core/atomic-file.ts';
import { EXIT_CODES, Fault } from '../core/errors.ts';
import { type DeliverOptions, deliverReports, previewReport } from '../deliver/deliver.ts';
import { readArchivedPage } from '../deliver/report-copies.ts';
import type { Job } from '../job/job.ts';
import { readJob } from '../job/job-folder.ts';
import { embedImages } from '../mail/message.ts';
import { listReports } from '../report/text/mail-view.ts';
import { type Run, withRun } from '../run/run.ts';
import { recordRun } from '../run/run-recorder.ts';
import { hasFailed } from '../state/run-result.ts';
import { assertDate, type Call, type Cli, readPatience, usage, withLedger } from './context.ts';
import { describeDeliveries } from './run-output.ts';

export async function report(cli: Cli, { argument, options }: Call<'report'>) {
  const { date, only, preview: folder } = options;
  if (date !== undefined) assertDate('--date', date);
  const job = await readJob(argument, cli.globals.jobs);
  if (options.show) return await showReport(cli, job, options);
  if (options.report !== undefined || options.revision !== undefined)
    throw usage('--report and --revision work only with --show', 'Add --show, or leave them out.');
  if (job.reports.length === 0)
    throw usage(`the job ${job.name} has no reports`, `Add \`reports:\` to ${job.file}.`, 'REPORT_NONE');
  const env = { ...cli.env, mailPatienceMs: readPatience(cli, options.wait) };
  if (folder !== undefined)
    return await withRun(env, job, async (opened) => await preview(cli, opened, job, folder, { date, only }));
  await beginEvents(env, job);
  const deliveries = await recordRun(
    env,
    job,
    'report',
    async (deps) => await withRun(deps, job, async (opened) => await deliverReports(opened, job, { date, only })),
    (mailed) => ({ outcome: mailed.some(hasFailed) ? 'failed' : 'done', deliveries: mailed }),
  );
  await postEvents(env, job, undefined);
  const lines = describeDeliveries(job.name, deliveries, cli.openers.deliversMail());
  cli.print(deliveries, lines.length > 0 ? lines : ['Nothing is sealed yet, so there is nothing to report on.']);
  return deliveries.some(hasFailed) ? EXIT_CODES.failed : undefined;
}

/**
 * Writes each report as files: the mail as a page that opens in a browser with its pictures, its text part, the message,
 * the full report, and the attachments. With `--json`, prints its model; for a digest, the models of its sealed datasets.
 */
async function preview(cli: Cli, run: Run, job: Job, folder: string, chosen: DeliverOptions) {
  const models: unknown[] = [];
  const written: string[] = [];
  for (const [index, wanted] of job.reports.entries()) {
    const edition = await previewReport(run, job, wanted, chosen);
    if (!edition) throw new Fault('REPORT_PENDING', `no date of ${job.drop.dataset} is sealed yet`);
    const path = join(resolve(cli.cwd, folder), `${wanted.template}-${index + 1}`);
    const { html, text, subject, images } = edition.rendered;
    // The page may be among the attachments: it is the same.
    const others = edition.attachments.filter(({ bytes }) => !Buffer.from(edition.page).equals(bytes));
    const files: readonly (readonly [string, string | Uint8Array])[] = [
      [`${path}.html`, embedImages(html, images)],
      [`${path}.txt`, `Subject: ${subject}\n\n${text}`],
      [`${path}.eml`, edition.eml],
      [`${path}-full.html`, edition.page],
      ...others.map(({ filename, bytes }) => [`${path}-${filename}`, bytes] as const),
    ];
    for (const [file, content] of files) await writeWholeFile(file, content);
    written.push(...files.map(([file]) => file));
    models.push(...listReports(edition.parts));
  }
  return cli.print(models, written);
}

/**
 * Prints the page of a mailed report from the store's archive. Sends no mail.
 * @throws Fault `REPORT_NOT_ARCHIVED`, `REPORT_AMBIGUOUS` (usage), StoreFault
 */
async function showReport(cli: Cli, job: Job, { date, report, revision }: Call<'report'>['options']) {
  const { openers, print, terminal, globals } = cli;
  const choice = { date, report, revision };
  const page = await withLedger(openers, job, ({ store }) => readArchivedPage(store, job.name, choice));
  if (globals.json) return print(page, '');
  // Not wrapped: it is HTML.
  terminal.out(page.html);
  return undefined;
}
