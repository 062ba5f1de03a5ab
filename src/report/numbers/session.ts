/**
 * Premium through the day, by half hours of the exchange's wall clock. Invariant: the half hours follow each other
 * without a hole from the first counted trade to the last, so that a quiet half hour is seen as one. Pure.
 */
import type { HalfHour } from '../model.ts';
import { type PremiumRow, readPremium } from './premium.ts';

const SLOT_MINUTES = 30;

/** Number of the half hour since midnight, as SQL that ClickHouse and DuckDB read alike. */
export const HALF_HOUR = '2 * EXTRACT(HOUR FROM time) + CASE WHEN EXTRACT(MINUTE FROM time) < 30 THEN 0 ELSE 1 END';

export function readHalfHours(rows: readonly (PremiumRow & { readonly slot: number })[]): readonly HalfHour[] {
  const bySlot = new Map(rows.map((row) => [row.slot, row]));
  const slots = [...bySlot.keys()];
  const halfHours: HalfHour[] = [];
  for (let slot = Math.min(...slots); slot <= Math.max(...slots); slot += 1) {
    halfHours.push({ start: formatSlot(slot), ...readPremium(bySlot.get(slot)) });
  }
  return halfHours;
}

function formatSlot(slot: number): string {
  const minutes = slot * SLOT_MINUTES;
  return `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
}
