/**
 * Which dates a report is due for. A run mails the newest sealed date, and before it the dates of the lookback that
 * were sealed too late for their own evening, oldest first. Invariant: a run never mails a date before the first one
 * that a run reported on, so that neither a first run nor a backfill floods anyone.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { addDays } from '../calendar/wall-clock.ts';
import { Fault, isFault } from '../core/errors.ts';
import { identifyReport, type Job, type JobReport } from '../job/job.ts';
import { parseReceiptDate, reportsPrefix } from '../ledger/layout.ts';
import type { Manifest } from '../ledger/manifest.ts';
import type { Run } from '../run/run.ts';
import { openReceiptLog } from './receipt.ts';

/**
 * The dates that a run must report on. Costs a listing and the receipts of the lookback.
 * @param wanted only these; default: all that are due
 * @returns `due`, oldest first, with `late`: a newer session is over, sealed or not; `past`: a newer session is sealed, and
 * the run returns to this one. `pending`: sessions that are over but not sealed; no mail is sent for them
 */
export async function listDueDates(run: Run, job: Job, report: JobReport, wanted: ReadonlySet<string> | undefined) {
  const { sealed, pending } = await readSessions(run);
  const newest = sealed.at(-1);
  if (newest === undefined) return { due: [], pending: [] };
  const from = (await findFirstDate(run, job, identifyReport(report))) ?? newest;
  const oldest = addDays(newest, -LOOKBACK_DAYS);
  const isDue = (date: string) => (wanted === undefined || wanted.has(date)) && date >= from && date >= oldest;
  const isLate = createLateness(sealed, pending);
  return {
    due: sealed.filter(isDue).map((date) => ({ date, late: isLate(date), past: date !== newest })),
    pending: pending.filter(isDue),
  };
}

/**
 * The date that the operator chose, or the newest sealed one; `undefined` if nothing is sealed yet.
 * @throws Fault `REPORT_PENDING`
 */
export async function chooseDate(
  run: Run,
  job: Job,
  date: string | undefined,
): Promise<{ readonly manifest: Manifest; readonly late: boolean } | undefined> {
  const { sealed, pending } = await readSessions(run);
  const chosen = date ?? sealed.at(-1);
  if (chosen === undefined) return undefined;
  const manifest = await run.ledger.manifest(chosen);
  if (manifest) return { manifest, late: createLateness(sealed, pending)(chosen) };
  throw new Fault(
    'REPORT_PENDING',
    `${chosen} of ${job.drop.dataset} is not sealed, so there is nothing to report on yet`,
    { hint: `Run \`flowdrop run ${job.name}\` first; \`flowdrop status\` shows what is sealed.` },
  );
}

/** @returns sealed dates, ascending, and those that are over but not sealed */
async function readSessions({ ledger }: Run) {
  const sealed = await ledger.dates();
  const { entries } = await ledger.conditions();
  const pending = [...entries.values()].flatMap(({ date, condition }) =>
    condition === 'pending' && !sealed.includes(date) ? [date] : [],
  );
  return { sealed, pending };
}

/** Whether a newer session is over. */
function createLateness(...over: readonly (readonly string[])[]): (date: string) => boolean {
  return (date) => over.flat().some((other) => other > date);
}

/** The first date that a run reported on. Keys are sorted by date, so it is found early. */
async function findFirstDate(
  { ledger: { store } }: Run,
  { name: job }: Job,
  report: string,
): Promise<string | undefined> {
  for await (const { key } of store.list(reportsPrefix(job))) {
    const date = parseReceiptDate(job, report, key);
    if (date === undefined) continue;
    try {
      const { value: receipt } = await openReceiptLog(store, { job, date, report }).read();
      if (receipt !== undefined && receipt.by_hand !== true) return date;
    } catch (error) {
      if (!isFault(error) || !UNREADABLE_CODES.includes(error.code)) throw error;
      // It counts as one of a run: its own date fails, and the others are mailed.
      return date;
    }
  }
  return undefined;
}

const UNREADABLE_CODES = ['RECEIPT_INVALID', 'OBJECT_TOO_LARGE'];
