/**
 * Conditions of a dataset over many runs: what is written to `condition.json`, what it remembers for a worker with an empty
 * disk, and that lost updates heal. The arithmetic of dates is in `test/plan`, losses over whole runs are in
 * `test/flow/backfill.slow.test.ts`, jobs with a condition of their own in `test/flow/empty-dates.slow.test.ts`.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DateRange } from '../../src/calendar/wall-clock.ts';
import type { ExportPlan } from '../../src/export/date-source.ts';
import { conditionKey, dropKey, manifestKey } from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { formatManifest, type ManifestDraft, signManifest } from '../../src/ledger/manifest.ts';
import { type Conditions, findShortfall, noteRows, updateConditions } from '../../src/ledger/update-conditions.ts';
import { computeLookback, expiresAt, listSettled } from '../../src/plan/dates.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { useCleanups } from '../support/cleanups.ts';
import { faultStore } from '../support/fault-store.ts';
import { createSilentLog } from '../support/log.ts';
import { createDraft } from '../support/manifest.ts';
import { readText } from '../support/store-keys.ts';
import { createJob } from '../support/trades.ts';

const DAY_MS = 86_400_000;
/** Friday evening in New York. */
const NOW = Date.parse('2026-11-21T01:00:00Z');
const job = createJob();

const { folder } = useCleanups();
let store: Store;

async function seal(date: string, changes: Partial<ManifestDraft> & { revision?: number } = {}): Promise<void> {
  const { revision = 1, ...draft } = changes;
  const manifest = signManifest({
    ...createDraft({ date, sealed_at: `${date}T23:00:00Z`, ...draft }),
    ...{ revision, supersedes: null, files: [{ filename: 'trades.parquet', size: 1, hash: 'sha256:0' }] },
  });
  await store.put(dropKey('trades', date), { bytes: Buffer.from('x') });
  await store.put(manifestKey('trades', date), { bytes: formatManifest(manifest) });
}

interface Night {
  readonly nowMs?: number;
  /** Dates that the source has no rows of the job of. */
  readonly empty?: readonly string[];
  readonly range?: DateRange;
}

/** The end of a run with an empty disk: what it finds out, and what it says is lost and missing. */
async function run(
  night: Night = {},
): Promise<Pick<Conditions, 'conditions' | 'damaged'> & ReturnType<typeof findShortfall>> {
  const lookback = computeLookback(night.nowMs ?? NOW);
  const sealed = new Set(await new Ledger(store, 'trades').dates());
  const asked = listSettled(lookback).filter(
    (date) => !sealed.has(date) && (!night.range || (date >= night.range.from && date <= night.range.to)),
  );
  const empty = new Set(asked.filter((date) => night.empty?.includes(date)));
  const dates = asked.filter((date) => !empty.has(date));
  const plan: ExportPlan = {
    lookback,
    empty,
    held: [],
    dates: dates.map((date) => ({ date, counts: [], rows: 1, pages: 1, expiresAtMs: expiresAt(date) })),
  };
  const found = await updateConditions(new Ledger(store, job.drop.dataset), createSilentLog(), plan, {
    staged: [],
    range: night.range,
  });
  return { ...found, ...findShortfall(found, lookback.clipped, night.range) };
}

type Entry = Readonly<Record<string, unknown>>;
const document = async () => JSON.parse((await readText(store, conditionKey('trades'))) ?? '[]') as readonly Entry[];
const said = async () => Object.fromEntries((await document()).map(({ date, condition }) => [date, condition]));

describe('condition.json', () => {
  beforeEach(async () => {
    store = await openDirectoryStore(await folder());
  });
  afterEach(async () => await store.close());

  it('has one line for each known session, in date order, with what is sealed of it', async () => {
    await seal('2026-11-16', { rows: 42 });
    await seal('2026-11-18', { condition: 'degraded', rows: 7, revision: 2 });
    await run({ empty: ['2026-11-17'] });
    const text = (await readText(store, conditionKey('trades'))) ?? '';
    expect(text.split('\n').filter((line) => line.includes('"date"'))).toHaveLength(15 - 4);
    const sealed = (date: string) => ({ date, last_modified_date: date, size: 1, beside: {} });
    const nothing = { last_modified_date: null, revision: null, rows: null, size: null };
    expect((await document()).slice(-5)).toEqual([
      { ...sealed('2026-11-16'), condition: 'available', revision: 1, rows: 42 },
      { ...nothing, date: '2026-11-17', condition: 'missing' },
      { ...sealed('2026-11-18'), condition: 'degraded', revision: 2, rows: 7 },
      { ...nothing, date: '2026-11-19', condition: 'pending' },
      { ...nothing, date: '2026-11-20', condition: 'pending' },
    ]);
  });

  it('is written only when it says something else', async () => {
    await seal('2026-11-18');
    await run();
    const recorded = faultStore(store);
    store = recorded;
    const puts = () => recorded.calls.filter((call) => call.startsWith('put'));
    await run();
    expect(puts()).toEqual([]);
    await seal('2026-11-19');
    await run();
    const sealed = [dropKey('trades', '2026-11-19'), manifestKey('trades', '2026-11-19')];
    expect(puts()).toEqual([...sealed, conditionKey('trades')].map((key) => `put ${key}`));
  });

  it('names the dates whose rows were counted before they are fetched, and keeps what it says of others', async () => {
    await seal('2026-11-18');
    await run({ empty: ['2026-11-19'] });
    const recorded = faultStore(store);
    const lookback = computeLookback(NOW + DAY_MS * 3);
    const planned = (date: string, rows: number) => ({
      ...{ date, rows, pages: 1, expiresAtMs: expiresAt(date) },
      counts: Array.from({ length: rows }, (_, second) => ({ second, rows: 1, ids: 1, mark: '' })),
    });
    // A Saturday, a date without rows, one that is known, and one that is news.
    const dates = [
      planned('2026-11-21', 1),
      planned('2026-11-24', 0),
      planned('2026-11-20', 1),
      planned('2026-11-23', 2),
    ];
    const plan: ExportPlan = { lookback, empty: new Set(), held: [], dates };
    const before = await document();
    for (let round = 0; round < 2; round += 1)
      await noteRows(new Ledger(recorded, job.drop.dataset), createSilentLog(), job, plan);
    expect(recorded.calls.filter((call) => call.startsWith('put'))).toEqual([`put ${conditionKey('trades')}`]);
    expect(await document()).toEqual([
      ...before,
      expect.objectContaining({ date: '2026-11-23', condition: 'pending' }),
    ]);
  });

  it('keeps a session that never had rows as missing, and counts it as no loss', async () => {
    await run({ empty: ['2026-11-09'] });
    const after = await run({ nowMs: NOW + 20 * DAY_MS });
    expect(after.conditions.get('2026-11-09')).toBe('missing');
    expect(after.lost).toContain('2026-11-10');
    expect(after.lost).not.toContain('2026-11-09');
  });

  it('tells a gap as new in the run that finds it, and not again', async () => {
    await seal('2026-11-16', { rows: 42 });
    await seal('2026-11-18', { condition: 'degraded', rows: 7 });
    const first = await run({ empty: ['2026-11-17'] });
    expect([first.gaps, first.new_gaps]).toEqual([
      ['2026-11-17', '2026-11-18'],
      ['2026-11-17', '2026-11-18'],
    ]);
    const second = await run({ empty: ['2026-11-17', '2026-11-19'] });
    expect([second.gaps, second.new_gaps]).toEqual([['2026-11-17', '2026-11-18', '2026-11-19'], ['2026-11-19']]);
  });

  it('has who accepted a gap, which is then in no list, as long as its condition is the one accepted', async () => {
    await seal('2026-11-16', { rows: 42 });
    await run({ empty: ['2026-11-17'] });
    const gap = { condition: 'missing', reason: 'outage', by: 'alice', at: '2026-11-18T10:00:00.000Z' } as const;
    await new Ledger(store, 'trades').acceptGap('2026-11-17', gap);
    const accepted = await run({ empty: ['2026-11-17'] });
    expect(accepted).toMatchObject({ gaps: [], new_gaps: [], lost: [], accepted: ['2026-11-17'] });
    expect((await document()).find(({ date }) => date === '2026-11-17')).toMatchObject({
      condition: 'missing',
      accepted: gap,
    });
    await seal('2026-11-17', { condition: 'degraded', rows: 3 });
    expect(await run()).toMatchObject({ gaps: ['2026-11-17'], new_gaps: ['2026-11-17'], accepted: [] });
    expect((await document()).find(({ date }) => date === '2026-11-17')).not.toHaveProperty('accepted');
  });

  it('keeps as missing what a run of chosen dates did not ask for, and asks again when it does', async () => {
    await run({ empty: ['2026-11-17'] });
    await run({ range: { from: '2026-11-20', to: '2026-11-20' } });
    expect((await said())['2026-11-17']).toBe('missing');
    await run({ range: { from: '2026-11-17', to: '2026-11-17' } });
    expect((await said())['2026-11-17']).toBe('pending');
  });

  it('heals when another worker’s update overwrote ours, also after the date left the lookback', async () => {
    await run();
    const stale = await readText(store, conditionKey('trades'));
    await seal('2026-11-13', { rows: 9 });
    await run();
    await store.put(conditionKey('trades'), { bytes: Buffer.from(stale ?? '') });
    await run({ nowMs: NOW + 20 * DAY_MS });
    expect((await said())['2026-11-13']).toBe('available');
    const old = await readText(store, conditionKey('trades'));
    await seal('2026-11-13', { rows: 10, revision: 2 });
    await store.put(conditionKey('trades'), { bytes: Buffer.from(old ?? '') });
    await run({ nowMs: NOW + 20 * DAY_MS });
    expect((await document()).find(({ date }) => date === '2026-11-13')).toMatchObject({ rows: 10, revision: 2 });
  });

  it('spares reading the manifests of long ago', async () => {
    for (const date of ['2026-09-01', '2026-09-02', '2026-11-19']) await seal(date);
    await run();
    const recorded = faultStore(store);
    store = recorded;
    await run();
    expect(recorded.calls.filter((call) => !call.startsWith('list'))).toEqual(
      [conditionKey('trades'), manifestKey('trades', '2026-11-19')].map((key) => `get ${key}`),
    );
  });

  it('that is broken is said, and made anew from the manifests', async () => {
    await seal('2026-11-18');
    await store.put(conditionKey('trades'), { bytes: Buffer.from('{"half":') });
    await run();
    expect((await said())['2026-11-18']).toBe('available');
  });

  it('calls a date whose manifest is damaged degraded', async () => {
    await store.put(manifestKey('trades', '2026-11-18'), { bytes: Buffer.from('{}') });
    await run();
    expect((await said())['2026-11-18']).toBe('degraded');
  });
});
