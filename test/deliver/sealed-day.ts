/** Sealed dates for the tests of delivery: a few trades as a drop with its summary, published as a run does it. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine } from '../../src/engine/engine.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { writeSummary } from '../../src/seal/summary.ts';
import type { Store } from '../../src/store/store.ts';
import { createTrade, type Trade, writeDrop } from '../report/drop-file.ts';
import { createDraft } from '../support/manifest.ts';

export interface SealedDay {
  readonly date: string;
  readonly dataset?: string;
  /** Default: one call of $1,250 and one put of $800, both of SPY. */
  readonly trades?: readonly Partial<Trade>[];
  readonly supersedes?: Manifest;
  readonly condition?: Manifest['condition'];
  /** Columns as the manifest has them, whatever the file has. */
  readonly columns?: readonly string[];
}

const PUT: Partial<Trade> = { id: '2', put_call: 'PUT', premium: 800, sentiment: 'BEARISH', strike: 590 };

/** @returns the manifest as published */
export async function sealDay(engine: Engine, store: Store, day: SealedDay): Promise<Manifest> {
  const { date, dataset = 'trades', trades = [{}, PUT], supersedes, condition = 'available', columns } = day;
  const folder = await mkdtemp(join(tmpdir(), 'flowdrop-sealed-day-'));
  try {
    const rows = trades.map((changes) => createTrade({ date, time: `${date} 09:30:02`, ...changes }));
    const { path, min_time, max_time } = await writeDrop(engine, folder, dataset, rows);
    const summary = join(folder, 'summary.parquet');
    await writeSummary(engine, { path, date }, summary);
    const draft = createDraft({
      ...{ job_id: dataset, dataset, date, rows: rows.length, source_rows: rows.length, min_time, max_time },
      ...{ summary: 'summary.parquet', condition },
      ...(columns && {
        schema: columns.map((name, at) => ({ name, type: 'double', nullable: true, field_id: at + 1 })),
      }),
    });
    const published = await publishDrop(new Ledger(store, draft.dataset), { drop: path, summary }, draft, {
      supersedes,
    });
    return published.manifest;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
