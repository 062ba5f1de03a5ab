/**
 * A whole run in one process, over a real engine that is source and stage, on both stores: what it does with what
 * earlier workers left behind. Runs as users start them are in `test/flow`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { runExport } from '../../src/export/export.ts';
import { sealDegraded } from '../../src/export/run-job.ts';
import { conditionKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import type { SqlRun } from '../../src/run/run.ts';
import { openStage } from '../../src/stage/stage.ts';
import { discardStages, listStages } from '../../src/stage/stage-table.ts';
import type { Store } from '../../src/store/store.ts';
import { createEngineSource, createTradesTable, type EngineSource, insertTrades } from '../support/engine-source.ts';
import { Died, dieAt, faultStore } from '../support/fault-store.ts';
import { createDraft } from '../support/manifest.ts';
import { createRun } from '../support/run.ts';
import { listKeys, readText } from '../support/store-keys.ts';
import { STORES } from '../support/stores.ts';
import { createJob, createPage, createTrade, DATE, windowAt } from '../support/trades.ts';

const ROWS = 300;
const NOW = Date.parse('2026-11-20T03:00:00Z');
/** A session that has left the lookback. */
const EXPIRED = '2026-11-03';
const job = createJob();

let folder: string;
let engine: Engine;
let store: Store;
let source: EngineSource;

beforeAll(async () => {
  engine = await openEmbeddedEngine();
  await createTradesTable(engine);
  await insertTrades(
    engine,
    Array.from({ length: ROWS }, (_, k) => createTrade(k)),
  );
});
afterAll(async () => await engine.close());

async function createContext(): Promise<SqlRun> {
  source = createEngineSource(engine, { rowLimit: 200, meta: true, nowMs: NOW });
  return await createRun({ job, engine, store, source, folder });
}

const conditions = async () =>
  Object.fromEntries(
    (JSON.parse((await readText(store, conditionKey('trades'))) ?? '[]') as readonly Record<string, string>[]).map(
      ({ date, condition }) => [date, condition],
    ),
  );

// Skipped only where no S3 server can be had, which `support/s3-server.ts` says aloud; CI never skips it.
describe.each(STORES)('in $name', ({ isMissing, open }) => {
  describe.skipIf(isMissing)('a run', () => {
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'flowdrop-run-run-'));
      store = await open(folder);
      for (const date of [DATE, EXPIRED]) await discardStages(engine, date);
    });
    afterEach(async () => {
      await store.close();
      await rm(folder, { recursive: true, force: true });
    });

    it('seals what is there, and says revision and conditions', async () => {
      const { result } = await runExport(await createContext());
      expect(result.dates).toEqual([
        expect.objectContaining({ date: DATE, status: 'sealed', revision: 1, rows: ROWS }),
      ]);
      expect((await conditions())[DATE]).toBe('available');
      expect(result.conditions).toEqual(await conditions());
    });

    it('finishes what a worker that died had decided, without asking for its rows again', async () => {
      const path = join(folder, 'theirs');
      await writeFile(path, 'their bytes');
      await expect(
        publishDrop(new Ledger(faultStore(store, dieAt(/^copy /)), 'trades'), { drop: path }, createDraft()),
      ).rejects.toThrow(Died);
      expect(await new Ledger(store, 'trades').manifest(DATE)).toBeUndefined();
      const { result } = await runExport(await createContext());
      expect(result.dates).toEqual([]);
      expect(await readText(store, `trades/session=${DATE}/trades.parquet`)).toBe('their bytes');
      expect(await listKeys(store, '_flowdrop/sealing/')).toEqual([]);
      expect(source.pages()).toEqual([]);
    });

    it('keeps what is staged of an expired date, until the operator has it sealed as degraded', async () => {
      const stage = await openStage(engine, job, EXPIRED, 'engine://trades');
      const rows = Array.from({ length: 5 }, (_, k) =>
        createTrade(k, { date: EXPIRED, time: `${EXPIRED} 10:00:0${k}` }),
      );
      await stage.put({ ...windowAt(0), date: EXPIRED }, createPage(rows));
      const context = await createContext();
      await runExport(context);
      expect(await listStages(engine)).toEqual([EXPIRED]);
      const { manifest } = await sealDegraded(context, EXPIRED);
      expect(manifest).toMatchObject({ date: EXPIRED, condition: 'degraded', rows: 5 });
      expect(await listStages(engine)).toEqual([]);
      const { result } = await runExport(context);
      expect(result.lost).not.toContain(EXPIRED);
      expect((await conditions())[EXPIRED]).toBe('degraded');
    });
  });
});
