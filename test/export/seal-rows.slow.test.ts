/**
 * A date from its stage to the store, on a real engine: what the manifest and the file say, checks and restatement.
 * Publishing itself is in `test/ledger/publish.slow.test.ts`, restatement by an audit in `audits/source-audit.slow.test.ts`.
 */
import { join } from 'node:path';
import { asyncBufferFromFile, parquetMetadataAsync } from 'hyparquet';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { SealResult } from '../../src/export/restate.ts';
import { sealDegraded } from '../../src/export/run-job.ts';
import { createDropFile, type SealableRows, sealRows } from '../../src/export/seal-rows.ts';
import { describeSent } from '../../src/export/trades/fetched-date.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { dropKey, fieldsPrefix } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { hashManifest } from '../../src/ledger/manifest.ts';
import { openStage, type Stage } from '../../src/stage/stage.ts';
import { discardStages, listStages } from '../../src/stage/stage-table.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createEngineSource } from '../support/engine-source.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createRun } from '../support/run.ts';
import { listKeys } from '../support/store-keys.ts';
import { createPage, createTrade, DATE, type TradeRow, windowAt } from '../support/trades.ts';

const NOW = Date.parse('2026-11-20T03:00:00Z');
/** The date has left the lookback. */
const LATER = NOW + 20 * 86_400_000;
const ROWS = 500;
/** A trade whose premium is price x size x 100, as the contract says. */
const trade = (k: number, changes: TradeRow = {}): TradeRow => {
  const row = createTrade(k);
  return { ...row, premium: Number(row['price']) * Number(row['size']) * 100, ...changes };
};
const DAY = Array.from({ length: ROWS }, (_, k) => trade(k));

const { folder: makeFolder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());
let folder: string;
let store: Store;
const ledger = () => new Ledger(store, 'trades');
const warned: Record<string, unknown>[] = [];
const log = pino({ level: 'warn' }, { write: (line: string) => void warned.push(JSON.parse(line)) });

beforeEach(async () => {
  folder = await makeFolder();
  store = await openDirectoryStore(join(folder, 'store'));
  warned.length = 0;
  await discardStages(engine, DATE);
});
afterEach(async () => await store.close());

function createJob(extra = ''): SqlJob {
  return parseSqlJob(
    'secret-folder/trades.yaml',
    `name: trades\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\nalerts: {to: [ops@example.com]}\n${extra}`,
  );
}

async function stageRows(job: SqlJob, rows: readonly TradeRow[]): Promise<Stage> {
  const stage = await openStage(engine, job, DATE, 'engine://trades');
  await stage.put(windowAt(0), createPage(rows));
  return stage;
}

async function seal(
  rows: readonly TradeRow[],
  changes: Partial<SealableRows> = {},
  job = createJob(),
): Promise<SealResult> {
  const source = createEngineSource(engine, { rowLimit: 10_000, meta: true, nowMs: NOW + 60_000 });
  const stage = await stageRows(job, rows);
  const ids = new Set(rows.map(({ id }) => id)).size;
  const run = { ...(await createRun({ job, engine, store, source, folder, log })), version: '1.2.3' };
  return await sealRows(run, stage, {
    ...describeSent(run, DATE),
    begun: { atMs: NOW, requests: source.stats.requests - 7 },
    file: createDropFile(run, stage),
    counted: { rows: rows.length, ids },
    ...changes,
  });
}

describe('a sealed date', () => {
  it('has a manifest that says what was made, of what, and signs itself', async () => {
    const { manifest, status } = await seal(DAY);
    expect(status).toBe('sealed');
    expect(manifest).toMatchObject({
      ...{ manifest_version: 3, revision: 1, condition: 'available', rows: ROWS, source_rows: ROWS, duplicates: 0 },
      ...{ supersedes: null, summary: 'summary.parquet', checks: [], requests: 7, flowdrop_version: '1.2.3' },
      ...{ min_time: `${DATE} 09:30:00`, max_time: `${DATE} 09:30:16`, sort: ['symbol', 'time', 'id'] },
    });
    expect(manifest).not.toHaveProperty('changes');
    expect(manifest.files.map(({ filename }) => filename)).toEqual(['trades.parquet', 'summary.parquet']);
    expect(await ledger().manifest(DATE)).toEqual(manifest);
    expect(manifest.manifest_hash).toBe(hashManifest(manifest));
    expect(await listStages(engine)).toEqual([]);
  });

  it('has the whole job in its metadata, but for this machine’s paths and people’s addresses', async () => {
    await seal(DAY, {}, createJob('checks: [{check: min-rows, rows: 1}]'));
    const path = join(folder, 'read.parquet');
    await store.download(dropKey('trades', DATE), path);
    const metadata = await parquetMetadataAsync(await asyncBufferFromFile(path));
    const pairs = new Map(metadata.key_value_metadata?.map(({ key, value }) => [key, value]));
    const kept = JSON.parse(pairs.get('flowdrop.job_definition') ?? '{}');
    expect(kept).toMatchObject({
      ...{ name: 'trades', drop: { dataset: 'trades', sort: ['symbol', 'time', 'id'] } },
      ...{ checks: [{ check: 'min-rows', rows: 1, onFailure: 'fail' }] },
    });
    expect(JSON.stringify([...pairs])).not.toMatch(/secret-folder|ops@example/);
  });

  it('is restated when its good rows are the same and other rows are bad', async () => {
    const job = createJob('rows: {max: 0.1}\n');
    const withBad = (count: number) => [
      ...DAY,
      ...Array.from({ length: count }, (_, k) => trade(ROWS + k, { oi: 0.5 })),
    ];
    const first = await seal(withBad(1), {}, job);
    expect(first.manifest.quarantine).toMatchObject({ rows: 1 });
    const second = await seal(withBad(3), { restate: true }, job);
    expect(second).toMatchObject({
      status: 'sealed',
      manifest: { revision: 2, rows: ROWS, quarantine: { rows: 3 } },
    });
    expect((await seal(withBad(3), { restate: true }, job)).status).toBe('unchanged');
  });

  it('that was degraded is restated by a complete export, also of the same rows', async () => {
    await seal(DAY, { degradedReason: 'half of it', counted: undefined });
    expect(await ledger().manifest(DATE)).toMatchObject({
      ...{ condition: 'degraded', degraded_reason: 'half of it', source_rows: null },
    });
    const second = await seal(DAY, { restate: true });
    expect(second.manifest).toMatchObject({ revision: 2, condition: 'available', changes: { added: 0, altered: 0 } });
    expect(second.manifest).not.toHaveProperty('degraded_reason');
  });

  it('is restated when a column was added, which is named', async () => {
    await seal(DAY);
    const second = await seal(
      DAY.map((row) => ({ ...row, fresh: 'x' })),
      { restate: true },
    );
    expect(second.changes).toMatchObject({ added: 0, altered: 0, columns_added: ['fresh'] });
    expect(second.manifest).toMatchObject({ revision: 2, extra_columns: ['fresh'] });
  });

  describe('with checks', () => {
    const WRONG = trade(9, { premium: 1e9 });
    const CASES: readonly (readonly [string, string, readonly TradeRow[], RegExp])[] = [
      ['min-rows', '{check: min-rows, rows: 501}', DAY, /min-rows: 500 rows, allowed are 501 or more/],
      [
        'max-nulls',
        '{check: max-nulls, column: iv, share: 0.001}',
        [...DAY.slice(1), trade(0, { iv: null })],
        /0.002 of "iv"/,
      ],
      [
        'max-nulls of a text',
        '{check: max-nulls, column: side, share: 0}',
        [...DAY.slice(1), trade(0, { side: '' })],
        /0.002 of "side"/,
      ],
      ['premium', '{check: premium}', [...DAY.slice(0, 9), WRONG], /premium: in 1 rows/],
      ['unique-id', '{check: unique-id}', [...DAY, trade(9)], /unique-id: 1 rows repeat an id in the same version/],
      [
        'unique-id of rows that differ',
        '{check: unique-id}',
        [...DAY, trade(9, { price: 1 }), trade(10, { time: `${DATE} 15:00:00` })],
        /unique-id: 2 rows repeat an id in the same version/,
      ],
    ];

    it.each(CASES)(
      'of %s that fails is published with what was found where it only warns, and else not',
      async (name, check, rows, says) => {
        const sealing = seal(rows, {}, createJob(`checks: [${check}]`));
        await expect(sealing).rejects.toMatchObject({ code: 'CHECK_FAILED', message: expect.stringMatching(says) });
        await expect(sealing).rejects.toMatchObject({ hint: expect.stringContaining('trades.yaml') });
        // Columns keep their ids, whatever becomes of the date, and what is staged stays.
        expect(await listKeys(store)).toEqual([`${fieldsPrefix('trades')}1.json`]);
        expect(await listStages(engine)).toEqual([DATE]);
        warned.length = 0;
        const { manifest } = await seal(rows, {}, createJob(`checks: [${check.replace('}', ', on_failure: warn}')}]`));
        const failed = { check: name.split(' ')[0], on_failure: 'warn', passed: false };
        expect(manifest.checks).toEqual([expect.objectContaining(failed)]);
        const told = warned.filter((record) => record['event'] === 'check-failed');
        expect(told).toEqual([expect.objectContaining({ reason: expect.stringMatching(says) })]);
      },
    );

    it('of unique-id breaks by a newer id where the job does not export when rows were made', async () => {
      const job = parseSqlJob(
        'secret-folder/trades.yaml',
        'name: trades\nsource: {api: historical, columns: [id, date, symbol, time, price]}\ndrop: {to: out, dataset: trades}\nchecks: [{check: unique-id}]\n',
      );
      const narrow = ({ id, date, symbol, time, price }: TradeRow) => ({ id, date, symbol, time, price });
      const rows = [...DAY, trade(9, { price: 1 })].map(narrow);
      await expect(seal(rows, {}, job)).rejects.toMatchObject({ code: 'CHECK_FAILED' });
    });

    it('that all hold has their results in the manifest', async () => {
      const checks = `checks: [{check: min-rows, rows: 500}, {check: max-nulls, column: iv, share: 0}, {check: premium}, {check: unique-id}, {check: dates}]`;
      const { manifest } = await seal(DAY, {}, createJob(checks));
      expect(manifest.checks).toEqual([
        { check: 'min-rows', on_failure: 'fail', passed: true, found: 500, allowed: 500 },
        { check: 'max-nulls', on_failure: 'fail', passed: true, found: 0, allowed: 0, column: 'iv' },
        { check: 'premium', on_failure: 'fail', passed: true, found: 0, allowed: 0, tolerance: 0.0001 },
        { check: 'unique-id', on_failure: 'fail', passed: true, found: 0, allowed: 0 },
        { check: 'dates', on_failure: 'fail', passed: true, found: 0, allowed: 0 },
      ]);
      expect(warned).toEqual([]);
    });
  });

  it('that is expired keeps what another query staged of it', async () => {
    const source = createEngineSource(engine, { rowLimit: 10_000, meta: true, nowMs: LATER });
    const other = parseSqlJob(
      'trades.yaml',
      'name: trades\nsource: {api: historical, where: "symbol = \'SYM1\'"}\ndrop: {to: out, dataset: trades}\n',
    );
    const stage = await stageRows(createJob(), DAY);
    const run = await createRun({ job: other, engine, store, source, folder, log });
    await expect(sealDegraded(run, DATE)).rejects.toMatchObject({ code: 'NOTHING_STAGED' });
    expect(await stage.totals()).toEqual({ rows: ROWS, ids: ROWS });
  });
});
