/**
 * A day beside the sessions before it: each number, the same number of the session before, and its mean over up to five
 * sessions. The mean of a ratio or share is the mean of the sessions' own, not the ratio of their sums; a session that
 * has no such number (no calls, no premium) is left out of its mean. Pure.
 */
import {
  type Change,
  COMPARED,
  type Compared,
  type Comparison,
  type Premium,
  type VolumeAboveOpenInterest,
} from '../model.ts';
import type { History, SessionTotals } from './history.ts';
import { divide } from './premium.ts';

type Numbers = Readonly<Record<Compared, number | null>>;

export function buildComparison(
  headline: Premium,
  volumeAboveOpenInterest: VolumeAboveOpenInterest,
  { sessions, previous }: History,
): Comparison {
  const latest = listNumbers(headline, volumeAboveOpenInterest);
  const before = previous === null ? null : readNumbers(previous.totals);
  const past = sessions.map(({ totals }) => readNumbers(totals));
  const changes = COMPARED.map((name): [Compared, Change] => [
    name,
    { latest: latest[name], previous: before?.[name] ?? null, mean: meanOf(past.map((numbers) => numbers[name])) },
  ]);
  return {
    previousDate: previous?.date ?? null,
    meanDates: sessions.map(({ date }) => date),
    degradedDates: sessions.filter(({ isDegraded }) => isDegraded === true).map(({ date }) => date),
    pastShares: past.map(({ callShare, putShare }) => ({ calls: callShare, puts: putShare })),
    changes: Object.fromEntries(changes) as Record<Compared, Change>, // One entry for each of COMPARED.
  };
}

function listNumbers(headline: Premium, { premium }: VolumeAboveOpenInterest): Numbers {
  const { total } = headline;
  return {
    ...headline,
    callShare: divide(headline.calls, total),
    putShare: divide(headline.puts, total),
    zeroDteShare: divide(headline.zeroDte, total),
    multiLegShare: divide(headline.multiLeg, total),
    sweepShare: divide(headline.sweep, total),
    volumeAboveOpenInterest: premium,
  };
}

function readNumbers(totals: SessionTotals): Numbers {
  const total = totals.total_premium;
  return {
    total,
    calls: totals.call_premium,
    puts: totals.put_premium,
    callShare: divide(totals.call_premium, total),
    putShare: divide(totals.put_premium, total),
    netCalls: totals.net_call_premium,
    netPuts: totals.net_put_premium,
    bullish: totals.bullish_premium,
    bearish: totals.bearish_premium,
    neutral: totals.neutral_premium,
    trades: totals.trades,
    contracts: totals.contracts,
    putCallByPremium: divide(totals.put_premium, totals.call_premium),
    putCallByVolume: divide(totals.put_contracts, totals.call_contracts),
    zeroDteShare: divide(totals.zero_dte_premium, total),
    multiLegShare: divide(totals.multi_leg_premium, total),
    sweepShare: divide(totals.sweep_premium, total),
    volumeAboveOpenInterest: totals.volume_above_oi_premium,
  };
}

function meanOf(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return Number.isFinite(mean) ? mean : null;
}
