/** From a complete stage to a sealed drop: typed file, footer, read back, published, stage discarded. */

import { createHash } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { formatWallClock } from '../calendar/wall-clock.ts';
import { formatWindow, wholeDay } from '../calendar/window.ts';
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import type { Job } from '../job/job.ts';
import type { CountTotals } from '../plan/counts.ts';
import { computeLookback } from '../plan/dates.ts';
import { buildPage } from '../plan/statement.ts';
import { type DropColumn, listDropColumns } from '../seal/columns.ts';
import { writeFooter } from '../seal/footer.ts';
import { MANIFEST_VERSION, type Manifest } from '../seal/manifest.ts';
import { COMPRESSION, writeParquet } from '../seal/parquet.ts';
import { type PublishResult, publishDrop } from '../seal/publish.ts';
import { verifyParquet } from '../seal/verify.ts';
import type { Source } from '../source/source.ts';
import type { Stage } from '../stage/stage.ts';
import type { Store } from '../store/store.ts';

export interface SealDeps {
  readonly engine: Engine;
  readonly store: Store;
  readonly source: Source;
  readonly version: string;
  readonly signal?: AbortSignal | undefined;
}

export interface SealInput {
  readonly path: string;
  readonly counted: CountTotals;
  readonly requests: number;
  readonly startedAtMs: number;
  readonly sealedAtMs: number;
  readonly rowLimit: number;
}

/** @throws Fault `SEAL_UNVERIFIED`, StoreFault, EngineFault; the stage is kept then */
export async function sealDate(deps: SealDeps, job: Job, stage: Stage, input: SealInput): Promise<PublishResult> {
  const { engine, store } = deps;
  const columns = listDropColumns(job.source.columns, await stage.extraFields());
  const totals = await stage.totals();
  const windows = await stage.windows();
  await mkdir(dirname(input.path), { recursive: true });
  const expected = await writeParquet(
    engine,
    job,
    { table: stage.table, duplicates: totals.rows - totals.ids },
    columns,
    input.path,
  );
  const query = buildPage(job, wholeDay(stage.date));
  await writeFooter(input.path, {
    columns,
    sort: job.drop.sort,
    keyValues: {
      'flowdrop.job': job.name,
      'flowdrop.dataset': job.drop.dataset,
      'flowdrop.date': stage.date,
      'flowdrop.query': query,
    },
  });
  const file = await verifyParquet(engine, input.path, columns, expected);
  assertCounted(job, stage.date, file.rows, totals.rows - totals.ids, input.counted);
  const range = await readTimeRange(engine, input.path, columns);
  const manifest: Omit<Manifest, 'files'> = {
    manifest_version: MANIFEST_VERSION,
    job_id: job.name,
    dataset: job.drop.dataset,
    date: stage.date,
    revision: 1,
    condition: 'available',
    rows: file.rows,
    source_rows: input.counted.rows,
    duplicates: totals.rows - totals.ids,
    ...range,
    schema: [...file.schema],
    schema_hash: `sha256:${createHash('sha256').update(JSON.stringify(file.schema)).digest('hex')}`,
    extra_columns: columns.slice(job.source.columns.length).map((column) => column.name),
    sort: [...job.drop.sort],
    compression: COMPRESSION,
    row_groups: file.rowGroups,
    query: { sql: query, entry_point: job.source.api, url: deps.source.url },
    windows: windows
      .map(({ window, rows }) => ({ window: formatWindow(window), rows }))
      .sort((a, b) => (a.window < b.window ? -1 : 1)),
    requests: input.requests,
    started_at: new Date(input.startedAtMs).toISOString(),
    sealed_at: new Date(input.sealedAtMs).toISOString(),
    lookback_edge: formatWallClock(computeLookback(deps.source.serverNow()).edgeMs),
    row_limit: input.rowLimit,
    flowdrop_version: deps.version,
    supersedes: null,
  };
  const published = await publishDrop(store, input.path, manifest, deps.signal);
  await stage.discard();
  if (!published.won) await rm(input.path, { force: true });
  return published;
}

/** The last line of defence: what is published is what the source counted, but for repeated ids, and never an empty day. */
function assertCounted(job: Job, date: string, rows: number, duplicates: number, counted: CountTotals): void {
  const missing = job.source.kind === 'rows' ? counted.ids - rows : 0;
  if (rows > 0 && missing >= 0 && missing <= duplicates) return;
  throw new Fault('SEAL_INCOMPLETE', `${date}: the file has ${rows} rows, the source counted ${counted.ids}`, {
    hint: 'Nothing was published; the staged rows are kept. Run again.',
  });
}

async function readTimeRange(engine: Engine, path: string, columns: readonly DropColumn[]) {
  const time = columns.find((column) => column.type === 'wall');
  if (!time) return { min_time: null, max_time: null };
  const name = quoteIdentifier(time.name);
  const [range] = await engine.rows<{ n: number; first: string; last: string }>(
    `SELECT count() AS n, substring(toString(min(${name})), 1, 19) AS first, substring(toString(max(${name})), 1, 19) AS last FROM file(${quoteString(path)}, Parquet)`,
  );
  return range && Number(range.n) > 0
    ? { min_time: range.first, max_time: range.last }
    : { min_time: null, max_time: null };
}
