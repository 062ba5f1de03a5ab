/**
 * What delivery brings to this machine for a report, and hands to it: earlier summaries, market structure, the datasets of
 * a digest, links, attachments. On a real engine and both stores; what the report makes of it is tested in `test/report`.
 */

import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashFile } from '../../src/core/atomic-file.ts';
import { discardContent, fetchParts } from '../../src/deliver/dated-report.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { dropKey, recordsPrefix } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { CHAIN_COLUMNS } from '../../src/report/query/exposure-sql.ts';
import type { Run } from '../../src/run/run.ts';
import { openJobState } from '../../src/state/job-state.ts';
import { RunHistory } from '../../src/state/run-history.ts';
import type { Store } from '../../src/store/store.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { STORES } from '../support/stores.ts';
import { createReportJob } from './bench.ts';
import { sealDay } from './sealed-day.ts';

const DATES = ['2026-11-11', '2026-11-12', '2026-11-13', '2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19'];
const TODAY = '2026-11-18';
const DEGRADED = '2026-11-13';

let folder: string;
let engine: Engine;
let store: Store;
let manifest: Manifest;
const warned: Record<string, unknown>[] = [];
const log = pino({ level: 'warn' }, { write: (line: string) => void warned.push(JSON.parse(line)) });

const context = (): Run => ({
  ...{
    runId: 'run-1',
    engine,
    ledger: new Ledger(store, 'trades'),
    log,
    clock: createFakeClock(),
    mailFrom: 'flow@example.com',
    redact: (text: string) => text,
    onEvent: () => undefined,
  },
  ...{
    state: openJobState(folder, 'nightly'),
    history: new RunHistory(folder, 'nightly'),
    templatesDir: '',
    publicUrl: undefined,
    version: '1',
  },
  mailer: {
    url: '',
    send: () => Promise.reject(new RangeError('nobody is mailed')),
    verify: async () => '',
    close: async () => {},
  },
});

async function fetch(lines = ''): ReturnType<typeof fetchParts> {
  const job = createReportJob(lines);
  const [report] = job.reports;
  if (report === undefined) throw new Error('the job has no report');
  return await fetchParts(context(), job, report, manifest);
}

// Skipped only where no S3 server can be had, which `support/s3-server.ts` says aloud; CI never skips it.
describe.each(STORES)('from $name', ({ isMissing, open }) => {
  describe.skipIf(isMissing)('a report', () => {
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'flowdrop-report-content-'));
      engine = await openEmbeddedEngine();
      store = await open(folder);
      for (const date of DATES) {
        const condition = date === DEGRADED ? 'degraded' : 'available';
        const sealed = await sealDay(engine, store, { date, condition });
        if (date === TODAY) manifest = sealed;
      }
      await sealDay(engine, store, { date: TODAY, dataset: 'structure' });
    });
    afterAll(async () => {
      await store.close();
      await engine.close();
      await rm(folder, { recursive: true, force: true });
    });
    beforeEach(async () => {
      await discardContent(context());
      warned.length = 0;
    });

    it('gets its drop, and the summaries of the five sessions before it, newest first', async () => {
      const [part] = await fetch();
      if (part === undefined || 'pending' in part) throw new Error('the part is sealed');
      expect(`sha256:${await hashFile(part.drop.path)}`).toBe(manifest.files[0].hash);
      expect(part.before.map(({ date }) => date)).toEqual([
        '2026-11-17',
        '2026-11-16',
        '2026-11-13',
        '2026-11-12',
        '2026-11-11',
      ]);
      expect(part.before.filter(({ isDegraded }) => isDegraded).map(({ date }) => date)).toEqual([DEGRADED]);
      const rows = await engine.rows(
        `SELECT total_premium FROM file('${part.before[0]?.path}', Parquet) WHERE symbol = '' AND segment = ''`,
      );
      expect(rows).toEqual([{ total_premium: 2050 }]);
      expect(part.marketStructure).toBeNull();
      expect(warned).toEqual([]);
    });

    it('gets the market structure of its date, and none where there is none', async () => {
      const [sealed] = await fetch('market_structure: structure');
      expect(sealed).toMatchObject({ marketStructure: { path: expect.stringContaining('structure') } });
      warned.length = 0;
      const [missing] = await fetch('market_structure: elsewhere');
      expect(missing).toMatchObject({ marketStructure: null });
      expect(warned).toMatchObject([{ event: 'comparison-left-out', dataset: 'elsewhere', date: TODAY }]);
      warned.length = 0;
    });

    it('gets the chain of its date by itself, by another name, or not at all', async () => {
      expect(await fetch()).toMatchObject([{ chain: null }]);
      expect(warned).toEqual([]);
      // A dataset that has the default name and is no chain is left alone.
      const other = await sealDay(engine, store, { date: TODAY, dataset: 'option-chain' });
      expect(await fetch()).toMatchObject([{ chain: null }]);
      await sealDay(engine, store, { date: TODAY, dataset: 'option-chain', columns: CHAIN_COLUMNS, supersedes: other });
      const location = expect.stringMatching(/option-chain\/session=2026-11-18\/option-chain\.parquet$/);
      expect(await fetch()).toMatchObject([{ chain: { location } }]);
      expect(await fetch('chain: off')).toMatchObject([{ chain: null }]);
      expect(await fetch('chain: elsewhere')).toMatchObject([{ chain: null }]);
      expect(warned).toMatchObject([{ event: 'comparison-left-out', dataset: 'elsewhere', date: TODAY }]);
      warned.length = 0;
    });

    it('has the datasets of a digest in the order written, pending where they are not sealed', async () => {
      const parts = await fetch('template: digest\ndatasets: [structure, index, trades]');
      expect(parts.map((part) => [part.title, 'pending' in part ? part.pending : part.drop.dataset])).toEqual([
        ['structure', 'structure'],
        ['index', TODAY],
        ['trades', 'trades'],
      ]);
    });

    it('goes without a session whose summary is damaged, and says so', async () => {
      await store.put(`${recordsPrefix('trades', '2026-11-17')}summary.parquet`, {
        bytes: Buffer.from('no parquet'),
      });
      const [part] = await fetch();
      if (part === undefined || 'pending' in part) throw new Error('the part is sealed');
      expect(part.before.map(({ date }) => date)).toEqual(['2026-11-16', '2026-11-13', '2026-11-12', '2026-11-11']);
      expect(warned).toMatchObject([{ event: 'comparison-left-out', date: '2026-11-17' }]);
    });

    it('does not go without its own drop, or one of a digest', async () => {
      await store.put(dropKey('structure', TODAY), { bytes: Buffer.from('no parquet') });
      await expect(fetch('template: digest\ndatasets: [structure, trades]')).rejects.toMatchObject({
        code: 'DROP_DAMAGED',
      });
    });

    it('leaves nothing behind but its own drop', async () => {
      const [part] = await fetch();
      if (part === undefined || 'pending' in part) throw new Error('the part is sealed');
      await discardContent(context());
      expect(existsSync(part.drop.path)).toBe(true);
      for (const { path } of part.before) expect(existsSync(path)).toBe(false);
    });
  });
});
