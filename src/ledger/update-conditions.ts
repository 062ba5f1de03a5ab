/**
 * Derives the conditions of a dataset's dates from the manifests in the store, this run's plan, and the knowledge of
 * earlier runs. `condition.json` in the store is the memory: with it, a worker with an empty disk still knows of a
 * loss. Every run derives the document again, so the next run repeats an update that another worker overwrote.
 *
 * The sealed dates in few requests: a listing shows which there are, and the document has what their manifests say.
 * Invariant: what it says of a date counts only while the listing shows the same files; otherwise its manifest is read. A
 * date whose file is missing is never reported as available. Also damage: missing or resized files of a sealed date, and
 * manifests that were altered or are of another drop. A bucket's lifecycle rule, a person, or a store that acknowledged a
 * write it did not keep may have caused it. A date that another worker is just replacing is never reported.
 */
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { isSession } from '../calendar/session.ts';
import { addDays, type DateRange, isInRange } from '../calendar/wall-clock.ts';
import type { Fault } from '../core/errors.ts';
import type { Log } from '../core/log.ts';
import { inParallel } from '../core/side-by-side.ts';
import type { Job } from '../job/job.ts';
import { type Condition, deriveConditions } from '../plan/conditions.ts';
import type { DayCounts } from '../plan/counts.ts';
import type { LookbackRange } from '../plan/dates.ts';
import { expires } from '../plan/dates.ts';
import type { AuditRecord } from '../state/documents.ts';
import type { KnownDates } from '../state/job-state.ts';
import type { RunResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import {
  type ConditionEntry,
  describeSealed,
  describeUnreadable,
  describeUnsealed,
  isSealedEntry,
  type KnownSizes,
  type SealedEntry,
  sizesOf,
} from './condition-file.ts';
import { dropFilename, fileKey } from './layout.ts';
import type { Ledger, SealedDate } from './ledger.ts';

export type Conditions = Awaited<ReturnType<typeof updateConditions>>;

/** What the source showed about dates, as far as the run asked. */
interface SeenDates {
  readonly lookback: LookbackRange;
  /** Dates with rows; `counts` only for dates that were counted. */
  readonly dates: readonly { readonly date: string; readonly counts: DayCounts | undefined }[];
  /** Session dates that are over and have no rows of the job. */
  readonly empty: ReadonlySet<string>;
  /** Of these, the dates on which the source has other rows. */
  readonly unmatched?: ReadonlySet<string> | undefined;
}

/** Facts about dates from outside the plan and the store. */
export interface OutsideDates {
  /** What the job's last run knew: a date in it is a loss when it expires, even if nothing was ever sealed. */
  readonly before?: KnownDates | undefined;
  /** Dates with staged rows on this disk. */
  readonly staged: readonly string[];
  /** Range that the plan was restricted to; the source was not asked about other dates. */
  readonly range?: DateRange | undefined;
  /** Audits of this run, by date. */
  readonly audits?: Readonly<Record<string, AuditRecord>> | undefined;
}

/**
 * Writes dates with rows into `condition.json` as `pending` before the first is fetched. If the run is stopped and no
 * other runs before they expire, even a worker with an empty disk knows that they are lost. If this write fails, the
 * end of the run writes them.
 */
export async function noteRows(ledger: Ledger, log: Log, job: Job, { dates, lookback }: SeenDates): Promise<void> {
  const { dataset } = ledger;
  if (!expires(job.source)) return;
  const note = async () => {
    const document = await ledger.conditions();
    const news = dates
      // An uncounted date may have no rows, and a date that is not a session has no condition.
      .filter(({ date, counts = [] }) => counts.length > 0 && isSession(date, lookback.calendar))
      .filter(({ date }) => !document.entries.has(date))
      .map(({ date }) => describeUnsealed(date, 'pending'));
    if (document.fault !== undefined || news.length === 0) return;
    await ledger.writeConditions([...document.entries.values(), ...news], document);
  };
  await attempt(note, ({ message: reason }) =>
    log.warn(
      { event: 'conditions-unwritten', dataset, reason },
      `${dataset}: its conditions were not written: ${reason}`,
    ),
  );
}

/** Computes the conditions and writes them to `condition.json` if they changed. */
export async function updateConditions(ledger: Ledger, log: Log, plan: SeenDates, outside: OutsideDates) {
  const { before, staged, range, audits = {} } = outside;
  const { dataset } = ledger;
  const document = await ledger.conditions();
  const reason = document.fault;
  if (reason !== undefined)
    log.warn({ event: 'conditions-invalid', dataset, reason }, `${dataset}: its conditions are rebuilt: ${reason}`);
  // Restatements happen inside the lookback. The range is twice as long, so that the next runs still find a restatement
  // whose update of the document was lost in a race.
  const changeable = addDays(plan.lookback.clipped, -LOOKBACK_DAYS);
  const sealed = await readSealed(ledger, document.entries, { changeable }, (date, { message }) => {
    log.error({ event: 'manifest-invalid', date, reason: message }, `${date}: ${message}`);
  });
  const recorded = new Map<string, Condition>(staged.map((date) => [date, 'pending']));
  for (const [date, condition] of Object.entries(before?.conditions ?? {})) recorded.set(date, condition);
  const lostBefore = new Set(
    Object.entries(before?.conditions ?? {}).flatMap(([date, known]) => (known === 'expired' ? [date] : [])),
  );
  for (const [date, { condition }] of document.entries) {
    recorded.set(date, condition);
    if (condition === 'expired') lostBefore.add(date);
  }
  const conditions = deriveConditions({
    sealed: new Map([...sealed].map(([date, { condition }]) => [date, condition])),
    recorded,
    lookback: plan.lookback,
    shown: { dates: plan.dates.map(({ date }) => date), empty: plan.empty, unmatched: plan.unmatched, range },
  });
  const accepted = await ledger.acceptedGaps(conditions);
  const entries = [...conditions].map(([date, condition]) => {
    const entry = sealed.get(date) ?? describeUnsealed(date, condition);
    const audit = audits[date] ?? document.entries.get(date)?.audit;
    // A later revision was proved when it was sealed.
    const isCurrent = audit !== undefined && audit.revision === entry.revision;
    // An audit that found nothing more came after all of its segments.
    const isWhole = isCurrent && audit.result === 'equal';
    const through = 'through' in entry && !isWhole ? entry.through : undefined;
    return { ...entry, through, audit: isCurrent ? audit : undefined, accepted: accepted.get(date) };
  });
  await ledger.writeConditions(entries, document);
  return {
    conditions,
    /** Dates whose loss an earlier run already knew. */
    lostBefore,
    /** Gaps that a person accepted. */
    accepted: new Set(accepted.keys()),
    /** Dates that an earlier run left in the condition that they have. */
    knownBefore: new Set([...conditions].flatMap(([date, now]) => (recorded.get(date) === now ? [date] : []))),
    /** Sealed dates whose files differ from what was sealed, with the reason in words. */
    damaged: new Map(
      [...sealed].flatMap(([date, { damage }]) => (damage === undefined ? [] : [[date, damage] as const])),
    ),
  };
}

/** Lost dates and gaps, as in a run's result; for a run with a date selection, only among the selected dates. */
export function findShortfall(
  { conditions, lostBefore, accepted, knownBefore }: Conditions,
  clipped: string,
  range: DateRange | undefined,
): Pick<RunResult, 'lost' | 'gaps' | 'new_gaps' | 'accepted'> {
  const dates = [...conditions].filter(([date]) => isInRange(date, range) && !accepted.has(date));
  const gaps = dates
    .filter(([date, condition]) => date >= clipped && (condition === 'missing' || condition === 'degraded'))
    .map(([date]) => date);
  return {
    lost: dates.filter(([date, condition]) => condition === 'expired' && !lostBefore.has(date)).map(([date]) => date),
    gaps,
    new_gaps: gaps.filter((date) => !knownBefore.has(date)),
    accepted: [...accepted].filter((date) => isInRange(date, range)),
  };
}

/** Manifests read in parallel, so that a store without `condition.json` does not take minutes. */
const READ_AT_ONCE = 8;

/**
 * By date, ascending; a damaged manifest makes its date degraded.
 * @param entries of `condition.json`
 * @param since earlier dates are as `condition.json` has them: nothing of theirs is listed
 * @param changeable the manifests from this date on are read; absent: only those that the listing or the document lacks
 * @param note is called for a damaged manifest
 * @throws StoreFault
 */
export async function readSealed(
  ledger: Ledger,
  entries: ReadonlyMap<string, ConditionEntry>,
  { since = '', changeable }: { readonly since?: string | undefined; readonly changeable?: string | undefined } = {},
  note: (date: string, fault: Fault) => void = () => {},
): Promise<ReadonlyMap<string, SealedEntry>> {
  const sealed = new Map<string, SealedEntry>();
  for (const entry of entries.values()) if (entry.date < since && isSealedEntry(entry)) sealed.set(entry.date, entry);
  await inParallel(await ledger.list({ since }), READ_AT_ONCE, async (found) => {
    const { date } = found;
    const known = changeable !== undefined && date >= changeable ? undefined : entries.get(date);
    // Damage that is on record may have been repaired, which a run finds out.
    const isTrusted = known?.damage === undefined || changeable === undefined;
    if (known && isSealedEntry(known) && isTrusted && isAsExpected(ledger.dataset, found, known)) {
      sealed.set(date, known);
      return;
    }
    let damage: string | undefined;
    const manifest = await ledger.validManifest(date, (fault) => {
      damage = fault.message;
      note(date, fault);
    });
    const isWhole = manifest !== undefined && isAsExpected(ledger.dataset, found, sizesOf(manifest));
    if (manifest !== undefined && !isWhole) damage = await findDamage(ledger, date);
    sealed.set(date, manifest ? describeSealed(manifest, damage) : describeUnreadable(date, damage));
  });
  return new Map([...sealed].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * What is wrong with the files of a date whose sizes differ from its manifest, in words; `undefined` when nothing is.
 * @throws StoreFault
 */
async function findDamage(ledger: Ledger, date: string): Promise<string | undefined> {
  const { store, dataset } = ledger;
  // The listing and the manifest may be outdated by now, so ask for everything again.
  let reason: string | undefined;
  const manifest = await ledger.validManifest(date, ({ message }) => {
    reason = message;
  });
  if (manifest === undefined) return reason;
  const reasons: string[] = [];
  /** Sizes of the files that are missing or different. */
  const wrong = new Map<string, number | undefined>();
  for (const { filename, size } of manifest.files) {
    const key = fileKey(dataset, date, filename);
    const sizeBytes = (await store.head(key))?.sizeBytes;
    if (sizeBytes === size) continue;
    wrong.set(filename, sizeBytes);
    const what = sizeBytes === undefined ? 'is missing' : `has ${sizeBytes} bytes, its manifest says ${size}`;
    reasons.push(`${store.url}/${key} ${what}`);
  }
  if (wrong.size === 0) return undefined;
  // Asked after the files: a decision is written before them. The next revision's file replaced it, or it was removed
  // because the next revision has no file of that name.
  const next = await ledger.successor(manifest);
  const sizeOfNext = (filename: string) => next?.files.find((file) => file.filename === filename)?.size;
  if (next && [...wrong].every(([filename, sizeBytes]) => sizeOfNext(filename) === sizeBytes)) return undefined;
  if ((await ledger.validManifest(date))?.revision !== manifest.revision) return undefined;
  return reasons.join('; ');
}

/** Whether the listing of a date matches the known sizes. */
function isAsExpected(dataset: string, { drops, beside }: SealedDate, expected: KnownSizes): boolean {
  if (drops.get(expected.filename ?? dropFilename(dataset)) !== expected.size) return false;
  return Object.entries(expected.beside ?? {}).every(([name, size]) => beside.get(name) === size);
}
