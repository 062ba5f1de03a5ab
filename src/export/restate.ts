/**
 * Restating a sealed date: compares the new file with the sealed one before anything is published, and holds the date where
 * the change is not believed. What readers are mailed then, a correction, is decided in `deliver/deliver-date.ts`.
 */

import { rm } from 'node:fs/promises';
import { LOOKBACK_DAYS } from '../api-contract/published-limits.ts';
import { closedSecond, nightEndSecond } from '../calendar/session.ts';
import { addDays, formatSecond } from '../calendar/wall-clock.ts';
import { hashFile } from '../core/atomic-file.ts';
import { formatCount } from '../core/units.ts';
import { parquetFile, quoteString } from '../engine/literal.ts';
import { readNumber, sumPasses } from '../engine/passes.ts';
import type { Job } from '../job/job.ts';
import type { Manifest, ManifestDraft } from '../ledger/manifest.ts';
import { publishDrop } from '../ledger/publish.ts';
import type { ExportRun } from '../run/run.ts';
import { type ComparedFile, compareFiles, isUnchanged, type MatchedTrades, matchTrades } from '../seal/changes.ts';
import { draftAgain } from '../seal/mend.ts';
import { joinReasons } from '../stage/quarantine.ts';
import type { DropChanges } from '../state/documents.ts';
import { judgeSum } from './trades/withdrawn.ts';

/** Where a copy of the sealed file is while both are compared. */
export function sealedCopy(path: string): string {
  return `${path}.sealed`;
}

/**
 * @param path of the new file @param kept its rows that the source no longer has
 * @returns `unchanged`: whether it equals the sealed file; `changes`: `null` when that one is damaged or missing; `doubt`: why
 *   the new rows should not replace the sealed ones
 */
export async function compareWithSealed(
  run: ExportRun,
  sealed: Manifest,
  draft: ManifestDraft,
  path: string,
  kept: number,
) {
  const { engine, ledger, signal } = run;
  const { job } = run.opened;
  const copy = sealedCopy(path);
  // Without the sealed rows only their number is known.
  if (!(await ledger.fetchFile(sealed.date, sealed.files[0], copy, signal)))
    return { unchanged: false, changes: null, doubt: judgeRows(job, sealed, draft) };
  const sides = { before: describeSide(copy, sealed), after: describeSide(path, draft) };
  const hasIds = namesOf(draft.schema).includes('id') && namesOf(sealed.schema).includes('id');
  const plain = await compareFiles(engine, sides.before, sides.after, hasIds ? ['id'] : job.drop.sort);
  const judged =
    hasIds && isSameSelection(job, draft, sealed)
      ? await judgeTrades(run, sealed, path, sides, plain, kept)
      : { changes: plain, doubt: judgeRows(job, sealed, draft) };
  const isExtended = await isExtension(run, sealed.date, judged.changes, sides);
  const { doubt } = judged;
  const changes = isExtended ? { ...judged.changes, extended: true as const } : judged.changes;
  // The same rows with other types, in another order, or now complete, make a new revision.
  const sameForm =
    draft.schema_hash === sealed.schema_hash &&
    draft.sort.join() === sealed.sort.join() &&
    describeLack(draft) === describeLack(sealed);
  if (!sameForm || !isUnchanged(changes)) return { unchanged: false, changes, doubt };
  // A missing or damaged file beside the drop comes back with a new revision.
  let isWhole = true;
  for (const { filename } of sealed.files.slice(1))
    isWhole &&= (await ledger.withFile(sealed, filename, `${path}.beside`, async () => true, signal)) === true;
  return { unchanged: isWhole, changes: isWhole ? changes : null, doubt };
}

/** Whether all that changed is that rows came which a report does not count: of the night, or after the close. */
async function isExtension(
  { engine, calendar }: ExportRun,
  date: string,
  { added, removed, altered, rekeyed = 0, columns_added, columns_removed }: DropChanges,
  { before, after }: Sides,
): Promise<boolean> {
  if (added === 0 || removed + altered + rekeyed + columns_added.length + columns_removed.length > 0) return false;
  if (before.rows === 0 || !after.columns.includes('time')) return false;
  const clock = 'substring(toString(time), 12, 8)';
  const [from, to] = [nightEndSecond(date), closedSecond(date, calendar)].map((at) => quoteString(formatSecond(at)));
  const isIn = `${clock} >= ${from} AND ${clock} < ${to}`;
  const count = ({ from: file }: ComparedFile) => `(SELECT countIf(${isIn}) FROM ${file})`;
  return (await readNumber(engine, `SELECT toInt32(${count(after)} - ${count(before)})`)) === 0;
}

/** Another condition or other SQL of the job selects other rows, which are no change at the source. */
function isSameSelection({ source }: Job, draft: ManifestDraft, sealed: Manifest): boolean {
  const isOwn = 'sql' in source && source.sql !== '';
  return draft.filter === sealed.filter && (!isOwn || draft.query.sql === sealed.query.sql);
}

/**
 * By the numbers of rows alone, of trades behind groups for instance. Snapshots are not compared: later ones differ.
 */
function judgeRows(job: Job, sealed: Manifest, draft: ManifestDraft): string | undefined {
  const { source } = job;
  if (source.kind === 'snapshots' || !isSameSelection(job, draft, sealed)) return undefined;
  const rowsOf = ({ rows, source_rows: counted }: ManifestDraft) =>
    source.kind === 'aggregate' ? (counted ?? 0) : rows;
  const had = rowsOf(sealed);
  return judgeChange({ had, lost: had - rowsOf(draft), added: 0, rekeyed: 0, repeated: 0, shared: 0 });
}

interface Sides {
  readonly before: ComparedFile;
  readonly after: ComparedFile;
}

/** Trades under another id are neither added nor removed; nor is a row lost that is of another date now. */
async function judgeTrades(
  run: ExportRun,
  sealed: Manifest,
  path: string,
  sides: Sides,
  plain: DropChanges,
  kept: number,
) {
  const matched =
    plain.added === 0
      ? { rekeyed: 0, repeated: 0, shared: 0 }
      : await matchTrades(run.engine, sides.before, sides.after);
  const rekeyed = Math.min(matched.rekeyed, plain.added, plain.removed);
  const [added, removed] = [plain.added - rekeyed, plain.removed - rekeyed];
  const changes: DropChanges = { ...plain, added, removed, ...(rekeyed > 0 ? { rekeyed } : {}) };
  const had = sealed.rows;
  let lost = removed + kept;
  if (judgeSum(had, lost) !== undefined) lost -= await countMoved(run, sealed, path, sides);
  const repeated = Math.min(matched.repeated, added);
  return { changes, doubt: judgeChange({ ...matched, repeated, had, lost, added }) };
}

async function countMoved(run: ExportRun, sealed: Manifest, path: string, sides: Sides): Promise<number> {
  const [before, after] = [sides.before.from, sides.after.from];
  const inPass = (table: string, pass: string) => `(SELECT id FROM ${table} WHERE ${pass})`;
  const countIn = (elsewhere: string) => (pass: string) =>
    `SELECT count() FROM ${before} WHERE ${pass} AND id NOT IN ${inPass(after, pass)} AND id IN ${inPass(elsewhere, pass)}`;
  return await withLaterDrops(run, sealed.date, sealed.sealed_at, path, async (elsewhere) =>
    elsewhere === undefined ? 0 : await sumPasses(run.engine, before, countIn(elsewhere)),
  );
}

/** What the drop lacks: the quarantined rows may differ beside the same good rows. */
function describeLack(manifest: ManifestDraft): string {
  const { condition, quarantine, missing = [] } = manifest;
  const bad = quarantine && [quarantine.rows, quarantine.ids, quarantine.reasons];
  // In the order of the answers.
  const windows = missing.map(({ window, reason }) => `${window} ${reason}`).sort();
  return JSON.stringify([condition, bad ?? null, windows]);
}

function describeSide(path: string, { rows, schema }: ManifestDraft): ComparedFile {
  return { from: parquetFile(path), rows, columns: namesOf(schema) };
}

function namesOf(schema: Manifest['schema']): readonly string[] {
  return schema.map(({ name }) => name);
}

/**
 * Prints can be equal in contract, time, price and size, so late rows may repeat some: these always may, like the few rows that
 * may always be withdrawn.
 */
const MAX_REPEATED_ROWS = 10;
/**
 * Of more new rows, the share that may repeat a trade. A late row does so as often as the date's own rows repeat each other,
 * and up to three times as often if all come from its busiest seconds. In a double load nearly all do.
 */
const MAX_REPEATED_SHARE = 0.1;
const BUSY_FACTOR = 3;

interface FoundChange extends MatchedTrades {
  /** Rows of the sealed date. */
  readonly had: number;
  /** Of these, the rows whose trade is gone from the date, and is in no other. */
  readonly lost: number;
  /** New rows, without trades that have another id now. */
  readonly added: number;
}

/** Why the change is not believed, in words; `undefined` if it is. */
function judgeChange({ had, lost, added, repeated, shared }: FoundChange): string | undefined {
  if (judgeSum(had, lost) !== undefined) {
    return `${formatCount(lost)} of ${formatCount(had)} sealed rows are gone at the source, too many for a withdrawal`;
  }
  const natural = had === 0 ? 0 : shared / had;
  const share = Math.min(Math.max(MAX_REPEATED_SHARE, natural * BUSY_FACTOR), (1 + natural) / 2);
  if (repeated <= MAX_REPEATED_ROWS || repeated <= added * share) return undefined;
  return `${formatCount(repeated)} of ${formatCount(added)} new rows have contract, time, price and size of a row that stays: the source has loaded trades twice`;
}

/** How sealing a date ended. */
export interface SealResult {
  readonly manifest: Manifest;
  /** `sealed-elsewhere`: another worker's manifest was first. `unchanged`: the sealed revision has these rows already. */
  readonly status: 'sealed' | 'sealed-elsewhere' | 'unchanged';
  /** Of a restatement: what changed; `null` when the replaced object could not be read. */
  readonly changes?: DropChanges | null;
  /** Why the date is held: the source's rows are not believed, and the sealed ones stay. */
  readonly doubt?: string | undefined;
}

const NO_CHANGES = { added: 0, removed: 0, altered: 0, columns_added: [], columns_removed: [] };

/**
 * Holds a sealed date whose rows at the source changed in a way that is no news: the same rows become the next revision, as
 * `degraded`. So every reader of the drop knows, operators are alerted, and no mailed number changes. The date is released
 * by the next restatement that is not doubtful.
 * @param path of the file with the new rows, which are not published; beside it is the copy of the sealed one
 * @returns `undefined` if the sealed revision is not whole: then its rows cannot be sealed again
 * @throws StoreFault
 */
export async function holdSealed(
  { ledger, log, clocks, opened, signal }: ExportRun,
  sealed: Manifest,
  path: string,
  why: string,
  isAudit: boolean,
): Promise<SealResult | undefined> {
  const { date } = sealed;
  const doubt = `${why}. If its rows are right: flowdrop backfill ${opened.job.name} --from ${date} --to ${date} --accept-change`;
  log.warn({ event: 'change-doubted', date, reason: doubt }, `${date}: the source's rows are not taken over: ${doubt}`);
  if (sealed.held !== undefined) return { manifest: sealed, status: 'unchanged', doubt };
  const [drop, ...beside] = sealed.files;
  const pathOf = (name: string) => `${path}.held.${name}`;
  const copyOf = (name: string | null | undefined) => (name ? pathOf(name) : undefined);
  try {
    for (const one of beside) {
      if (!(await ledger.fetchFile(date, one, pathOf(one.filename), signal))) return undefined;
    }
    if (`sha256:${await hashFile(sealedCopy(path))}` !== drop.hash) return undefined;
    const { manifest, won } = await publishDrop(
      ledger,
      {
        drop: sealedCopy(path),
        summary: copyOf(sealed.summary),
        counts: copyOf(sealed.counts),
        quarantine: copyOf(sealed.quarantine?.filename),
      },
      {
        ...draftAgain(sealed, clocks.now()),
        condition: 'degraded',
        degraded_reason: joinReasons(sealed.degraded_reason, doubt),
        held: doubt,
        changes: isAudit ? { ...NO_CHANGES, found_by: 'audit' } : NO_CHANGES,
      },
      { supersedes: sealed, signal },
    );
    if (!won) return { manifest, status: 'sealed-elsewhere' };
    return { manifest, status: 'sealed', changes: manifest.changes ?? null, doubt };
  } finally {
    for (const { filename } of beside) await rm(pathOf(filename), { force: true });
  }
}

/**
 * Calls `use` with a table of the ids of the drops that were sealed after another one; `undefined` if there are none. Rows
 * that vanish from one date may be among theirs, because the source has given them another date: such rows are no loss, and
 * are not kept beside their new place.
 * @param since ISO instant: what was sealed before cannot have the rows, because they were still of this date
 * @param path local; names of the copies begin with it, which are removed afterwards
 * @throws StoreFault
 */
export async function withLaterDrops<Result>(
  { ledger, signal }: ExportRun,
  date: string,
  since: string,
  path: string,
  use: (ids: string | undefined) => Promise<Result>,
): Promise<Result> {
  const copies: string[] = [];
  const ids: string[] = [];
  // The source has no dates further apart.
  const [from, to] = [addDays(date, -LOOKBACK_DAYS), addDays(date, LOOKBACK_DAYS)];
  try {
    for (const other of await ledger.dates()) {
      if (other === date || other < from || other > to) continue;
      const manifest = await ledger.validManifest(other);
      if (manifest === undefined || manifest.rows === 0 || manifest.sealed_at < since) continue;
      if (!manifest.schema.some(({ name }) => name === 'id')) continue;
      const copy = `${path}.${other}`;
      copies.push(copy);
      const isThere = await ledger.fetchFile(other, manifest.files[0], copy, signal);
      if (isThere) ids.push(`SELECT id FROM ${parquetFile(copy)}`);
    }
    return await use(ids.length === 0 ? undefined : `(${ids.join(' UNION ALL ')})`);
  } finally {
    for (const copy of copies) await rm(copy, { force: true });
  }
}
