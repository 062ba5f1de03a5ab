/** Sealed dates for the archive's tests: staged, written, completed, verified and published as a run does it. */

import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine } from '../../src/engine/engine.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { hashSchema, type Manifest, type ManifestDraft } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { listDropColumns, verifyParquet, writeParquet } from '../../src/seal/write-parquet.ts';
import { openStage } from '../../src/stage/stage.ts';
import type { Store } from '../../src/store/store.ts';
import { createDraft } from '../support/manifest.ts';
import { createJob, createPage, createTrade, type TradeRow, windowAt } from '../support/trades.ts';

const job = createJob();
const PAGE_ROWS = 10_000;

export interface Day {
  readonly date: string;
  readonly rows: number;
  readonly condition?: Manifest['condition'];
  /** Changes of row `k`. */
  readonly change?: (k: number) => TradeRow;
}

/** A file that may be published, as often as a test likes. */
export interface BuiltDay {
  readonly path: string;
  readonly draft: ManifestDraft;
}

/** @param supersedes the revision to replace; default: none @returns the manifest as published */
export async function publishDay(engine: Engine, store: Store, day: Day, supersedes?: Manifest): Promise<Manifest> {
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-day-'));
  try {
    return await publishBuilt(store, await buildDay(engine, day, folder), supersedes);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export async function publishBuilt(store: Store, { path, draft }: BuiltDay, supersedes?: Manifest): Promise<Manifest> {
  const { manifest, won } = await publishDrop(
    new Ledger(store, draft.dataset),
    { drop: path, summary: undefined },
    draft,
    { supersedes },
  );
  if (!won) throw new Error(`${draft.date} was not published`);
  return manifest;
}

/** @param folder keeps the file */
export async function buildDay(engine: Engine, day: Day, folder: string): Promise<BuiltDay> {
  const { date, rows: count, condition = 'available', change = () => ({}) } = day;
  const stage = await openStage(engine, job, date, '');
  try {
    let [min, max] = ['9999', ''];
    for (let from = 0; from < count; from += PAGE_ROWS) {
      const rows = Array.from({ length: Math.min(PAGE_ROWS, count - from) }, (_, i) => {
        const trade = createTrade(from + i);
        const time = `${date}${String(trade['time']).slice(10)}`;
        const row = { ...trade, id: `${date}-${trade['id']}`, date, time, ...change(from + i) };
        if (row.time < min) min = row.time;
        if (row.time > max) max = row.time;
        return row;
      });
      await stage.put({ ...windowAt(from / PAGE_ROWS), date }, createPage(rows));
    }
    const columns = listDropColumns(job.source.columns, await stage.extraFields());
    const path = join(folder, `${randomUUID()}.parquet`);
    const sum = await writeParquet(engine, job, { table: stage.table, duplicates: 0 }, columns, path);
    const fieldIds = new Map(columns.map(({ name }, at) => [name, at + 1]));
    await writeFooter(path, { columns, fieldIds, sort: job.drop.sort, keyValues: {} });
    const { rows, row_groups, schema } = await verifyParquet(engine, path, columns, sum);
    const draft = createDraft({
      ...{ date, condition, rows, source_rows: rows, min_time: min, max_time: max, row_groups },
      ...{ schema, schema_hash: hashSchema(schema), sort: [...job.drop.sort] },
    });
    return { path, draft };
  } finally {
    await stage.discard();
  }
}
