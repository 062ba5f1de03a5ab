/**
 * Exports one date of a snapshot job: fetch every symbol, seal. Invariant: a date is sealed only when each symbol was
 * answered, with rows or with the API's answer that there are none. Snapshots have no recount: the drop has what the
 * answers had.
 */
import { formatWallClock } from '../../calendar/wall-clock.ts';
import { computeLookback } from '../../plan/dates.ts';
import type { OpenedSource, SnapshotJob } from '../../run/open-source.ts';
import type { ExportRun } from '../../run/run.ts';
import { openStage } from '../../stage/stage.ts';
import { believedNow, explainHold } from '../clocks.ts';
import { draftStaged } from '../draft-file.ts';
import type { PlannedDate } from '../export-plan.ts';
import type { ExportedDate, HeldBack } from '../exported.ts';
import { hurrySnapshots } from '../priority.ts';
import { sealDate } from '../seal-date.ts';
import { fetchSnapshots } from './snapshots.ts';

type Opened = Extract<OpenedSource, { kind: 'snapshots' }>;

/** Snapshots have no row limit. */
const NO_ROW_LIMIT = 0;
const NO_CONTRACTS = 'NO_CONTRACTS';

/** @throws Fault */
export async function exportSnapshots(
  run: ExportRun,
  { source: calm, job }: Opened,
  { date, pages, expiresAtMs }: PlannedDate,
  restate: boolean,
): Promise<ExportedDate | HeldBack> {
  const { engine, onEvent, state, limits, log, signal } = run;
  const source = hurrySnapshots(calm, expiresAtMs);
  const requestsBefore = source.stats.requests;
  const startedAtMs = believedNow(run);
  const stage = await openStage(engine, job, date, source.url);
  const before = await stage.totals();
  onEvent({ kind: 'date', date, rows: undefined, staged: before.rows, pages });
  const fetched = await fetchSnapshots({ source, limits, log, onEvent, signal }, job.source.symbols, stage);
  const { rows, ids } = await stage.totals();
  const { rows: bad, ids: badIds } = await stage.quarantine();
  // As the source would count them.
  const counted = { rows: rows + bad, ids: ids + badIds };
  const empty = fetched.empty.map((window) => ({ window, reason: NO_CONTRACTS }));
  const missing = [...fetched.missing, ...empty];
  if (counted.rows === 0) return { published: undefined, missing };
  // The API's retention of snapshots is unknown: an answer proves that the date is available.
  const held = explainHold(run, job, date, { isForgetting: false });
  if (held !== undefined) return { held };
  onEvent({ kind: 'phase', date, phase: 'sealing' });
  const published = await sealDate(run, job, stage, {
    file: draftStaged(run.engine, job, stage, state.drop(date)),
    query: describeRequest(job, date),
    // A chain without contracts is a valid answer; an unknown symbol is a gap.
    ...(fetched.missing.length === 0 ? {} : { degradedReason: describeMissing(fetched.missing) }),
    missing,
    lookbackEdge: formatWallClock(computeLookback(source.serverNow()).edgeMs),
    counted,
    requests: source.stats.requests - requestsBefore,
    startedAtMs,
    sealedAtMs: believedNow(run),
    restate,
    rowLimit: NO_ROW_LIMIT,
  });
  return { published, missing };
}

/** Takes the place of the SQL of other drops. */
function describeRequest({ source }: SnapshotJob, date: string): string {
  return `${source.api} of ${source.symbols.join(', ')} on ${date}`;
}

function describeMissing(missing: readonly { readonly window: string; readonly reason: string }[]): string {
  return `the API has no snapshot of ${missing.map(({ window, reason }) => `${window} (${reason})`).join(', ')}`;
}
