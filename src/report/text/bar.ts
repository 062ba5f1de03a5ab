/** The sentiment split as the segments of a bar: widths in whole per cent that add up to 100. Pure. */
import { formatDollars } from '../../core/units.ts';
import type { Premium } from '../model.ts';
import { formatPart } from './label.ts';

export type Tone = 'bullish' | 'neutral' | 'bearish';

export interface BarSegment {
  readonly tone: Tone;
  readonly name: string;
  /** Width, whole per cent; 0 for a segment to leave out. */
  readonly width: number;
  readonly dollars: string;
  readonly share: string;
}

/** Bullish, neutral, bearish, in this order; all widths are 0 when there is no premium. */
export function buildBar(premium: Premium): readonly BarSegment[] {
  const bullish = toWidth(premium.bullish, premium.total);
  const bearish = Math.min(toWidth(premium.bearish, premium.total), 100 - bullish);
  const neutral = premium.total > 0 ? 100 - bullish - bearish : 0;
  return [
    segment('bullish', 'Bullish', bullish, premium.bullish, premium.total),
    segment('neutral', 'Neutral', neutral, premium.neutral, premium.total),
    segment('bearish', 'Bearish', bearish, premium.bearish, premium.total),
  ];
}

function segment(tone: Tone, name: string, width: number, part: number, whole: number): BarSegment {
  return { tone, name, width, dollars: formatDollars(part), share: whole > 0 ? formatPart(part / whole) : 'n/a' };
}

function toWidth(part: number, whole: number): number {
  return whole > 0 ? Math.min(100, Math.max(0, Math.round((part / whole) * 100))) : 0;
}
