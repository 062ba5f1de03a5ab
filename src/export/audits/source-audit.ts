/**
 * The audit of a run: compares each sealed date that is still whole inside the lookback with the source, and repairs what
 * differs as the job's rule says. It comes after all exports and their mails, soonest expiry first, and costs one request for
 * all dates where the source counts them at once. Invariant: an audit fails no run and unseals no date; what failed is repeated
 * by the next run.
 */

import { assertNotAborted, describeError } from '../../core/errors.ts';
import { formatCount } from '../../core/units.ts';
import type { SqlJob } from '../../job/job.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import type { DayCounts } from '../../plan/counts.ts';
import { expiresAt, firstSecondOf, leavesAt } from '../../plan/dates.ts';
import type { OpenedSource } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { API_DOWN_CODES, type Source } from '../../source/source.ts';
import type { AuditRecord } from '../../state/date-records.ts';
import type { DateResult } from '../../state/run-result.ts';
import { attempt } from '../../store/identity.ts';
import { findConflict, latestNow } from '../clocks.ts';
import { describeSealedDate } from '../exported.ts';
import { probeDates, recountRows } from '../trades/probe.ts';
import { countDatesAtOnce } from '../trades/scan.ts';
import { findLoss } from '../trades/withdrawn.ts';
import { repairDate } from './repair-date.ts';
import {
  describeMoved,
  findMovedCells,
  hashCounts,
  readComparable,
  readSealedCounts,
  type SealedCounts,
} from './sealed-counts.ts';

export interface Audited {
  /** By date; without those that could not be compared. */
  readonly audits: Readonly<Record<string, AuditRecord>>;
  /** Restated dates. */
  readonly results: readonly DateResult[];
}

const CLIPPED = 'it has begun to expire';

const NOTHING: Audited = { audits: {}, results: [] };

/**
 * @param dates sealed and undamaged dates that this run did not export @param exported those that it did
 * @throws Fault of kind `interrupted`, `STORE_CHANGED`
 */
export async function auditSealed(
  run: ExportRun,
  opened: OpenedSource,
  dates: readonly string[],
  exported: readonly DateResult[] = [],
): Promise<Audited> {
  if (opened.kind !== 'sql' || opened.job.audit === 'off') return NOTHING;
  const { job, source } = opened;
  const { log, onEvent } = run;
  const whole = dates.filter((date) => latestNow(run) <= expiresAt(date, source.lookbackDays?.())).sort();
  if (whole.length === 0) return NOTHING;
  onEvent({ kind: 'phase', date: '', phase: 'auditing' });
  const conflict = findConflict(run);
  const skipped = new Map<string, string>(conflict === undefined ? [] : whole.map((date) => [date, conflict]));
  const audits: Record<string, AuditRecord> = {};
  const results: DateResult[] = [];
  const failed = new Map<string, string>();
  const requestsBefore = source.stats.requests;
  const tryDate = async (date: string, act: () => Promise<void>): Promise<'down' | undefined> => {
    const compare = async (): Promise<'down' | undefined> => {
      assertNotAborted(run.signal);
      await act();
      return undefined;
    };
    return await attempt(compare, (error) => {
      const reason = run.redact(describeError(error));
      failed.set(date, reason);
      log.warn(
        { event: 'audit-failed', date, code: error.code, reason },
        `${date}: it could not be compared with the source, the next run tries again: ${reason}`,
      );
      return API_DOWN_CODES.has(error.code) ? 'down' : undefined;
    });
  };
  const sealed = new Map<string, Manifest>();
  for (const date of conflict === undefined ? whole : []) {
    await tryDate(date, async () => {
      const read = await readComparable(run, job, date);
      if (typeof read === 'string') skipped.set(date, read);
      else if (!isWhole(run, source, read)) skipped.set(date, CLIPPED);
      else sealed.set(date, read);
    });
  }
  const { entries } = await run.ledger.conditions();
  const counts = new SourceCounts(run, source, job, [...sealed.keys()]);
  let isDown = false;
  const compare = async (each: SealedCounts, now: DayCounts) => {
    const { date } = each.manifest;
    // Counting takes time, and a clipped date would look as if rows were gone.
    if (!isWhole(run, source, each.manifest)) return void skipped.set(date, CLIPPED);
    const last = entries.get(date)?.audit;
    // What a date sealed meanwhile has, or in this run, may have been of this one.
    const isLate = ({ date: other, sealed_at: at }: Manifest) => other !== date && at > (last?.audited_at ?? '');
    const isNow = ({ date: other, status }: DateResult) => other !== date && status === 'sealed';
    const isStale = isLosing(each, now) && ([...sealed.values()].some(isLate) || [...exported, ...results].some(isNow));
    const audited = await auditDate(run, source, job, each, now, last, isStale);
    if (audited.record !== undefined) audits[date] = audited.record;
    if (audited.restated !== undefined) results.push(audited.restated);
  };
  // Rows that a date lost may be of another date now, which takes them over first.
  const losing: (readonly [SealedCounts, DayCounts])[] = [];
  for (const [date, manifest] of sealed) {
    const state = await tryDate(date, async () => {
      const now = await counts.read(date);
      const each = { manifest, before: await readSealedCounts(run, job, manifest) };
      if (now.length > 0 && isLosing(each, now)) losing.push([each, now]);
      else await compare(each, now);
    });
    isDown = state === 'down';
    if (isDown) break;
  }
  for (const [each, now] of isDown ? [] : losing) {
    if ((await tryDate(each.manifest.date, () => compare(each, now))) === 'down') break;
  }
  for (const [reason, which] of groupByReason(skipped)) {
    log.info(
      { event: 'audit-skipped', dates: which, reason },
      `not compared with the source: ${which.join(', ')}, because ${reason}`,
    );
  }
  const requests = source.stats.requests - requestsBefore;
  const differing = Object.entries(audits).filter(([, { result }]) => result === 'differs');
  log.info(
    {
      event: 'audited',
      dates: Object.keys(audits),
      restated: results.map(({ date }) => date),
      differing: differing.map(([date]) => date),
      requests,
    },
    `${formatCount(Object.keys(audits).length)} sealed date(s) compared with the source, ${results.length} restated, ${differing.length} differ; ${requests} request(s)`,
  );
  return { audits, results };
}

/** Whether the drop has rows that the source does not have of the date. Those that are kept are in no counts. */
function isLosing({ manifest, before }: SealedCounts, now: DayCounts): boolean {
  return findLoss(before, now) !== undefined || (manifest.kept ?? 0) > 0;
}

/** Whether its first row is still visible, by the fastest clock and by the shortest lookback that the source has reported. */
function isWhole(run: ExportRun, source: Source, manifest: Manifest): boolean {
  return latestNow(run) <= leavesAt(manifest.date, firstSecondOf(manifest), source.lookbackDays?.());
}

function groupByReason(skipped: ReadonlyMap<string, string>): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const [date, reason] of skipped) groups.set(reason, [...(groups.get(reason) ?? []), date]);
  return groups;
}

/** The source's counts of sealed dates now, in as few requests as it allows. */
class SourceCounts {
  readonly #deps: ExportRun & { readonly source: Source };
  readonly #job: SqlJob;
  #left: readonly string[];
  #counted = new Map<string, DayCounts>();

  constructor(run: ExportRun, source: Source, job: SqlJob, dates: readonly string[]) {
    this.#deps = { ...run, source };
    this.#job = job;
    this.#left = dates;
  }

  /** Call it for each date in their order. @returns empty if the source has no rows of the date */
  async read(date: string): Promise<DayCounts> {
    const known = this.#counted.get(date);
    if (known !== undefined) {
      this.#counted.delete(date);
      return known;
    }
    const group = this.#left.slice(this.#left.indexOf(date)).slice(0, countDatesAtOnce(this.#deps.limits));
    this.#left = this.#left.slice(this.#left.indexOf(date) + 1);
    const counted = group.length > 1 ? await probeDates(this.#deps, this.#job, group, true) : undefined;
    if (counted === undefined) return await recountRows(this.#deps, this.#job, date);
    this.#left = this.#left.slice(group.length - 1);
    this.#counted = new Map(group.slice(1).map((one) => [one, counted.get(one) ?? []]));
    return counted.get(date) ?? [];
  }
}

interface AuditedDate {
  /** `undefined` if another worker restated the date meanwhile. */
  readonly record: AuditRecord | undefined;
  readonly restated?: DateResult | undefined;
}

async function auditDate(
  run: ExportRun,
  source: Source,
  job: SqlJob,
  sealed: SealedCounts,
  now: DayCounts,
  last: AuditRecord | undefined,
  isStale: boolean,
): Promise<AuditedDate> {
  const { manifest, before } = sealed;
  const { date, revision, kept = 0, held } = manifest;
  const requestsBefore = source.stats.requests;
  const rule = job.audit === 'off' ? 'report' : job.audit;
  const base = { audited_at: new Date(source.serverNow()).toISOString(), revision, rule, counts: hashCounts(now) };
  const judge = (reason: string | undefined, of = revision): AuditRecord => {
    if (reason === undefined) return { ...base, revision: of, result: 'equal' };
    run.log.warn({ event: 'audit-differs', date, rule, reason }, `${date} differs from the source: ${reason}`);
    return { ...base, revision: of, result: 'differs', reason };
  };
  const moved = findMovedCells(before, now);
  const earlier = rule === 'mirror' ? describeEarlier(job, manifest) : undefined;
  // A held date is released once the source has its rows again, and rows that are kept may be of another date since.
  const isSettled = held === undefined && !(kept > 0 && isStale);
  if (moved?.length === 0 && (isSettled || rule === 'report')) {
    return { record: judge(describeKept(kept, earlier)) };
  }
  const isKnown = !isStale && last?.revision === revision && last.rule === rule && last.counts === base.counts;
  if (isKnown) return { record: judge(last.reason) };
  const reason = describeMoved(before, now, moved);
  // An empty answer adds nothing, and is no proof that all rows are gone.
  if (rule === 'report' || now.length === 0) return { record: judge(reason) };
  // Many rows that are gone may be a source that lags: none is removed, and what is new is taken over as by `repair`.
  // Rows that an earlier audit kept were many, or kept by `repair`; they stay, too, until the date is exported again.
  const why = rule === 'mirror' ? (findLoss(before, now)?.tooMuch ?? earlier) : undefined;
  const allowed = why === undefined ? job : { ...job, audit: 'repair' as const };
  run.log.info({ event: 'audit-repair', date, rule, reason }, `${date} is restated: ${reason}`);
  const since = last?.revision === revision ? last.audited_at : manifest.sealed_at;
  const repaired = await repairDate(run, source, allowed, sealed, now, moved, since);
  if (repaired.status === 'sealed-elsewhere') return { record: undefined };
  // What another replica answered meanwhile explains nothing of these counts: they are looked at again.
  const provedBy = findMovedCells(repaired.counts, now)?.length === 0 ? now : repaired.counts;
  const judged = judge(repaired.doubt ?? describeKept(repaired.kept, why), repaired.manifest.revision);
  const record = { ...judged, counts: hashCounts(provedBy) };
  if (repaired.status === 'unchanged') return { record };
  return { record, restated: describeSealedDate(run, repaired, source.stats.requests - requestsBefore) };
}

/** Why `mirror` leaves rows that are gone, if an earlier audit left them. */
function describeEarlier({ name }: SqlJob, { date, kept = 0 }: Manifest): string | undefined {
  if (kept === 0) return undefined;
  return `an earlier audit kept them; to remove them: flowdrop backfill ${name} --all --from ${date} --to ${date}`;
}

/** @param why they are not removed */
function describeKept(rows: number, why?: string): string | undefined {
  if (rows === 0) return undefined;
  return `it keeps ${formatCount(rows)} row(s) that the source no longer has${why === undefined ? '' : `; ${why}`}`;
}
