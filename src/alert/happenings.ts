/**
 * What happened to a job's dates, read from the store alone: drops, losses, mailed reports, and the events of each. Reads
 * only; `events.ts` decides what is new, and posts it.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { isFault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { formatRecipientKey, openReceiptLog, type Receipt } from '../deliver/receipt.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { Condition } from '../plan/conditions.ts';
import { readStoreId } from '../store/identity.ts';
import type { Store } from '../store/store.ts';
import { buildDropEvent, buildLossEvent, buildReportEvent, type CloudEvent, type SentReport } from './cloud-event.ts';
import type { Happening } from './outbox.ts';
import { summarizeReport } from './report-post.ts';

export interface SeenHappening extends Happening {
  /** The events since a noted revision. */
  build(noted: number): Promise<readonly CloudEvent[]>;
}

/**
 * Costs two reads of the store, and one for each report and date of the lookback.
 * @param foundMs when the losses were found
 * @param publicUrl address of the status page for readers; `undefined` if they cannot reach it
 * @throws StoreFault
 */
export async function listHappenings(
  ledger: Ledger,
  log: Log,
  job: Job,
  conditions: Readonly<Record<string, Condition>>,
  foundMs: number,
  publicUrl: string | undefined,
): Promise<readonly SeenHappening[]> {
  const { store, dataset } = ledger;
  const { id: storeId = 'unknown' } = await readStoreId(store);
  const origin = { storeId, storeUrl: store.url, job: job.name, dataset };
  const seen: SeenHappening[] = [];
  const { entries } = await ledger.conditions();
  const sealed = [...entries.values()].flatMap(({ date, revision }) => (revision === null ? [] : [{ date, revision }]));
  for (const { date, revision } of sealed) {
    const build = async (noted: number) => {
      const events: CloudEvent[] = [];
      // A run that was killed may have sealed two. Numbers of revisions may have gaps, and an operator may have removed a date.
      for (let one = noted + 1; one <= revision; one += 1) {
        const found = await readRevision(ledger, date, one);
        if (found) events.push(buildDropEvent(origin, found.manifest, found.isReplaced));
      }
      return events;
    };
    seen.push({ subject: `drop/${date}`, revision, build });
  }
  for (const [date, condition] of Object.entries(conditions)) {
    const build = async () => [buildLossEvent(origin, date, new Date(foundMs).toISOString())];
    if (condition === 'expired') seen.push({ subject: `lost/${date}`, revision: 1, build });
  }
  for await (const { report, date, revision, sent, isLate } of listMailed(store, log, job, sealed)) {
    const { id, isCorrection } = sent;
    seen.push({
      ...{ subject: `report/${id}/${date}`, revision },
      build: async () => {
        const found = await readRevision(ledger, date, revision);
        return found ? [buildReportEvent(origin, found.manifest, sent)] : [];
      },
    });
    if (report.post === null) continue;
    seen.push({
      ...{ subject: `post/${id}/${date}`, revision },
      build: async () => {
        const found = await readRevision(ledger, date, revision);
        const place = { job: job.name, date, report: id, revision };
        const occasion = { late: isLate && !isCorrection, corrected: isCorrection };
        const summary = found && (await summarizeReport(store, log, report, place, { ...occasion, publicUrl }));
        return summary ? [buildReportEvent(origin, found.manifest, sent, summary)] : [];
      },
    });
  }
  return seen;
}

/** The published revision or one of the history; `undefined` if it is gone or damaged. @throws Fault `MANIFEST_INVALID` */
async function readRevision(
  ledger: Ledger,
  date: string,
  revision: number,
): Promise<{ readonly manifest: Manifest; readonly isReplaced: boolean } | undefined> {
  const newest = await ledger.manifest(date);
  if (newest?.revision === revision) return { manifest: newest, isReplaced: false };
  const kept = await ledger.kept(date, revision);
  return kept?.manifest && { manifest: kept.manifest, isReplaced: true };
}

/** The mailed reports of the lookback: runs mail no older date. */
async function* listMailed(
  store: Store,
  log: Log,
  { name: job, reports }: Job,
  sealed: readonly { readonly date: string }[],
) {
  const dates = sealed.map(({ date }) => date).sort();
  const newest = dates.at(-1) ?? '';
  for (const report of reports) {
    const id = identifyReport(report);
    for (const date of dates) {
      if (date < addDays(newest, -LOOKBACK_DAYS)) continue;
      try {
        const { value: receipt } = await openReceiptLog(store, { job, date, report: id }).read();
        const sent = receipt && sumReceipt(report, id, receipt);
        if (sent) yield { report, date, revision: receipt.revision, sent, isLate: date < newest };
      } catch (error) {
        if (!isFault(error) || error.code !== 'RECEIPT_INVALID') throw error;
        // Delivery alerts the operators; the events of other dates go on.
        log.warn({ event: 'receipt-unread', date }, `${date}: no event of its report: ${error.message}`);
      }
    }
  }
}

/** `undefined` if nobody was mailed: a test mail to somebody else is not the report. */
function sumReceipt({ template, to }: JobReport, id: string, receipt: Receipt): SentReport | undefined {
  const addresses = to.map(({ address }) => formatRecipientKey(address));
  const times = Object.entries(receipt.recipients).flatMap(([address, { status, at }]) =>
    status === 'sent' && addresses.includes(address) ? [at] : [],
  );
  const [time] = times.sort();
  if (time === undefined) return undefined;
  const isCorrection = addresses.some((address) => receipt.mailed_before?.[address] !== undefined);
  return { id, template, recipients: times.length, time, isCorrection };
}
