/**
 * Update marks: a short text that tells whether the rows of a cell were made when they were before. Pure, for sources and
 * stages alike: both compute it with the same SQL, so that a row corrected under its id shows. Where `updated_timestamp`
 * is a number of milliseconds, as the specification's sample has it, the mark is the sum of them, which no later
 * correction can hide; else it is the newest of them.
 */

const SUM = 'sum ';
const WORD_BITS = 64;

/** An aggregate over the rows of a cell; empty when they tell no time. */
export function updateMarkSql(column: string): string {
  const sum = `sum(toUInt64OrZero(toString(${column})))`;
  return `if(${sum} > 0, concat('${SUM}', toString(${sum})), ifNull(toString(max(${column})), ''))`;
}

/**
 * An aggregate: rows beyond one for each version of a trade.
 * @param key what versions of a trade have in common: `tradeKeySql`
 * @param hasUpdates whether rows tell when they were made; without it a trade has one version
 */
export function repeatsSql(key: string, hasUpdates: boolean): string {
  // As text, and never null: the engine's count leaves nulls out.
  return `count() - uniqExact(${key}${hasUpdates ? ", ifNull(toString(updated_timestamp), '')" : ''})`;
}

/** Whether a text that a server sent can be a mark: a sum has to be added up. */
export function isUpdateMark(text: string): boolean {
  return !text.startsWith(SUM) || /^\d{1,20}$/.test(text.slice(SUM.length));
}

/** The mark of the rows of two cells together. */
export function mergeUpdateMarks(a: string, b: string): string {
  if (a.startsWith(SUM) && b.startsWith(SUM)) return `${SUM}${BigInt.asUintN(WORD_BITS, readSum(a) + readSum(b))}`;
  return a > b ? a : b;
}

/** Whether two marks tell the same, as far as they can be compared. */
export function isSameUpdateMark(a: string, b: string): boolean {
  if (a === b || a === '' || b === '') return true;
  if (a.startsWith(SUM) !== b.startsWith(SUM)) return true; // Written otherwise in rows than in an aggregate.
  const [left, right] = [readInstant(a), readInstant(b)];
  if (left === undefined || right === undefined) return false;
  const unitMs = Math.max(left.unitMs, right.unitMs);
  return Math.floor(left.ms / unitMs) === Math.floor(right.ms / unitMs);
}

function readSum(mark: string): bigint {
  return BigInt(mark.slice(SUM.length));
}

/**
 * Milliseconds since the epoch, and the unit that they are told in: a server may write an instant with a T or a blank, with
 * or without a fraction. `undefined` for a text that is no instant, a sum for instance.
 */
function readInstant(text: string): { readonly ms: number; readonly unitMs: number } | undefined {
  const ms = text.startsWith(SUM) ? Number.NaN : Date.parse(`${text.replace(' ', 'T').replace(/Z$/, '')}Z`);
  return Number.isNaN(ms) ? undefined : { ms, unitMs: text.includes('.') ? 1 : 1000 };
}
