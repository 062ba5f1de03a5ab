/**
 * Formats numbers for people: dollars, counts, bytes, durations, shares, and long lists. Pure; it ignores the machine's locale, so a
 * number reads the same in every mail.
 */

const SCALES: readonly (readonly [number, string])[] = [
  [1e12, 'T'],
  [1e9, 'B'],
  [1e6, 'M'],
  [1e3, 'K'],
];

/** As wide as a plus and a digit; a hyphen is neither. */
export const MINUS = '\u2212';

const NO_DOLLARS = '$0.00';
/** For unknown values and non-numbers. */
const NO_NUMBER = 'n/a';

/** Dollars with three significant digits: `$1.24B`, `−$310M`, `$950`; `n/a` for `null` and non-finite numbers. */
export function formatDollars(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return NO_NUMBER;
  const text = `$${shorten(Math.abs(value))}`;
  // A value that prints as zero has no sign.
  return value < 0 && text !== NO_DOLLARS ? `${MINUS}${text}` : text;
}

/** Dollars with their sign: `+$120M`, `−$310M`, `$0.00`. */
export function formatSignedDollars(value: number | null): string {
  const text = formatDollars(value);
  return value !== null && value > 0 && Number.isFinite(value) && text !== NO_DOLLARS ? `+${text}` : text;
}

/** A count with three significant digits, for narrow places: `1.24M`, `9.90K`, `950`. */
export function formatShortCount(value: number): string {
  return value < 1000 ? String(Math.round(value)) : shorten(value);
}

/** A number with `digits` decimals and thousands separators: `4,697.24`; `n/a` for `null` and non-finite numbers. */
export function formatDecimal(value: number | null, digits = 2): string {
  if (value === null || !Number.isFinite(value)) return NO_NUMBER;
  const [whole = '', fraction] = value.toFixed(digits).replace('-', MINUS).split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** Whole count with thousands separators: `2,295`; `n/a` for `null`. */
export function formatCount(value: number | bigint | null): string {
  if (value === null) return NO_NUMBER;
  return String(typeof value === 'bigint' ? value : Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** `1 trade`, `2,295 trades`; `n/a trades` if the count is unknown. */
export function countOf(count: number | bigint | null, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${Number(count) === 1 ? noun : plural}`;
}

/** For a text that begins a sentence. */
export function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

/** `a, b and 3 more`. */
export function listFirst(names: readonly string[], most: number): string {
  const more = names.length - most;
  return `${names.slice(0, most).join(', ')}${more > 0 ? ` and ${formatCount(more)} more` : ''}`;
}

/** A share (1 is all) as a percentage: `62.1%`; `n/a` for a share of nothing. */
export function formatPercent(share: number | null, digits = 1): string {
  return share !== null && Number.isFinite(share) ? `${(share * 100).toFixed(digits).replace('-', MINUS)}%` : NO_NUMBER;
}

/** Bytes in powers of 1,000 with the unit: `7.2 MB`. */
export function formatBytes(sizeBytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = sizeBytes;
  let unit = 0;
  // 999.95 of a unit would round up to 1,000.0, so step up to the next unit first.
  while (value >= (unit === 0 ? 1000 : 999.95) && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** Milliseconds as `850 ms`, `12.5 s`, `3 min 20 s`, `2 h 5 min`. */
export function formatDuration(ms: number): string {
  // Rounds before it chooses a unit, so that 59.96 s is not "60.0 s" and 119.8 s not "1 min 60 s".
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  const tenths = Math.round(ms / 100);
  if (tenths < 600) return `${(tenths / 10).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function shorten(value: number): string {
  for (const [scale, letter] of SCALES) {
    // 999.95 of a smaller unit would round up to 1,000, so step up first.
    if (value >= scale * 0.9995) return `${significant(value / scale)}${letter}`;
  }
  return significant(value);
}

function significant(value: number): string {
  if (value >= 99.95) return value.toFixed(0);
  if (value >= 9.995) return value.toFixed(1);
  return value.toFixed(2);
}
