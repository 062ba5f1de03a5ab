/**
 * What happened to a job's dates, read from the store alone: drops, losses, mailed reports. Reads only; `open-events.ts`
 * decides what is new, `events.ts` posts it.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { isFault } from '../core/errors.ts';
import { openReceiptLog } from '../deliver/receipt-log.ts';
import type { Job, JobReport } from '../job/job.ts';
import { identifyReport } from '../job/job-report.ts';
import { historyKey, MANIFEST_FILENAME } from '../ledger/layout.ts';
import { Ledger } from '../ledger/ledger.ts';
import { type Manifest, readSigned } from '../ledger/manifest.ts';
import { formatRecipientKey } from '../mail/receipt.ts';
import type { Condition } from '../plan/conditions.ts';
import { readStoreId } from '../store/identity.ts';
import type { Store } from '../store/store.ts';
import type { AlertContext } from './alerts.ts';
import {
  buildDropEvent,
  buildLossEvent,
  buildPostEvent,
  buildReportEvent,
  type CloudEvent,
  type EventOrigin,
  type SentReport,
} from './cloud-event.ts';
import { readKnownConditions } from './known-conditions.ts';
import type { Happening } from './open-events.ts';
import { summarizeReport } from './report-post.ts';

export interface LookContext extends Pick<AlertContext, 'clock' | 'log' | 'calendar'> {
  readonly store: Store;
  /** Address of the status page for readers; `undefined` if they cannot reach it. */
  readonly publicUrl: string | undefined;
}

export interface Seen {
  readonly happening: Happening;
  /** The events since a noted revision. */
  build(noted: number): Promise<readonly CloudEvent[]>;
}

/** Costs one read of the store, and one for each report and date of the lookback. @throws StoreFault */
export async function listHappenings(
  context: LookContext,
  job: Job,
  known: Readonly<Record<string, Condition>> | undefined,
): Promise<readonly Seen[]> {
  const { store, clock } = context;
  const { dataset } = job.drop;
  const { id = 'unknown' } = await readStoreId(store);
  const origin = { storeId: id, storeUrl: store.url, job: job.name, dataset };
  const nowMs = clock.now();
  const conditions = known ?? Object.fromEntries((await readKnownConditions(context, job, nowMs)).conditions);
  const { entries } = await new Ledger(store, dataset).conditions();
  const sealed = [...entries.values()].flatMap(({ date, revision }) => (revision === null ? [] : [{ date, revision }]));
  const lost = Object.keys(conditions).filter((date) => conditions[date] === 'expired');
  const at = new Date(nowMs).toISOString();
  return [
    ...sealed.map(({ date, revision }) => ({
      happening: { subject: `drop/${date}`, revision },
      build: async (noted: number) => await buildDropEvents(store, origin, { date, revision, noted }),
    })),
    ...lost.map((date) => ({
      happening: { subject: `lost/${date}`, revision: 1 },
      build: async () => [buildLossEvent(origin, date, at)],
    })),
    ...(await listReports(
      context,
      origin,
      job,
      sealed.map(({ date }) => date),
    )),
  ];
}

/** One for each revision since the noted one: a run that was killed may have sealed two. */
async function buildDropEvents(
  store: Store,
  origin: EventOrigin,
  { date, revision, noted }: { readonly date: string; readonly revision: number; readonly noted: number },
): Promise<readonly CloudEvent[]> {
  const events: CloudEvent[] = [];
  const newest = await new Ledger(store, origin.dataset).manifest(date);
  for (let one = noted + 1; one <= revision; one += 1) {
    const isReplaced = newest?.revision !== one;
    const manifest = isReplaced ? await readKept(store, origin.dataset, date, one) : newest;
    // Numbers of revisions may have gaps, and an operator may have removed a date.
    if (manifest) events.push(buildDropEvent(origin, manifest, isReplaced));
  }
  return events;
}

async function readKept(store: Store, dataset: string, date: string, revision: number): Promise<Manifest | undefined> {
  const key = historyKey(dataset, date, revision, MANIFEST_FILENAME);
  const bytes = await store.get(key);
  const read = bytes && readSigned(bytes, `${store.url}/${key}`, { dataset, date, revision });
  return read?.findings.length === 0 ? read.manifest : undefined;
}

/** Of the lookback: runs mail no older date. */
async function listReports(
  context: LookContext,
  origin: EventOrigin,
  job: Job,
  sealed: readonly string[],
): Promise<readonly Seen[]> {
  const { store, log } = context;
  const newest = [...sealed].sort().at(-1);
  if (newest === undefined) return [];
  const recent = sealed.filter((date) => date >= addDays(newest, -LOOKBACK_DAYS));
  const seen: Seen[] = [];
  for (const report of job.reports) {
    for (const date of recent) {
      try {
        const mailed = await readMailed(store, job, report, date);
        if (!mailed) continue;
        const { revision, sent } = mailed;
        seen.push({
          happening: { subject: `report/${sent.id}/${date}`, revision },
          build: async () => await buildReportEvents(store, origin, { date, revision }, sent),
        });
        if (report.post === null) continue;
        const isLate = date < newest;
        seen.push({
          happening: { subject: `post/${sent.id}/${date}`, revision },
          build: async () => await buildPostEvents(context, origin, report, { date, revision, sent, isLate }),
        });
      } catch (error) {
        if (!isFault(error) || error.code !== 'RECEIPT_INVALID') throw error;
        // Delivery alerts the operators; the events of other dates go on.
        log.warn({ event: 'receipt-unread', date }, `${date}: no event of its report: ${error.message}`);
      }
    }
  }
  return seen;
}

/** @throws Fault `RECEIPT_INVALID`, StoreFault */
async function readMailed(
  store: Store,
  job: Job,
  report: JobReport,
  date: string,
): Promise<{ readonly revision: number; readonly sent: SentReport } | undefined> {
  const id = identifyReport(report);
  const { value: receipt } = await openReceiptLog(store, { job: job.name, date, report: id }).read();
  if (!receipt) return undefined;
  // A test mail to somebody else is not the report.
  const addresses = report.to.map(({ address }) => formatRecipientKey(address));
  const times = Object.entries(receipt.recipients).flatMap(([address, { status, at }]) =>
    status === 'sent' && addresses.includes(address) ? [at] : [],
  );
  const [time] = times.sort();
  if (time === undefined) return undefined;
  const isCorrection = addresses.some((address) => receipt.mailed_before?.[address] !== undefined);
  const { template } = report;
  return { revision: receipt.revision, sent: { id, template, recipients: times.length, time, isCorrection } };
}

async function buildReportEvents(
  store: Store,
  origin: EventOrigin,
  { date, revision }: { readonly date: string; readonly revision: number },
  sent: SentReport,
): Promise<readonly CloudEvent[]> {
  const manifest = await readManifestOf(store, origin.dataset, date, revision);
  return manifest ? [buildReportEvent(origin, manifest, sent)] : [];
}

async function readManifestOf(
  store: Store,
  dataset: string,
  date: string,
  revision: number,
): Promise<Manifest | undefined> {
  const newest = await new Ledger(store, dataset).manifest(date);
  return newest?.revision === revision ? newest : await readKept(store, dataset, date, revision);
}

async function buildPostEvents(
  context: LookContext,
  origin: EventOrigin,
  report: JobReport,
  mailed: { readonly date: string; readonly revision: number; readonly sent: SentReport; readonly isLate: boolean },
): Promise<readonly CloudEvent[]> {
  const { date, revision, sent, isLate } = mailed;
  const manifest = await readManifestOf(context.store, origin.dataset, date, revision);
  const place = { job: origin.job, date, report: sent.id, revision };
  const occasion = { late: isLate && !sent.isCorrection, corrected: sent.isCorrection };
  const summary = manifest && (await summarizeReport(context, report, place, occasion));
  return manifest && summary ? [buildPostEvent(origin, manifest, sent, summary)] : [];
}
