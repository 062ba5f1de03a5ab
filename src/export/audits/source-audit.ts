/**
 * The audit of a run: compares each sealed date that is still whole inside the lookback with the source, and repairs what
 * differs as the job's rule says. It comes after all exports and their mails, soonest expiry first, and costs one request for
 * all dates where the source counts them at once. Invariant: an audit fails no run and unseals no date; what failed is repeated
 * by the next run. Counts are compared only if they are of the same rows: the query, the address and the hashed columns of the
 * sealed date are those of the job.
 */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { SESSION_END_SECOND } from '../../calendar/segments.ts';
import { closedSecond } from '../../calendar/session.ts';
import { formatMinute, SECONDS_PER_DAY } from '../../calendar/wall-clock.ts';
import { wholeDay } from '../../calendar/window.ts';
import { assertNotAborted, describeError, Fault } from '../../core/errors.ts';
import { countOf, formatCount } from '../../core/units.ts';
import type { SqlJob } from '../../job/job.ts';
import type { ConditionEntry } from '../../ledger/condition-file.ts';
import type { Manifest } from '../../ledger/manifest.ts';
import { axisOf, isInside, keyOf, listSymbols } from '../../plan/axis.ts';
import { type CellCount, type DayCounts, mergeParts, sumCounts } from '../../plan/counts.ts';
import { expiresAt, firstSecondOf, leavesAt } from '../../plan/dates.ts';
import { findMoved, planRepair } from '../../plan/pack.ts';
import { bestProof, listHashedColumns } from '../../plan/proof.ts';
import { buildPage } from '../../plan/statement.ts';
import type { OpenedSql } from '../../run/open-source.ts';
import type { SqlRun } from '../../run/run.ts';
import type { AuditDeps } from '../../seal/audit.ts';
import { readCounts } from '../../seal/counts-file.ts';
import { API_DOWN_CODES } from '../../source/source.ts';
import { countSealed, type DropRows } from '../../stage/sealed-rows.ts';
import { openStage, type Stage } from '../../stage/stage.ts';
import type { AuditRecord } from '../../state/documents.ts';
import type { DateResult } from '../../state/run-result.ts';
import { attempt } from '../../store/identity.ts';
import type { Audited } from '../date-source.ts';
import { describeSealedDate, settle } from '../export-dates.ts';
import { withLaterDrops } from '../restate.ts';
import { beginDate, createDropFile, sealRows } from '../seal-rows.ts';
import { assertStillWhole, fetchedDate } from '../trades/fetched-date.ts';
import { probeDates, recountRows } from '../trades/probe.ts';
import { countDatesAtOnce } from '../trades/scan.ts';
import { CONFIRM_AFTER_MS, findLoss, isConfirmed } from '../trades/withdrawn.ts';

const CLIPPED = 'it has begun to expire';
const ELSEWHERE = 'it was sealed from another address';

/** See `DateSource.audit`. */
export async function auditSealed(
  run: SqlRun,
  dates: readonly string[],
  exported: readonly DateResult[],
): Promise<Audited> {
  const audited: Audited = { audits: {}, results: [] };
  const { log, source, clocks } = run;
  const { entries } = await run.ledger.conditions();
  // What trades after its seal extends a date, whatever the rule for changes.
  const due = dates.filter((date) => run.job.audit !== 'off' || entries.get(date)?.through !== undefined);
  const whole = due.filter((date) => clocks.latest() <= expiresAt(date, source.lookbackDays?.())).sort();
  if (whole.length === 0) return audited;
  run.onEvent({ kind: 'phase', date: '', phase: 'auditing' });
  const conflict = clocks.conflict();
  const skipped = new Map<string, string>(conflict === undefined ? [] : whole.map((date) => [date, conflict]));
  const requestsBefore = source.stats.requests;
  let isDown = false;
  const tryDate = async (date: string, act: () => Promise<void>) => {
    assertNotAborted(run.signal);
    await attempt(act, (error) => {
      const reason = run.redact(describeError(error));
      log.warn(
        { event: 'audit-failed', date, code: error.code, reason },
        `${date}: it could not be compared with the source, the next run tries again: ${reason}`,
      );
      isDown = API_DOWN_CODES.has(error.code);
    });
  };
  const sealed = new Map<string, Manifest>();
  for (const date of conflict === undefined ? whole : []) {
    await tryDate(date, async () => {
      const manifest = await run.ledger.manifest(date);
      const reason = explainSkip(run, manifest);
      if (reason !== undefined) skipped.set(date, reason);
      else if (manifest !== undefined) sealed.set(date, manifest);
    });
  }
  isDown = false;
  // In as few requests as the source allows.
  const counted = new Map<string, DayCounts>();
  const countNow = async (date: string) => {
    const left = [...sealed.keys()].filter((other) => other >= date);
    const group = counted.has(date) ? [] : left.slice(0, countDatesAtOnce(run.limits));
    const answer = group.length > 1 ? await probeDates(run, group, true) : undefined;
    for (const one of answer ? group : []) counted.set(one, answer?.get(one) ?? []);
    const now = counted.get(date);
    counted.delete(date);
    return now ?? (await recountRows(run, date));
  };
  const compare = async (each: SealedCounts, now: DayCounts) => {
    const { date } = each.manifest;
    // Counting takes time, and a clipped date would look as if rows were gone.
    if (!isWhole(run, each.manifest)) {
      skipped.set(date, CLIPPED);
      return;
    }
    const last = entries.get(date)?.audit;
    const since = last?.audited_at ?? '';
    // What a date has that was sealed since, or in this run, may have been of this one. Of an expired one the day is known.
    const sealedAt = (one: ConditionEntry) => sealed.get(one.date)?.sealed_at ?? `${one.last_modified_date ?? 0}T24`;
    const late = [...entries.values()].filter((one) => sealedAt(one) > since);
    const fresh = [...exported, ...audited.results].filter(({ status }) => status === 'sealed');
    const isMoved = [...late, ...fresh].some(({ date: other }) => other !== date);
    await auditDate(run, each, now, last, isMoved && isLosing(each, now), audited);
  };
  // Rows that a date lost may be of another date now, which takes them over first.
  const losing: (readonly [SealedCounts, DayCounts])[] = [];
  for (const [date, manifest] of sealed) {
    if (isDown) break;
    await tryDate(date, async () => {
      const now = await countNow(date);
      const each = { manifest, before: await readSealedCounts(run, manifest, `${run.state.drop(date)}.counts`) };
      if (now.length > 0 && isLosing(each, now)) losing.push([each, now]);
      else await compare(each, now);
    });
  }
  // Of two that lost rows the later one: if its rows are the earlier one's now, the next run still finds it whole.
  for (const [each, now] of losing.reverse()) {
    if (!isDown) await tryDate(each.manifest.date, () => compare(each, now));
  }
  for (const reason of new Set(skipped.values())) {
    const which = [...skipped].flatMap(([date, why]) => (why === reason ? [date] : []));
    log.info(
      { event: 'audit-skipped', dates: which, reason },
      `not compared with the source: ${which.join(', ')}, because ${reason}`,
    );
  }
  const requests = source.stats.requests - requestsBefore;
  const compared = Object.entries(audited.audits);
  const differing = compared.flatMap(([date, { result }]) => (result === 'differs' ? [date] : []));
  const restated = audited.results.map(({ date }) => date);
  log.info(
    { event: 'audited', dates: compared.map(([date]) => date), restated, differing, requests },
    `${countOf(compared.length, 'sealed date')} compared with the source, ${restated.length} restated, ${differing.length} differ; ${countOf(requests, 'request')}`,
  );
  return audited;
}

/**
 * What differs from a sealed date, in words, as its audit would find it; `undefined` for a date that cannot be compared.
 * @throws SourceFault, StoreFault; Fault `SCAN_TOO_BROAD`, `COUNTS_LOST`
 */
export async function compareSealed(
  api: OpenedSql,
  { ledger, engine, folder }: AuditDeps,
  manifest: Manifest,
): Promise<readonly string[] | undefined> {
  const { date } = manifest;
  // The source may have another address now.
  if (![undefined, ELSEWHERE].includes(explainSkip(api, manifest))) return undefined;
  const now = await recountRows(api, date);
  const before = await readSealedCounts({ ...api, ledger, engine }, manifest, join(folder, 'counts.parquet'));
  const moved = findMovedCells(before, now);
  return moved?.length === 0 ? [] : [describeMoved(before, now, moved)];
}

/** Why the date cannot be compared, in words; `undefined` if it can. */
function explainSkip(api: OpenedSql, manifest: Manifest | undefined): string | undefined {
  const { job, source, clocks } = api;
  if (manifest?.counts === undefined) return 'it was sealed without counts of the source';
  const { date, query, through } = manifest;
  const pages = (['open', 'closed'] as const).map((edges) => buildPage(job, wholeDay(date), edges));
  if (!pages.includes(query.sql)) return 'it was sealed with another query';
  // The segments that its seal did not wait for must be over: it is extended once, not row by row.
  const end = through === formatMinute(SESSION_END_SECOND) ? SECONDS_PER_DAY : SESSION_END_SECOND;
  if (through !== undefined && clocks.earliest() < clocks.settledAt(date, end)) return 'it has not traded to its end';
  if (!isWhole(api, manifest)) return CLIPPED;
  return query.url === source.url && query.entry_point === job.source.api ? undefined : ELSEWHERE;
}

/** Whether its first row is still visible, by the fastest clock and by the shortest lookback that the source has reported. */
function isWhole({ clocks, source }: OpenedSql, manifest: Manifest): boolean {
  return clocks.latest() <= leavesAt(manifest.date, firstSecondOf(manifest), source.lookbackDays?.());
}

/** Whether the drop has rows that the source does not have of the date. Those that are kept are in no counts. */
function isLosing({ manifest, before }: SealedCounts, now: DayCounts): boolean {
  return findLoss(before, now) !== undefined || (manifest.kept ?? 0) > 0;
}

/** The source's counts when the date was sealed. @throws StoreFault; Fault `COUNTS_LOST` */
async function readSealedCounts(
  { ledger, engine, job, signal }: Pick<SqlRun, 'ledger' | 'engine' | 'job' | 'signal'>,
  manifest: Manifest,
  path: string,
): Promise<DayCounts> {
  const { date, counts: name, recount } = manifest;
  const counts = await ledger.withFile(manifest, name, path, async () => await readCounts(engine, path), signal);
  if (counts === undefined) {
    throw new Fault('COUNTS_LOST', `${date}: ${name} is missing in the store, or has other bytes`, {
      hint: 'The next run repairs it.',
    });
  }
  // A job whose columns were changed hashes others: such hashes say nothing about the values.
  const hashed = listHashedColumns(job.source, bestProof(job.source)) ?? [];
  if (recount?.columns.join() === hashed.map((column) => column.name).join()) return counts;
  return counts.map(({ valueHash: _, ...cell }) => cell);
}

/** @param audited gets the record, and the restated date; neither if another worker restated it meanwhile */
async function auditDate(
  run: SqlRun,
  sealed: SealedCounts,
  now: DayCounts,
  last: AuditRecord | undefined,
  isStale: boolean,
  audited: Audited,
): Promise<void> {
  const { source, job, log } = run;
  const { manifest, before } = sealed;
  const { date, revision, kept = 0, held } = manifest;
  const requestsBefore = source.stats.requests;
  const moved = findMovedCells(before, now);
  const set = job.audit === 'off' ? 'report' : job.audit;
  const rule = manifest.through !== undefined && areLater(run, date, moved) ? 'repair' : set;
  const base = { audited_at: new Date(source.serverNow()).toISOString(), revision, rule, counts: hashCounts(now) };
  const judge = (reason: string | undefined, changes: Partial<AuditRecord> = {}) => {
    if (reason !== undefined)
      log.warn({ event: 'audit-differs', date, rule, reason }, `${date} differs from the source: ${reason}`);
    const judged = reason === undefined ? { result: 'equal' as const } : { result: 'differs' as const, reason };
    audited.audits[date] = { ...base, ...changes, ...judged };
  };
  const earlier =
    rule === 'mirror' && kept > 0
      ? `an earlier audit kept them; to remove them: flowdrop backfill ${job.name} --all --from ${date} --to ${date}`
      : undefined;
  // A held date is released once the source has its rows again, and rows that are kept may be of another date since.
  const isSettled = held === undefined && !(kept > 0 && isStale);
  if (moved?.length === 0 && (isSettled || rule === 'report')) return judge(describeKept(kept, earlier));
  const isKnown = !isStale && last?.revision === revision && last.rule === rule && last.counts === base.counts;
  if (isKnown) return judge(last.reason);
  const reason = describeMoved(before, now, moved);
  // An empty answer adds nothing, and is no proof that all rows are gone.
  if (rule === 'report' || now.length === 0) return judge(reason);
  // Many rows that are gone may be a source that lags: none is removed, and what is new is taken over as by `repair`.
  // Rows that an earlier audit kept were many, or kept by `repair`; they stay, too, until the date is exported again.
  const why = rule === 'mirror' ? (findLoss(before, now)?.tooMuch ?? earlier) : undefined;
  log.info({ event: 'audit-repair', date, rule, reason }, `${date} is restated: ${reason}`);
  const since = last?.revision === revision ? last.audited_at : manifest.sealed_at;
  const repaired = await repairDate(run, why === undefined ? rule : 'repair', sealed, now, moved, since);
  if (repaired.status === 'sealed-elsewhere') return;
  // What another replica answered meanwhile explains nothing of these counts: they are looked at again.
  const provedBy = findMovedCells(repaired.counts, now)?.length === 0 ? now : repaired.counts;
  const proved = { revision: repaired.manifest.revision, counts: hashCounts(provedBy) };
  judge(repaired.doubt ?? describeKept(repaired.kept, why), proved);
  if (repaired.status === 'unchanged') return;
  audited.results.push(describeSealedDate(run, repaired, source.stats.requests - requestsBefore));
}

/** Whether all that moved came after the close: it extends the date, whatever the rule for changes. */
function areLater({ calendar }: SqlRun, date: string, moved: DayCounts = []): boolean {
  const closed = closedSecond(date, calendar);
  return moved.length > 0 && moved.every(({ symbol, second }) => symbol === undefined && second >= closed);
}

/** Cells that have moved; `undefined` if the counts are along different axes, and their totals differ. */
function findMovedCells(before: DayCounts, now: DayCounts): DayCounts | undefined {
  if (now.length === 0 || axisOf(before) === axisOf(now)) return findMoved(mergeParts(before), mergeParts(now));
  const merge = (counts: DayCounts) => mergeParts(counts.map((cell) => ({ ...cell, symbol: '' })));
  return findMoved(merge(before), merge(now)).length === 0 ? [] : undefined;
}

/** The same text for the same counts. */
function hashCounts(counts: DayCounts): string {
  const cells = mergeParts(counts).map(({ symbol, second, rows, ids, mark, idHash, valueHash }) => {
    return [symbol ?? null, second, rows, ids, mark, idHash ?? null, valueHash ?? null];
  });
  return createHash('sha256').update(JSON.stringify(cells)).digest('hex').slice(0, 16);
}

/** `the source has 40,003 rows, 40,000 when the date was sealed; they differ in 3 seconds: rows were replaced`. */
function describeMoved(before: DayCounts, now: DayCounts, moved: DayCounts | undefined): string {
  const [had, has] = [sumCounts(before).rows, sumCounts(now).rows];
  const unit = axisOf(now) === 'symbol' ? 'symbol' : 'second';
  const says = `the source has ${countOf(has, 'row')}, ${formatCount(had)} when the date was sealed`;
  if (moved === undefined) return says;
  const ids = new Map(mergeParts(before).map((cell) => [keyOf(cell), cell.idHash]));
  const what = moved.some((cell) => ids.get(keyOf(cell)) !== cell.idHash) ? 'replaced' : 'corrected';
  const why = has === had && moved.length > 0 ? `: rows were ${what}` : '';
  return `${says}; they differ in ${countOf(moved.length, unit)}${why}`;
}

/** @param why they are not removed */
function describeKept(rows: number, why?: string): string | undefined {
  if (rows === 0) return undefined;
  return `it keeps ${countOf(rows, 'row')} that the source no longer has${why === undefined ? '' : `; ${why}`}`;
}

interface SealedCounts {
  readonly manifest: Manifest;
  /** The source's counts when the date was sealed. */
  readonly before: DayCounts;
}

/**
 * Restates a sealed date that differs from the source: an export whose stage begins with the rows of the drop. Only the windows
 * that differ are fetched; of the others, the source's counts just proved the rows again. Invariant: what is sealed is proved
 * and verified like any drop, and nothing is published before. The stage begins empty, so a killed repair leaves nothing that
 * counts.
 * @param now the source's counts @param moved the cells that differ; `undefined` if they are not known
 * @param since ISO instant until which the sealed rows were of this date at the source
 * @returns with `kept`, the rows of the drop that the source no longer has, and the counts that the rows were proved by: the
 * source may have changed since the audit
 * @throws Fault; the sealed date stays as it is
 */
async function repairDate(
  run: SqlRun,
  rule: SqlJob['audit'],
  sealed: SealedCounts,
  now: DayCounts,
  moved: DayCounts | undefined,
  since: string,
) {
  const { engine, state, signal, ledger, job } = run;
  const { manifest, before } = sealed;
  const { date } = manifest;
  const begun = beginDate(run);
  const path = `${state.drop(date)}.audited`;
  const drop = { path, extraFields: manifest.extra_columns, symbols: listSymbols(before, now) };
  const stage = await openStage(engine, job, date, run.source.url, { rows: sumCounts(now).rows, isEmpty: true });
  try {
    if (!(await ledger.fetchFile(date, manifest.files[0], path, signal))) {
      throw new Fault(
        'DROP_LOST',
        `${date}: ${manifest.files[0].filename} is missing in the store, or has other bytes`,
        { hint: '`flowdrop verify` shows what is wrong.' },
      );
    }
    if (rule === 'mirror') await assertGone(run, sealed, now);
    // A row in quarantine cannot be staged again from its drop, and a group has no id.
    const isFilled = moved !== undefined && manifest.quarantine === undefined && job.source.kind === 'rows';
    const sealedRows = isFilled ? await fillStage(run, stage, now, moved, drop) : new Map<string, number>();
    const counted = isFilled ? now : undefined;
    const completed = await settle(fetchedDate(run, stage, now, state.counts(date), { counted }));
    // A version that was replaced is counted at the source, and is not in the drop; two trades of one id are in both.
    const replacedIn = (cell: CellCount) => cell.rows - (sealedRows.get(keyOf(cell)) ?? cell.rows);
    const duplicates = stage.carried().reduce((sum, cell) => sum + Math.max(0, replacedIn(cell)), 0);
    let kept = 0;
    if (rule === 'repair' && job.source.kind === 'rows') {
      const keep = async (elsewhere?: string) => await stage.keepGone(drop, elsewhere);
      kept = isLosing(sealed, now) ? await withLaterDrops(run, date, since, path, keep) : await keep();
    }
    assertStillWhole(run, date, firstSecondOf(manifest));
    const result = await sealRows(run, stage, {
      ...{ begun, file: createDropFile(run, stage), restate: true },
      ...completed,
      audit: { kept, duplicates, sealed: manifest },
    });
    return { ...result, kept, counts: completed.counts };
  } finally {
    await rm(path, { force: true });
    await stage.discard();
    await state.counts(date).remove();
  }
}

/**
 * Before rows are removed, which the audit allows only if they are few: a second count must agree.
 * @throws Fault `DATE_UNSETTLED`
 */
async function assertGone(run: SqlRun, { manifest, before }: SealedCounts, now: DayCounts): Promise<void> {
  const { date } = manifest;
  if (findLoss(before, now) === undefined) return;
  await run.clocks.sleep(CONFIRM_AFTER_MS, run.signal);
  if (isConfirmed(before, now, await recountRows(run, date))) return;
  throw new Fault('DATE_UNSETTLED', `${date}: rows were gone in one count and back in the next`, {
    hint: 'The sealed date stays as it is. The next run compares it again.',
  });
}

/** Stages the rows of the drop, all but those of the cells that moved. @returns how many rows the drop has, by cell */
async function fillStage(
  { job, limits, engine }: SqlRun,
  stage: Stage,
  now: DayCounts,
  moved: DayCounts,
  drop: DropRows,
) {
  const current = mergeParts(now);
  const had = await countSealed(engine, job, stage.date, drop, axisOf(now));
  const [hadIds, hasIds] = [had, current].map((cells) => new Map(cells.map((cell) => [keyOf(cell), cell.ids])));
  // Rows that the drop keeps may be of another date now. And it lacks rows that a version in another cell replaced: that
  // version may be gone.
  const other = [...had, ...current].filter((cell) => hadIds?.get(keyOf(cell)) !== hasIds?.get(keyOf(cell)));
  const again = [...new Map([...other, ...moved].map((cell) => [keyOf(cell), cell])).values()];
  const plan = planRepair(again, current, limits.rowLimit);
  const carried = current.filter((cell) => !plan.fetched.some((stretch) => isInside(cell, stretch)));
  await stage.fill(drop, plan, carried);
  return new Map(had.map((cell) => [keyOf(cell), cell.rows]));
}
