/**
 * `flowdrop alerts [JOB]`: the open alerts of the jobs, what to type, since when, and who was notified. Reads the store and the
 * state folder; it checks and sends nothing.
 */
import { listTargets } from '../alert/alerts.ts';
import { severityOf } from '../alert/cause-table.ts';
import { listOpenAlerts } from '../alert/outbox.ts';
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { describeError, EXIT_CODES, isFault } from '../core/errors.ts';
import { countOf } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import { listJobFiles, readJob, readJobAddressee } from '../job/job-folder.ts';
import { openJobState } from '../state/job-state.ts';
import { type Call, type Cli, withLedger } from './context.ts';
import { escapeText } from './terminal/text.ts';

export async function alerts({ openers, globals, print }: Cli, { argument }: Call<'alerts'>) {
  const documents: JobAlerts[] = [];
  for (const file of argument === undefined ? await listJobFiles(globals.jobs) : [argument]) {
    // An invalid file is itself a cause for an alert, and mostly still says whose.
    const job = await readJob(file, globals.jobs).catch(async (error: unknown) => {
      const addressee = isFault(error) ? await readJobAddressee(file, globals.jobs) : undefined;
      if (addressee === undefined && argument !== undefined) throw error;
      return addressee;
    });
    if (job) documents.push(await readAlerts(openers, job));
  }
  const nowMs = openers.clock.now();
  const lines = documents.flatMap((one) => describeAlerts(one, nowMs));
  print(
    documents,
    lines.map((line) => line && openers.redact(line)),
  );
  return documents.some(({ fault }) => fault !== null) && !globals.json ? EXIT_CODES.failed : undefined;
}

type JobAlerts = Awaited<ReturnType<typeof readAlerts>>;

async function readAlerts(openers: Cli['openers'], job: Job) {
  const path = openJobState(openers.stateDir, job.name).alerts;
  let fault: string | null = null;
  const open = await withLedger(openers, job, ({ store }) => listOpenAlerts(store, job.name, path)).catch((error) => {
    if (!isFault(error)) throw error;
    fault = describeError(error);
    return listOpenAlerts(undefined, job.name, path);
  });
  const hasWebhook = (await openers.openWebhook('alert')) !== undefined;
  const targets = listTargets(job, hasWebhook, openers.deliversMail());
  return {
    job: job.name,
    file: job.file,
    fault,
    targets,
    alerts: open.map(([id, { kind, date, code, title, what, next, first_seen: since, sent: told }]) => {
      const untold = targets.filter((target) => !(target in told));
      return { id, kind, severity: severityOf(kind), date, code, title, what, next, since, told, untold };
    }),
  };
}

function describeAlerts({ job, file, fault, targets, alerts: open }: JobAlerts, nowMs: number) {
  const timeOf = (at: string) => formatInstant(at, EXCHANGE_TIME_ZONE, nowMs);
  return [
    `${job}: ${open.length === 0 ? 'no open alerts' : countOf(open.length, 'open alert')}`,
    fault !== null && `    The store could not be read; this is what this machine remembers: ${fault}`,
    targets.length === 0 && `    Nobody gets alerts, so none are kept: set \`alerts.to\` in ${file}.`,
    ...open.flatMap(({ severity, title, what, next, since, told, untold }) => {
      const who = Object.entries(told).map(([target, at]) => `${target} ${timeOf(at)}`);
      return [
        `[${severity}] ${escapeText(title)}`,
        `    ${escapeText(what)}`,
        `    Next: ${escapeText(next)}`,
        `    Since ${timeOf(since)}; told: ${who.join(', ') || 'nobody'}${untold.length > 0 ? `; not told: ${untold.join(', ')}` : ''}`,
      ];
    }),
  ];
}
