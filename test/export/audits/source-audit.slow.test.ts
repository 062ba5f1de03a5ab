/**
 * Sealed dates that no longer equal their source, run by run: rows that came late, were corrected or vanished, at both entry
 * points and in both orders of the table; the job's rules; requests; and faults in the audit itself. Random days are in
 * `random-days.slow.test.ts`.
 */
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import { COUNTS_FILENAME, fileKey, historyKey } from '../../../src/ledger/layout.ts';
import { insertTrades, tooBroad, unreachable } from '../../support/engine-source.ts';
import { createTrade, createTrades, DATE, type TradeRow } from '../../support/trades.ts';
import { type AuditedDays, openAuditedDays } from './audited-days.ts';

const ROWS = 800;
const DAY = createTrades(ROWS);
const idOf = (k: number) => String(createTrade(k)['id']);
const moveDay = () => DAY.map((row) => days.moveTo(row, '2026-11-18'));
const late = (k: number, changes: TradeRow = {}) => createTrade(k, { id: `late-${k}`, ...changes });

let days: AuditedDays;
const engine = await openEmbeddedEngine();
afterAll(async () => await engine.close());
beforeEach(async () => {
  days = await openAuditedDays(engine);
  await insertTrades(engine, DAY);
});
afterEach(async () => await days.close());

const among = (ids: readonly unknown[]) => `WHERE id IN (${ids.map((id) => `'${String(id)}'`).join(', ')})`;
const withdraw = async (ids: readonly unknown[]) => await engine.command(`DELETE FROM RawOptionTrades ${among(ids)}`);

describe('a sealed date', () => {
  it('that got three late rows is restated with four requests', async () => {
    await days.run();
    await insertTrades(engine, [late(5), late(400), late(790)]);
    const { dates, audits } = await days.run();
    expect(days.auditRequests()).toBe(4);
    expect(dates).toMatchObject([{ date: DATE, status: 'sealed', revision: 2, rows: ROWS + 3 }]);
    expect(audits[DATE]).toMatchObject({ result: 'equal', revision: 2 });
    expect((await days.manifest(DATE))?.changes).toMatchObject({ added: 3, removed: 0, altered: 0, found_by: 'audit' });
    await days.expectEqual(DATE);
    // The next audit compares with what was found.
    expect((await days.run()).dates).toEqual([]);
    expect(days.auditRequests()).toBe(1);
    expect(await days.verify(DATE)).toEqual([]);
  });

  it('whose nulls are some sealed and some late has each of them counted once', async () => {
    await engine.command('ALTER TABLE RawOptionTrades MODIFY COLUMN side Nullable(String)');
    await insertTrades(engine, [late(1, { side: null })]);
    await days.run();
    await insertTrades(engine, [late(400, { side: null })]);
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'equal', revision: 2 });
    expect((await days.manifest(DATE))?.nulls).toEqual([{ column: 'side', rows: 2 }]);
  });

  it.each([
    ['with a newer update mark', `premium = premium * 3, updated_timestamp = '1799000000000'`],
    ['without a sign of it', 'premium = premium * 3'],
  ])('whose rows were corrected under their ids %s gets their values', async (_, changes) => {
    await days.run();
    const corrected = among([idOf(7), idOf(8), idOf(700)]);
    await engine.command(`ALTER TABLE RawOptionTrades UPDATE ${changes} ${corrected} SETTINGS mutations_sync = 2`);
    await days.run();
    expect((await days.manifest(DATE))?.changes).toMatchObject({ added: 0, removed: 0, altered: 3 });
    expect(days.auditRequests()).toBe(3);
    await days.expectEqual(DATE);
  });

  it('that was sealed beside others is counted with them in one request, and the soonest to expire is repaired first', async () => {
    await insertTrades(engine, moveDay());
    await days.run();
    await insertTrades(engine, [late(1), days.moveTo(late(2), '2026-11-18')]);
    const { dates } = await days.run();
    expect(dates.map(({ date }) => date)).toEqual(['2026-11-18', DATE]);
    expect(days.auditRequests()).toBe(3);
    await days.expectEqual(DATE);
    await days.expectEqual('2026-11-18');
  });

  it('that has rows in quarantine is fetched anew as a whole', async () => {
    await insertTrades(engine, [late(11, { expiration_date: '2026-02-31' })]);
    await days.run();
    expect((await days.manifest(DATE))?.quarantine?.rows).toBe(1);
    await insertTrades(engine, [late(12)]);
    const { audits } = await days.run();
    expect(audits[DATE]).toMatchObject({ result: 'equal', revision: 2 });
    expect(await days.manifest(DATE)).toMatchObject({ rows: ROWS + 1, quarantine: { rows: 1 } });
  });

  it('whose rows have versions keeps the newest of each, and counts what it left out', async () => {
    await insertTrades(engine, [createTrade(20, { updated_timestamp: '1799000000000', price: 7 })]);
    await days.run();
    await insertTrades(engine, [createTrade(700, { updated_timestamp: '1799000000000', price: 8 })]);
    await days.run();
    expect(await days.manifest(DATE)).toMatchObject({ revision: 2, rows: ROWS, source_rows: ROWS + 2, duplicates: 2 });
    expect((await days.rows(DATE)).filter(({ price }) => price === 7 || price === 8)).toHaveLength(2);
  });

  it('that was sealed without counts, by another query, or from another address is left alone', async () => {
    await days.run();
    await insertTrades(engine, [late(1)]);
    await days.run({ url: 'engine://elsewhere' });
    await days.run({ where: 'premium > 10' });
    expect(days.log.filter(({ event }) => event === 'audit-skipped').map(({ reason }) => reason)).toEqual([
      'it was sealed from another address',
      'it was sealed with another query',
    ]);
    expect((await days.manifest(DATE))?.revision).toBe(1);
  });

  it('of groups is restated when the trades behind them change', async () => {
    const grouped = { grouped: true } as const;
    await days.run(grouped);
    await insertTrades(engine, [late(1)]);
    const { dates, audits } = await days.run(grouped);
    expect(dates).toMatchObject([{ revision: 2 }]);
    expect(audits[DATE]).toMatchObject({ result: 'equal' });
    expect((await days.run(grouped)).dates).toEqual([]);
  });
});

describe('rows that are gone at the source', () => {
  const gone = [idOf(30), idOf(600)];

  it('are kept by `repair`, which says so until the date expires and fetches them once', async () => {
    await days.run();
    await withdraw(gone);
    const first = await days.run();
    const reason = 'it keeps 2 rows that the source no longer has';
    expect(first.dates).toEqual([]);
    expect(first.audits[DATE]).toMatchObject({ result: 'differs', revision: 1, reason });
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'differs', reason });
    expect(days.auditRequests()).toBe(1);
    expect(days.log.filter(({ event }) => event === 'audit-differs')).toHaveLength(2);
    // Other rows are taken over beside them.
    await insertTrades(engine, [late(31), late(300)]);
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'differs', revision: 2, reason });
    expect(await days.manifest(DATE)).toMatchObject({ rows: ROWS + 2, source_rows: ROWS, kept: 2 });
    await days.expectEqual(DATE, gone);
    expect(await days.verify(DATE)).toEqual([]);
    // A third one, elsewhere: the two that were kept before are counted too.
    await withdraw([idOf(750)]);
    await insertTrades(engine, [late(760)]);
    await days.run();
    expect(await days.manifest(DATE)).toMatchObject({ revision: 3, kept: 3 });
    await days.expectEqual(DATE, [...gone, idOf(750)]);
    // And when they come back, the date equals its source again.
    await insertTrades(engine, [createTrade(30), createTrade(600), createTrade(750)]);
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'equal', revision: 3 });
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'equal', revision: 3 });
    expect(days.auditRequests()).toBe(1);
    await days.expectEqual(DATE);
  });

  it('are removed by `mirror`, once two counts agree', async () => {
    const mirror = { rule: 'mirror' } as const;
    await days.run(mirror);
    await withdraw(gone);
    await insertTrades(engine, [late(31)]);
    expect((await days.run(mirror)).audits[DATE]).toMatchObject({ result: 'equal', revision: 2 });
    expect((await days.manifest(DATE))?.changes).toMatchObject({ added: 1, removed: 2 });
    await days.expectEqual(DATE);
  });

  it('and are many are not removed by `mirror`, as the source may lag: the date is held until they are back', async () => {
    const mirror = { rule: 'mirror' } as const;
    await days.run(mirror);
    expect((await days.run(mirror)).audits[DATE]).toMatchObject({ result: 'equal' });
    await withdraw(DAY.slice(0, 300).map(({ id }) => id));
    const { audits, dates } = await days.run(mirror);
    expect(dates).toMatchObject([{ revision: 2, rows: ROWS, changes: { added: 0, removed: 0 } }]);
    const reason = expect.stringContaining('300 of 800 sealed rows are gone at the source');
    expect(audits[DATE]).toMatchObject({ result: 'differs', reason });
    expect(await days.entry(DATE)).toMatchObject({ condition: 'degraded', audit: { result: 'differs' } });
    expect((await days.run(mirror)).dates).toEqual([]);
    expect(days.auditRequests()).toBe(1);
    await insertTrades(engine, DAY.slice(0, 300));
    expect((await days.run(mirror)).dates).toMatchObject([{ revision: 3, rows: ROWS }]);
    expect(await days.entry(DATE)).toMatchObject({ condition: 'available', audit: { result: 'equal' } });
    await days.expectEqual(DATE);
    expect(await days.verify(DATE)).toEqual([]);
  });

  it('and were kept earlier stay under `mirror`, which takes over what else changes', async () => {
    await days.run();
    await withdraw(gone);
    await days.run();
    await insertTrades(engine, [late(31)]);
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'differs', revision: 2 });
    const mirror = { rule: 'mirror' } as const;
    const reason = expect.stringContaining(`to remove them: flowdrop backfill`);
    expect((await days.run(mirror)).audits[DATE]).toMatchObject({ result: 'differs', revision: 2, reason });
    // One beside them, one far from them.
    await insertTrades(engine, [late(601), late(300)]);
    expect((await days.run(mirror)).audits[DATE]).toMatchObject({ result: 'differs', revision: 3, reason });
    expect(await days.manifest(DATE)).toMatchObject({ kept: 2 });
    await days.expectEqual(DATE, gone);
  });

  it('with all others are no proof of anything', async () => {
    await days.run();
    await engine.command('TRUNCATE TABLE RawOptionTrades');
    const { audits } = await days.run();
    expect(audits[DATE]).toMatchObject({ result: 'differs', revision: 1 });
    expect(days.source.pages()).toEqual([]);
  });
});

it('the rule `report` changes nothing, and `off` asks nothing', async () => {
  await days.run();
  await insertTrades(engine, [late(1)]);
  const reported = await days.run({ rule: 'report' });
  expect(reported.audits[DATE]).toMatchObject({
    ...{ result: 'differs', revision: 1, rule: 'report' },
    reason: 'the source has 801 rows, 800 when the date was sealed; they differ in 1 second',
  });
  expect(days.auditRequests()).toBe(1);
  expect((await days.run({ rule: 'off' })).audits).toEqual({});
  expect(days.auditRequests()).toBe(0);
  // A rule that changes is followed, although the source has not moved since.
  expect((await days.run()).audits[DATE]).toMatchObject({ result: 'equal', revision: 2 });
});

describe('an audit', () => {
  it.each([1, 2, 3])('whose request %d fails for good loses nothing, and the next run repairs', async (nth) => {
    await days.run();
    await insertTrades(engine, [late(1), late(780)]);
    const failing = await days.run({
      beforeAudit: (request) => {
        if (request === nth) throw unreachable();
      },
    });
    expect(failing.dates).toEqual([]);
    expect(failing.audits).toEqual({});
    expect(failing.conditions[DATE]).toBe('available');
    expect(days.log).toContainEqual(expect.objectContaining({ event: 'audit-failed', level: 40, date: DATE }));
    expect((await days.manifest(DATE))?.revision).toBe(1);
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'equal', revision: 2 });
    await days.expectEqual(DATE);
  });

  it('of a source that counts no more than one date at once asks once a date', async () => {
    await insertTrades(engine, moveDay());
    await days.run();
    const isWide = (sql: string) => sql.includes("date >= '2026-11-18'");
    const options = {
      beforeAudit: (_: number, sql: string) => {
        if (isWide(sql)) throw tooBroad();
      },
    };
    await days.run(options);
    const { audits } = await days.run(options);
    expect(Object.keys(audits)).toEqual(['2026-11-18', DATE]);
    expect(days.auditRequests()).toBe(2);
  });

  it('while rows still move ends with what the source has', async () => {
    await days.run();
    await insertTrades(engine, [late(1), late(500)]);
    const seen: number[] = [];
    await days.run({
      beforeAudit: async (request) => {
        seen.push(request);
        if (request === 2) await insertTrades(engine, [late(502), late(2)]);
      },
    });
    expect(seen).toContain(2);
    await days.run();
    await days.expectEqual(DATE);
  });

  it('does not come before the dates that are not sealed yet', async () => {
    await days.run();
    await insertTrades(engine, [late(1), ...moveDay()]);
    const { dates } = await days.run();
    expect(dates.map(({ date, revision }) => [date, revision])).toEqual([
      ['2026-11-18', 1],
      [DATE, 2],
    ]);
  });

  it('of counts that were lost restores them, or seals the same rows with new ones', async () => {
    await days.run();
    await days.store.remove(fileKey('trades', DATE, COUNTS_FILENAME));
    await days.run();
    expect(await days.verify(DATE)).toEqual([]);
    expect(await days.store.get(historyKey('trades', DATE, 1, 'manifest.json'))).toBeUndefined();
    expect((await days.run()).audits[DATE]).toMatchObject({ result: 'equal', revision: 1 });
  });
});
