/**
 * How long the groups in time are that an expression makes, where it is one of the usual ones. Invariant: a length that
 * comes out is never longer than that of the groups; what is not recognised has none, and the run looks at its groups.
 * Pure.
 */
import { isName, nameOf, type SelectItem, splitAtCommas } from './sql-select.ts';
import type { SqlToken } from './sql-tokens.ts';

const DAY_SECONDS = 86_400;
const UNIT_SECONDS: ReadonlyMap<string, number> = new Map([
  ['SECOND', 1],
  ['MINUTE', 60],
  ['HOUR', 3600],
  ['DAY', DAY_SECONDS],
  ['WEEK', 7 * DAY_SECONDS],
  // Shortest of their kind: longer than any grain.
  ['MONTH', 28 * DAY_SECONDS],
  ['QUARTER', 90 * DAY_SECONDS],
  ['YEAR', 365 * DAY_SECONDS],
]);

/** Functions of one time that say by their name how long a group is, in capitals. */
const TRUNCATING: ReadonlyMap<string, number> = new Map([
  ['TOSTARTOFSECOND', 1],
  ['TOSTARTOFMINUTE', 60],
  ['TOSTARTOFFIVEMINUTE', 300],
  ['TOSTARTOFFIVEMINUTES', 300],
  ['TOSTARTOFTENMINUTES', 600],
  ['TOSTARTOFFIFTEENMINUTES', 900],
  ['TIMESLOT', 1800],
  ['TOSTARTOFHOUR', 3600],
  ['TOSTARTOFDAY', DAY_SECONDS],
  ['TODATE', DAY_SECONDS],
  ['TODATE32', DAY_SECONDS],
  ['DATE', DAY_SECONDS],
  ['TOSTARTOFWEEK', 7 * DAY_SECONDS],
  ['TOMONDAY', 7 * DAY_SECONDS],
  ['TOSTARTOFMONTH', 28 * DAY_SECONDS],
  ['TOSTARTOFQUARTER', 90 * DAY_SECONDS],
  ['TOSTARTOFYEAR', 365 * DAY_SECONDS],
]);

/** Functions that give the same time in another type. */
const CONVERTING =
  /^(TOSTRING|TODATETIME(32|64)?(ORNULL|ORZERO)?|PARSEDATETIME\w*|ASSUMENOTNULL|TONULLABLE|MATERIALIZE|IDENTITY)$/;

/** Seconds that a beginning of `YYYY-MM-DD HH:MM:SS` tells apart, by its length. */
const PREFIX_SECONDS: ReadonlyMap<number, number> = new Map([
  [10, DAY_SECONDS],
  [11, DAY_SECONDS],
  [13, 3600],
  [14, 3600],
  [15, 600],
  [16, 60],
  [17, 60],
]);

/** What the finest part of a format tells apart; other letters are not known, and count as the finest. */
const FORMAT_SECONDS = [
  [/%[^YmdFHiRe%]/, 1],
  [/%[iR]/, 60],
  [/%H/, 3600],
  [/%[YmdFe]/, DAY_SECONDS],
] as const;

/**
 * @param items of the SELECT: a name may be that of another of them
 * @returns seconds; `undefined` where the expression is none of the usual ones
 */
export function findBucketSeconds(item: SelectItem, items: readonly SelectItem[]): number | undefined {
  return measure(item.expression, items, [item.name]);
}

function measure(
  tokens: readonly SqlToken[],
  items: readonly SelectItem[],
  seen: readonly string[],
): number | undefined {
  const [first] = tokens;
  if (first === undefined) return undefined;
  const joined = tokens.findIndex((token) => token.text === '||' && token.depth === first.depth);
  // A text that begins with the time and goes on with what is always the same.
  if (joined > 0) {
    const rest = tokens.slice(joined);
    return rest.every(isFixed) ? measure(tokens.slice(0, joined), items, seen) : undefined;
  }
  if (first.text === '(' && closesAt(tokens, 0) === tokens.length - 1) return measure(tokens.slice(1, -1), items, seen);
  const name = readName(tokens);
  if (name !== undefined) {
    const alias = seen.includes(name) ? undefined : items.find((item) => item.name === name);
    // A column that is given under its own name is the column.
    if (alias && readName(alias.expression) !== name) return measure(alias.expression, items, [...seen, name]);
    return name === 'time' ? 1 : undefined;
  }
  if (!isName(first) || tokens[1]?.text !== '(' || closesAt(tokens, 1) !== tokens.length - 1) return undefined;
  const called = nameOf(first).toUpperCase();
  return measureCall(called, splitAtCommas(tokens.slice(2, -1)), (inner) => measure(inner, items, seen));
}

function measureCall(
  called: string,
  args: readonly (readonly SqlToken[])[],
  inner: (tokens: readonly SqlToken[]) => number | undefined,
): number | undefined {
  const [first = [], second = [], third] = args;
  if (called === 'DATE_TRUNC' || called === 'DATETRUNC') {
    return longer(inner(second), UNIT_SECONDS.get(textOf(first).toUpperCase()));
  }
  const seconds = inner(first);
  if (seconds === undefined) return undefined;
  const truncated = TRUNCATING.get(called);
  if (truncated !== undefined) return longer(seconds, truncated);
  if (called === 'TOSTARTOFINTERVAL') return args.length === 2 ? longer(seconds, readInterval(second)) : undefined;
  if (called === 'FORMATDATETIME') return longer(seconds, readFormat(textOf(second)));
  if (called === 'LEFT') return longer(seconds, PREFIX_SECONDS.get(Number(second[0]?.text)) ?? 1);
  if (/^(SUBSTRING|SUBSTR|MID)(UTF8)?$/.test(called)) {
    const isPrefix = second.length === 1 && second[0]?.text === '1' && third?.length === 1;
    return isPrefix ? longer(seconds, PREFIX_SECONDS.get(Number(third?.[0]?.text)) ?? 1) : undefined;
  }
  if (called === 'CONCAT') return args.slice(1).every((rest) => rest.every(isFixed)) ? seconds : undefined;
  return CONVERTING.test(called) ? seconds : undefined;
}

/** A group is as long as the longer of two truncations of the same time. */
function longer(seconds: number | undefined, other: number | undefined): number | undefined {
  return seconds === undefined || other === undefined ? undefined : Math.max(seconds, other);
}

/** `INTERVAL 5 MINUTE`, `INTERVAL '5 minutes'`, `toIntervalMinute(5)`. */
function readInterval(tokens: readonly SqlToken[]): number | undefined {
  const text = tokens.map((token) => (token.kind === 'string' ? textOf([token]) : token.text)).join(' ');
  const found = /^(?:INTERVAL (\d+) (\w+?)S?|toInterval(\w+?) \( (\d+) \))$/i.exec(text);
  const unit = UNIT_SECONDS.get((found?.[2] ?? found?.[3] ?? '').toUpperCase());
  return unit === undefined ? undefined : unit * Number(found?.[1] ?? found?.[4]);
}

function readFormat(format: string): number {
  return FORMAT_SECONDS.find(([pattern]) => pattern.test(format))?.[1] ?? 1;
}

/** A column, with or without its table. */
function readName(tokens: readonly SqlToken[]): string | undefined {
  const last = tokens.at(-1);
  const isColumn = tokens.length === 1 || (tokens.length === 3 && tokens[1]?.text === '.');
  return isColumn && last && isName(last) ? nameOf(last) : undefined;
}

function closesAt(tokens: readonly SqlToken[], open: number): number {
  const depth = tokens[open]?.depth;
  return tokens.findIndex((token, index) => index > open && token.depth === depth && /^[)\]]$/.test(token.text));
}

function isFixed(token: SqlToken): boolean {
  return token.kind === 'string' || token.text === '||';
}

function textOf(tokens: readonly SqlToken[]): string {
  const [only] = tokens;
  return tokens.length === 1 && only?.kind === 'string' ? only.text.slice(1, -1) : '';
}
