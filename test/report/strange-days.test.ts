/**
 * What the report says of days and pasts that are not as usual, from the engine's numbers to the printed sentence:
 * sessions of very different size, a past of last year or of degraded days, a summary that cannot be compared with, a
 * symbol without a name, a day of which nothing counts.
 */
import { describe, expect, it } from 'vitest';
import type { FlowReport } from '../../src/report/model.ts';
import type { PastSession } from '../../src/report/query/past-sessions.ts';
import { buildFlowView, type FlowView } from '../../src/report/text/mail-view.ts';
import { buildSentences, sayCallShare, sayUnusual } from '../../src/report/text/sentences.ts';
import { buildSubject } from '../../src/report/text/subject.ts';
import { createTrade, type Trade, useDrops } from './drop-file.ts';
import { expectClose } from './plain-loops.ts';

const drops = useDrops();

/** Records with ids of their own. */
function listTrades(...changes: readonly Partial<Trade>[]): readonly Trade[] {
  return changes.map((change, index) => createTrade({ id: String(index + 1), ...change }));
}

const summarise = (date: string, trades: readonly Trade[]) =>
  drops.summarise(
    date,
    trades.map((trade) => ({ ...trade, date, time: `${date}${trade.time.slice(10)}` })),
  );

const report = async (
  trades: readonly Trade[],
  before: readonly PastSession[] = [],
  facts: { readonly filter?: string } = {},
) => await drops.build({ ...(await drops.write(trades)), ...facts }, { before });

function show(model: FlowReport): FlowView {
  return buildFlowView(model, { timezone: 'UTC', link: null, late: false, correction: null });
}

/** A session of so much call and put premium. */
const session = (calls: number, puts: number) =>
  listTrades({ premium: calls }, { premium: puts, put_call: 'PUT', sentiment: 'BEARISH' });

it('a record of the second in which the hours of a report end is of the curb', async () => {
  const at = (time: string) => ({ symbol: 'SPX', time: `2026-11-19 ${time}` });
  const model = await report(
    listTrades({ ...at('16:14:59'), premium: 1_000_000 }, { ...at('16:15:00'), premium: 5_000_000 }),
  );
  expect(model.besides.curb).toEqual({ trades: 1, premium: 5_000_000 });
  expect(model.comparison.changes.total.latest).toBe(1_000_000);
});

describe('the share of calls beside its past', () => {
  it('is compared with the median of the sessions’ own shares, not with the share of their sums', async () => {
    // 100% of a small session, 10% of one a hundred times as large, 40%: 40% in the middle, 14% of the sum.
    const before = [
      await summarise('2026-11-18', session(1e6, 0)),
      await summarise('2026-11-17', session(1e7, 9e7)),
      await summarise('2026-11-16', session(4e6, 6e6)),
    ];
    const model = await report(session(3e6, 7e6), before);
    expectClose(model.comparison.changes.putShare.median, 0.6);
    expectClose(model.comparison.changes.callShare.median, 0.4);
    expect(sayCallShare(model)?.text).toBe(
      'Puts took 70% of premium, more than on Nov 18 (0%) and than the 3-session median (60%).',
    );
  });

  it('names the year of a session that lies far back', async () => {
    const before = [await summarise('2025-11-18', session(1e6, 1e6))];
    const model = await report(session(3e6, 1e6), before);
    const view = show(model);
    expect(sayCallShare(model)?.text).toBe('Calls took 75% of premium, more than on Nov 18, 2025 (50%).');
    expect(view.sessions.previous).toBe('Nov 18, 2025');
    expect(view.premiumChanges).toEqual(['+100% vs Nov 18, 2025']);
  });
});

describe('a past that is not whole', () => {
  it('is marked where its sessions are degraded', async () => {
    const before = [
      { ...(await summarise('2026-11-18', session(1e6, 1e6))), isDegraded: true },
      await summarise('2026-11-17', session(2e6, 2e6)),
      await summarise('2026-11-16', session(1.5e6, 1.5e6)),
    ];
    const model = await report(session(3e6, 3e6), before);
    expect(model.comparison.degradedDates).toEqual(['2026-11-18']);
    const view = show(model);
    expect(view.premiumChanges).toEqual(['+200% vs Nov 18 (degraded)', '+100% vs 3-session median']);
    expect(view.sentences).toContain('Degraded in the comparison: Nov 18.');
  });
});

describe('unusual activity', () => {
  it('says the sessions of its median, not only those in which the symbol traded', async () => {
    const days = ['2026-11-18', '2026-11-17', '2026-11-16', '2026-11-13', '2026-11-12'];
    const before = await Promise.all(
      days.map(
        async (date, index) => await summarise(date, listTrades({ symbol: index < 3 ? 'MSTR' : 'SPY', premium: 1e6 })),
      ),
    );
    const model = await report(listTrades({ symbol: 'MSTR', premium: 3e6 }), before);
    expect(sayUnusual(model)?.text).toBe('MSTR traded $3.00M, 3.0 times its median of 5 sessions.');
    expect(model.unusual[0]?.sessions).toBe(3);
  });
});

describe('strange records', () => {
  it('a symbol without a name is said to have none', async () => {
    const model = await report(listTrades({ symbol: '', premium: 1e6 }));
    const view = show(model);
    expect(view.sentences).toContain('(no symbol) is the only symbol in this report.');
    expect(view.symbols.map(({ symbol }) => symbol)).toEqual(['(no symbol)']);
    expect(view.lead?.symbol).toBe('(no symbol)');
  });

  it('a day of which nothing counts says what there was', async () => {
    const model = await report(
      listTrades({ option_activity_type: 'LATE', premium: 5e6 }, { option_activity_type: 'OSEQ', premium: 1e6 }),
    );
    expect(buildSentences(model)).toEqual([
      'None of the 2 records of this date counts ($6.00M): each is a late report, a cancelled print or a cancel message.',
    ]);
    expect(buildSubject(model, { late: false, corrected: false })).toBe('Flow 2026-11-19: no trade that counts');
    expect(show(model).preview).toMatch(/^None of the 2 records of this date counts/);
  });

  it('a share that is nearly everything or nearly nothing is not rounded to it', async () => {
    const model = await report(session(999e6, 1e6));
    const view = show(model);
    expect(sayCallShare(model)?.text).toBe('Calls took >99% of premium.');
    expect(view.subject).toContain('>99% calls');
    expect(view.bar.map(({ share }) => share)).toEqual(['>99%', '0%', '<1%']);
  });

  it('a session that began the evening before says so', async () => {
    const { stamp } = show(
      await report(listTrades({ time: '2026-11-18 20:15:00' }, { time: '2026-11-19 16:14:57', premium: 2000 })),
    );
    expect([stamp.from, stamp.until]).toEqual(['Nov 18, 20:15:00', '16:14:57']);
  });

  it('sums that differ by rounding only are equal', async () => {
    // 0.1 + 0.2 is not 0.3 in binary.
    const model = await report(
      listTrades({ premium: 0.1 }, { premium: 0.2 }, { premium: 0.3, sentiment: 'BEARISH', put_call: 'PUT' }),
    );
    expect(show(model).lean).toBe('balanced');
  });

  it.each([
    [1049, 'balanced'],
    [1111, 'bullish by $111'],
  ])(
    'bullish premium of %d beside 1,000 bearish reads %s: below a twentieth of both it is noise',
    async (bullish, lean) => {
      const model = await report(
        listTrades(
          { premium: bullish, sentiment: 'BULLISH' },
          { premium: 1000, sentiment: 'BEARISH', put_call: 'PUT' },
        ),
      );
      expect(show(model).lean).toBe(lean);
    },
  );

  it.each([
    ['premium >= 50000', ' GEX needs every trade, so there is none.', false],
    ["symbol IN ('SPY', 'premium')", '', true],
  ])('a drop with %s is named as filtered', async (filter, gex, hasGex) => {
    const model = await report(listTrades({ premium: 60_000, gamma: 0.01, oi: 100 }), [], { filter });
    const view = show(model);
    expect(view.subject).toMatch(/^Flow 2026-11-19 \[filtered\]: /);
    expect(view.sentences[0]).toBe(`Only trades with ${filter}: every sum covers only these.${gex}`);
    expect(view.lead !== null).toBe(hasGex);
    expect(model.exposure.total.netGex !== null).toBe(hasGex);
  });
});
