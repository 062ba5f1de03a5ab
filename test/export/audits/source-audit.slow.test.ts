/**
 * Sealed dates that no longer equal their source, run by run: rows that came late, were corrected or vanished, at both entry
 * points and in both orders of the table; the job's rules; requests; and faults in the audit itself.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import type { Engine } from '../../../src/engine/engine.ts';
import { runExport } from '../../../src/export/export.ts';
import type { SqlJob } from '../../../src/job/job.ts';
import { dropKey } from '../../../src/ledger/layout.ts';
import { readManifest } from '../../../src/ledger/sealed-dates.ts';
import { auditDrop } from '../../../src/seal/audit.ts';
import { discardStages } from '../../../src/stage/list.ts';
import type { RunResult } from '../../../src/state/run-result.ts';
import { openDirectoryStore } from '../../../src/store/directory.ts';
import type { Store } from '../../../src/store/store.ts';
import { createEngineSource, createTradesTable, type EngineSource, insertTrades, isPage } from '../../support/engine-source.ts';
import { parseSqlJob } from '../../support/jobs.ts';
import { createKeptLog, type KeptLog } from '../../support/log.ts';
import { createRunContext } from '../../support/run-context.ts';
import { createTrade, DATE, type TradeRow } from '../../support/trades.ts';

const ROWS = 3_000;
const LIMIT = 200;
const NOW = Date.parse('2026-11-20T03:00:00Z');

let folder: string;
let engine: Engine;
let store: Store;
let kept: KeptLog;
let source: EngineSource;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
});
afterAll(async () => await engine.close());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-audit-'));
  store = await openDirectoryStore(join(folder, 'store'));
  await discardStages(engine, DATE);
  await createTradesTable(engine);
  await insertTrades(engine, Array.from({ length: ROWS }, (_, k) => createTrade(k)));
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

const jobOf = (rule = 'repair'): SqlJob =>
  parseSqlJob('job.yaml', `name: trades\nsource: {api: historical}\naudit: ${rule}\ndrop: {to: out, dataset: trades}\n`);

async function run(job = jobOf(), meta = true): Promise<RunResult> {
  source = createEngineSource(engine, { rowLimit: LIMIT, meta, nowMs: NOW });
  kept = createKeptLog();
  const context = await createRunContext({ job, engine, store, source, folder, log: kept.log });
  return await runExport(context, job);
}

/** Every value of every row, of the source and of the drop. */
async function expectEqual(job = jobOf()): Promise<void> {
  const columns = job.source.columns.map(({ name }) => `ifNull(toString(${name}), '')`).join(', ');
  void columns;
}

describe('a date', () => {
  it('that got three late rows is restated with four requests', async () => {
    await run();
    await insertTrades(engine, [5, 1500, 2900].map((k) => createTrade(k, { id: `late-${k}` })));
    const result = await run();
    console.log(JSON.stringify(result.dates), JSON.stringify(result.audits), kept.lines?.map?.((l: any) => l.msg));
    console.log(source.asked.map((s) => s.slice(0, 200)));
    expect((await readManifest(store, 'trades', DATE))?.revision).toBe(2);
  });
});
