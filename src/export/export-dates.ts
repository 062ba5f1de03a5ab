/**
 * The planned dates of a run, each exported by itself. Invariant: one that fails does not stop the others, unless its error
 * means that they fail too: a wrong query or key, an interruption, a store that has changed, an API that is down.
 */

import { rm } from 'node:fs/promises';
import { assertNotAborted, describeError, type Fault, isFault } from '../core/errors.ts';
import type { Finished } from '../ledger/finish.ts';
import { listDoubts } from '../ledger/manifest.ts';
import type { ExportRun } from '../run/run.ts';
import { API_DOWN_CODES } from '../source/source.ts';
import type { DateResult } from '../state/run-result.ts';
import { attempt } from '../store/identity.ts';
import type { DateSource, DateWork, ExportPlan, NoRows, PlannedDate, Waiting } from './date-source.ts';
import type { SealResult } from './restate.ts';
import { beginDate, sealRows } from './seal-rows.ts';

/**
 * The planned dates, one after the other.
 * @param finished its failures of other dates are among the results @param sealed dates that are restated
 */
export async function exportPlanned(
  run: ExportRun,
  dates: DateSource,
  plan: ExportPlan,
  finished: Finished,
  sealed: ReadonlySet<string>,
) {
  const planned = new Set(plan.dates.map(({ date }) => date));
  const unfinished = finished.failed.filter(({ date }) => !planned.has(date));
  const results = unfinished.map(({ date, error }) => describeFailed(run, date, error));
  const held = [...plan.held];
  const open = new Map(plan.open);
  for (const one of plan.dates) {
    // Limits found while exporting are kept even when the date fails.
    const result = await runDate(run, dates, one, sealed.has(one.date)).finally(() => saveLimits(run));
    if ('settlesAtMs' in result) open.set(one.date, result.settlesAtMs);
    else if ('held' in result) held.push({ date: one.date, reason: result.held });
    else results.push(result);
    // Every window has used up its retries: the other dates would wait for the same API.
    if ('error' in result && result.error !== undefined && API_DOWN_CODES.has(result.error.code)) break;
  }
  await discardOldFiles(run, results);
  return { results, held, open };
}

async function runDate(
  run: ExportRun,
  dates: DateSource,
  planned: PlannedDate,
  restate: boolean,
): Promise<DateResult | Waiting> {
  const { source, log, onEvent, redact } = run;
  const { date } = planned;
  const requestsBefore = source.stats.requests;
  const seal = async () => {
    assertNotAborted(run.signal);
    const sealed = await sealDate(run, dates, planned, restate);
    if ('held' in sealed || 'settlesAtMs' in sealed) return sealed;
    const requests = source.stats.requests - requestsBefore;
    if ('manifest' in sealed) return describeSealedDate(run, sealed, requests);
    return { date, status: 'missing' as const, rows: 0, requests, ...listMissing(sealed.missing) };
  };
  return await attempt<DateResult | Waiting>(seal, (error) => {
    // A wrong query or key fails every date.
    if (error.kind === 'usage') throw error;
    const { code, message: reason } = error;
    log.error({ event: 'date-failed', date, code, reason }, `${date} failed: ${reason}`);
    onEvent({ kind: 'failed', date, reason: redact(reason) });
    return { ...describeFailed(run, date, error), requests: source.stats.requests - requestsBefore };
  });
}

/** Exports one date. @throws Fault when it cannot be sealed; staged rows are kept */
export async function sealDate(
  run: ExportRun,
  dates: DateSource,
  planned: PlannedDate,
  restate: boolean,
): Promise<SealResult | NoRows | Waiting> {
  const begun = beginDate(run);
  const work = await dates.open(run, planned, restate);
  if (!('fetch' in work)) return work;
  const { stage, file } = work;
  try {
    const proved = await settle(work);
    if (!('query' in proved)) return proved;
    run.onEvent({ kind: 'phase', date: planned.date, phase: 'sealing' });
    const sealed = await sealRows(run, stage, { begun, file, restate, ...proved });
    await work.noteSealed?.();
    return sealed;
  } finally {
    await file.discard();
  }
}

/** The record of a sealed date, after its event. */
export function describeSealedDate(
  { onEvent }: ExportRun,
  { manifest, status, changes }: SealResult,
  requests: number,
): DateResult {
  const { date, rows, revision, degraded_reason, missing = [] } = manifest;
  const [{ size }] = manifest.files;
  onEvent({ kind: 'sealed', date, rows, sizeBytes: size, requests });
  const found = listDoubts(manifest);
  const doubts = status === 'sealed' && found.length > 0 ? [...found] : undefined;
  return { date, status, rows, requests, size, revision, changes, degraded_reason, doubts, ...listMissing(missing) };
}

/** What the source did not have, where that was anything. */
function listMissing(missing: NoRows['missing']): Pick<DateResult, 'missing'> {
  return missing.length > 0 ? { missing } : {};
}

/** Secrets are masked: an answer may repeat the key. */
export function describeFailed({ redact }: Pick<ExportRun, 'redact'>, date: string, error: Fault): DateResult {
  const { code, hint } = error;
  const described = { code, message: redact(describeError(error)), ...(hint ? { hint: redact(hint) } : {}) };
  return { date, status: 'failed', rows: 0, requests: 0, error: described };
}

/** The newest drop's local file is kept for the report; the others are in the store. */
export async function discardOldFiles(run: ExportRun, results: readonly DateResult[]): Promise<void> {
  const done = results.filter(({ status }) => status !== 'failed' && status !== 'missing').map(({ date }) => date);
  for (const date of done.sort().slice(0, -1)) await rm(run.state.drop(date), { force: true });
}

/** For the next run of any job with the same query. */
export async function saveLimits({ limits, source, clocks }: ExportRun): Promise<void> {
  // When clocks differ, nobody knows which is wrong: the next run starts with its own clock.
  limits.clockOffsetMs = clocks.conflict() === undefined ? source.serverNow() - clocks.ownNow() : 0;
  limits.answerMs = source.stats.answerMs || limits.answerMs;
  await limits.save();
}

/** A source whose counts still move after this many rounds is not settled: the date stays pending. */
const MAX_ROUNDS = 4;

/**
 * @throws Fault of the work when what it fetches never agrees with what the source counts. When too many rows are bad, their
 *   pages are dropped: the next run fetches them again, because the provider may have corrected them.
 */
export async function settle<Proof>(work: DateWork<Proof>): Promise<Proof> {
  try {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      await work.fetch();
      const proof = await work.prove();
      if (proof !== undefined) return proof;
    }
  } catch (error) {
    if (isFault(error) && error.code === 'BAD_ROWS') await work.stage.forgetBad();
    throw error;
  }
  throw work.explainUnsettled();
}
