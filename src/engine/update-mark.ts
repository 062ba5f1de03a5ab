/**
 * Update marks: a short text that changes when a row of a cell is updated. Pure, for sources and stages: both compute
 * it with the same SQL, so that a row corrected under its id is detected. If `updated_timestamp` is a number of
 * milliseconds, as in the specification's sample, the mark is their sum, which no later correction can hide; otherwise
 * it is the newest of them.
 */

const SUM = 'sum ';
const WORD_BITS = 64;

/** An aggregate over the rows of a cell; empty if the rows have no time. */
export function updateMarkSql(column: string): string {
  const sum = `sum(toUInt64OrZero(toString(${column})))`;
  return `if(${sum} > 0, concat('${SUM}', toString(${sum})), ifNull(toString(max(${column})), ''))`;
}

/**
 * An aggregate: rows beyond one per version of a trade.
 * @param key `tradeKeySql`
 * @param hasUpdates whether rows have an update time; without it a trade has one version
 */
export function repeatsSql(key: string, hasUpdates: boolean): string {
  // As text, and never null: the engine's count ignores nulls.
  return `count() - uniqExact(${key}${hasUpdates ? ", ifNull(toString(updated_timestamp), '')" : ''})`;
}

/** Whether a server's text can be a mark: a sum must be numeric, so that it can be added. */
export function isUpdateMark(text: string): boolean {
  return !text.startsWith(SUM) || /^\d{1,20}$/.test(text.slice(SUM.length));
}

export function mergeUpdateMarks(a: string, b: string): string {
  if (a.startsWith(SUM) && b.startsWith(SUM)) return `${SUM}${BigInt.asUintN(WORD_BITS, readSum(a) + readSum(b))}`;
  return a > b ? a : b;
}

/** Whether two marks agree; marks that cannot be compared count as equal. */
export function isSameUpdateMark(a: string, b: string): boolean {
  if (a === b || a === '' || b === '') return true;
  if (a.startsWith(SUM) !== b.startsWith(SUM)) return true; // Formatted differently in rows and in an aggregate.
  const [left, right] = [readInstant(a), readInstant(b)];
  if (left === undefined || right === undefined) return false;
  const unitMs = Math.max(left.unitMs, right.unitMs);
  return Math.floor(left.ms / unitMs) === Math.floor(right.ms / unitMs);
}

function readSum(mark: string): bigint {
  return BigInt(mark.slice(SUM.length));
}

/**
 * Milliseconds since the epoch, and the unit of precision: a server may write an instant with a T or a blank, with or
 * without a fraction. `undefined` for a text that is not an instant, such as a sum.
 */
function readInstant(text: string): { readonly ms: number; readonly unitMs: number } | undefined {
  const ms = text.startsWith(SUM) ? Number.NaN : Date.parse(`${text.replace(' ', 'T').replace(/Z$/, '')}Z`);
  return Number.isNaN(ms) ? undefined : { ms, unitMs: text.includes('.') ? 1 : 1000 };
}
