/** The sentiment split as segments of a bar, with widths in whole percent, at most 100 in total. Pure. */

import { formatDollars } from '../../core/units.ts';
import { type Amount, shareOf } from '../amount.ts';
import type { Premium } from '../numbers.ts';
import { formatPart, isSameDollars } from './label.ts';

type Tone = 'bullish' | 'neutral' | 'bearish';

interface BarSegment {
  readonly tone: Tone;
  readonly name: string;
  /** Width, whole percent; 0: leave the segment out. */
  readonly width: number;
  readonly dollars: string;
  readonly share: string;
}

/** Bullish, neutral, bearish, in this order; all widths are 0 if the premium is 0 or unknown. */
export function buildBar(premium: Premium): readonly BarSegment[] {
  const bullish = toWidth(premium.bullish, premium.total);
  const bearish = Math.min(toWidth(premium.bearish, premium.total), 100 - bullish);
  const { total } = premium;
  // Premium with an unknown sentiment is not part of the bar.
  const coded = [premium.bullish, premium.neutral, premium.bearish].reduce<Amount>(
    (sum, part) => (sum === null || part === null ? null : sum + part),
    0,
  );
  const isWhole = total !== null && coded !== null && isSameDollars(coded, total);
  const rest = 100 - bullish - bearish;
  const neutral = total === null || total <= 0 ? 0 : isWhole ? rest : Math.min(rest, toWidth(premium.neutral, total));
  return [
    segment('bullish', 'Bullish', bullish, premium.bullish, premium.total),
    segment('neutral', 'Neutral', neutral, premium.neutral, premium.total),
    segment('bearish', 'Bearish', bearish, premium.bearish, premium.total),
  ];
}

function segment(tone: Tone, name: string, width: number, part: Amount, whole: Amount): BarSegment {
  return { tone, name, width, dollars: formatDollars(part), share: formatPart(shareOf(part, whole)) };
}

function toWidth(part: Amount, whole: Amount): number {
  return Math.min(100, Math.max(0, Math.round((shareOf(part, whole) ?? 0) * 100)));
}

/** The tone of bullish minus bearish premium. Not for GEX: its sign is not a direction. */
export function toneOf(value: Amount): Tone {
  if (value === null || isSameDollars(value, 0)) return 'neutral';
  return value > 0 ? 'bullish' : 'bearish';
}
