/**
 * What delivery brings to this machine for a report, and hands to it: earlier summaries, market structure, the datasets of
 * a digest, links, attachments. On a real engine; what the report makes of it is tested in `test/report`.
 */

import { existsSync } from 'node:fs';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hashFile } from '../../src/core/atomic-file.ts';
import { discardContent, fetchParts } from '../../src/deliver/report-files.ts';
import { dropKey, recordsPrefix } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { CHAIN_COLUMNS } from '../../src/report/query/exposure-sql.ts';
import type { Run } from '../../src/run/run.ts';
import { createReportJob, type DeliveryBench, openDeliveryBench } from './bench.ts';
import { sealDay } from './sealed-day.ts';

const DATES = ['2026-11-11', '2026-11-12', '2026-11-13', '2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19'];
const TODAY = '2026-11-18';
const DEGRADED = '2026-11-13';

let bench: DeliveryBench;
let manifest: Manifest;
const warned: Record<string, unknown>[] = [];
const log = pino({ level: 'warn' }, { write: (line: string) => void warned.push(JSON.parse(line)) });

const context = (): Run => ({ ...bench.context(), log });

async function fetch(lines = ''): ReturnType<typeof fetchParts> {
  const job = createReportJob(lines);
  const [report] = job.reports;
  if (report === undefined) throw new Error('the job has no report');
  return await fetchParts(context(), job, report, manifest);
}

describe('a report', () => {
  beforeAll(async () => {
    bench = await openDeliveryBench();
    for (const date of DATES) {
      const condition = date === DEGRADED ? 'degraded' : 'available';
      const sealed = await sealDay(bench.engine, bench.store, { date, condition });
      if (date === TODAY) manifest = sealed;
    }
    await sealDay(bench.engine, bench.store, { date: TODAY, dataset: 'structure' });
  });
  afterAll(async () => {
    await bench.close();
  });
  beforeEach(async () => {
    await discardContent(context());
    warned.length = 0;
  });

  it('gets its drop, and the summaries of the sessions before it, newest first', async () => {
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
    const rows = await bench.engine.rows(
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
    const other = await sealDay(bench.engine, bench.store, { date: TODAY, dataset: 'option-chain' });
    expect(await fetch()).toMatchObject([{ chain: null }]);
    await sealDay(bench.engine, bench.store, {
      date: TODAY,
      dataset: 'option-chain',
      columns: CHAIN_COLUMNS,
      supersedes: other,
    });
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
    await bench.store.put(`${recordsPrefix('trades', '2026-11-17')}summary.parquet`, {
      bytes: Buffer.from('no parquet'),
    });
    const [part] = await fetch();
    if (part === undefined || 'pending' in part) throw new Error('the part is sealed');
    expect(part.before.map(({ date }) => date)).toEqual(['2026-11-16', '2026-11-13', '2026-11-12', '2026-11-11']);
    expect(warned).toMatchObject([{ event: 'comparison-left-out', date: '2026-11-17' }]);
  });

  it('does not go without its own drop, or one of a digest', async () => {
    await bench.store.put(dropKey('structure', TODAY), { bytes: Buffer.from('no parquet') });
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
