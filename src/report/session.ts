/**
 * Premium through the day, by half hours of the exchange's wall clock. Invariant: the half hours follow each other
 * without a hole from the first trade to the last, so that a quiet half hour is seen as one.
 */
import { PREMIUM_MEASURES, type Premium, type PremiumRow, readPremium } from './premium.ts';
import type { DropSource } from './source.ts';

const SLOT_MINUTES = 30;
const DAY_MS = 86_400_000;

export interface HalfHour extends Premium {
  /** Beginning, `HH:MM`; the half hour ends before the next one begins. */
  readonly start: string;
}

type SlotRow = PremiumRow & { readonly slot: number };

/** One pass over the file; at most 48 rows. */
export async function queryHalfHours(source: DropSource): Promise<readonly HalfHour[]> {
  const rows = await source.rows<SlotRow>(
    // From the raw milliseconds: no time zone of the engine can move a wall clock that way.
    `SELECT intDiv(toUnixTimestamp64Milli(time) % ${DAY_MS}, ${SLOT_MINUTES * 60_000}) AS slot, ${PREMIUM_MEASURES}
     FROM ${source.table} GROUP BY slot ORDER BY slot`,
  );
  return fillHalfHours(rows);
}

function fillHalfHours(rows: readonly SlotRow[]): readonly HalfHour[] {
  const bySlot = new Map(rows.map((row) => [Number(row.slot), row]));
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
