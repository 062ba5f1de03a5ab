/**
 * Finds the length of the time groups that an expression makes, for common expressions. Invariant: a returned length is
 * never longer than the real groups. Other expressions return no length, and the run checks their groups. Pure.
 */
import {
  aliasOf,
  argumentsOf,
  functionOf,
  identifierOf,
  numberOf,
  type QueryNode,
  textOf,
  walkQuery,
} from './query-tree.ts';

const DAY_SECONDS = 86_400;
const UNIT_SECONDS: ReadonlyMap<string, number> = new Map([
  ['SECOND', 1],
  ['MINUTE', 60],
  ['HOUR', 3600],
  ['DAY', DAY_SECONDS],
  ['WEEK', 7 * DAY_SECONDS],
  // The shortest of each unit; all are longer than any grain.
  ['MONTH', 28 * DAY_SECONDS],
  ['QUARTER', 90 * DAY_SECONDS],
  ['YEAR', 365 * DAY_SECONDS],
]);

/** Functions of one time whose name states the group length, in capitals. */
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

/** Functions that return the same time in another type. */
const CONVERTING =
  /^(TOSTRING|TODATETIME(32|64)?(ORNULL|ORZERO)?|PARSEDATETIME\w*|ASSUMENOTNULL|TONULLABLE|MATERIALIZE|IDENTITY)$/;

/** Resolution in seconds of a prefix of `YYYY-MM-DD HH:MM:SS`, by prefix length. */
const PREFIX_SECONDS: ReadonlyMap<number, number> = new Map([
  [10, DAY_SECONDS],
  [11, DAY_SECONDS],
  [13, 3600],
  [14, 3600],
  [15, 600],
  [16, 60],
  [17, 60],
]);

/** Resolution of a format: that of its finest part. Unknown letters count as the finest. */
const FORMAT_SECONDS = [
  [/%[^YmdFHiRe%]/, 1],
  [/%[iR]/, 60],
  [/%H/, 3600],
  [/%[YmdFe]/, DAY_SECONDS],
] as const;

/** Formats, units and punctuation. Any other text in a time expression is a time zone. */
const NO_TIME_ZONE = /^(%.*|[^A-Za-z]*|second|minute|hour|day|[0-9]+ \w+)$/i;

/** Name of a SELECT column in the answer; empty for an expression without a name. */
export function nameOfItem(item: QueryNode): string {
  return aliasOf(item) ?? lastPart(identifierOf(item)) ?? '';
}

/**
 * @param items of the SELECT; a name in `item` may refer to another one
 * @returns seconds; `undefined` for any other than the common expressions
 */
export function findGroupSeconds(item: QueryNode, items: readonly QueryNode[]): number | undefined {
  return measure(item, items, [nameOfItem(item)]);
}

/** Whether the expression has a time zone, which may shift groups relative to the windows. */
export function hasTimeZone(expression: QueryNode): boolean {
  return [...walkQuery(expression, 'subqueries')].some((node) => {
    const text = textOf(node);
    return text !== undefined && !NO_TIME_ZONE.test(text);
  });
}

function measure(node: QueryNode, items: readonly QueryNode[], seen: readonly string[]): number | undefined {
  const name = lastPart(identifierOf(node));
  if (name !== undefined) {
    const item = seen.includes(name) ? undefined : items.find((found) => nameOfItem(found) === name);
    // An item that only repeats the column under its own name is the column itself.
    if (item && lastPart(identifierOf(item)) !== name) return measure(item, items, [...seen, name]);
    if (name === 'date') return DAY_SECONDS;
    return name === 'time' ? 1 : undefined;
  }
  const called = functionOf(node)?.toUpperCase();
  return called === undefined
    ? undefined
    : measureCall(called, argumentsOf(node), (inner) => inner && measure(inner, items, seen));
}

function measureCall(
  called: string,
  args: readonly QueryNode[],
  inner: (argument: QueryNode | undefined) => number | undefined,
): number | undefined {
  const [first, second, third] = args;
  if (called === 'DATE_TRUNC' || called === 'DATETRUNC') {
    return longer(inner(second), UNIT_SECONDS.get(readText(first).toUpperCase()));
  }
  const seconds = inner(first);
  if (seconds === undefined) return undefined;
  const truncated = TRUNCATING.get(called);
  if (truncated !== undefined) return longer(seconds, truncated);
  if (called === 'TOSTARTOFINTERVAL') return args.length === 2 ? longer(seconds, readInterval(second)) : undefined;
  if (called === 'FORMATDATETIME') return longer(seconds, readFormat(readText(second)));
  if (called === 'LEFT') return longer(seconds, readPrefix(second));
  if (/^(SUBSTRING|SUBSTR|MID)(UTF8)?$/.test(called)) {
    return second && numberOf(second) === 1 && third ? longer(seconds, readPrefix(third)) : undefined;
  }
  // The time followed only by constant texts.
  if (called === 'CONCAT') return args.slice(1).every((rest) => textOf(rest) !== undefined) ? seconds : undefined;
  return CONVERTING.test(called) ? seconds : undefined;
}

/** Two truncations of the same time give groups of the longer length. */
function longer(seconds: number | undefined, other: number | undefined): number | undefined {
  return seconds === undefined || other === undefined ? undefined : Math.max(seconds, other);
}

/** The engine turns `INTERVAL 5 MINUTE` into `toIntervalMinute(5)`. */
function readInterval(node: QueryNode | undefined): number | undefined {
  const unit = UNIT_SECONDS.get(/^toInterval(\w+)$/i.exec((node && functionOf(node)) ?? '')?.[1]?.toUpperCase() ?? '');
  const [count] = node ? argumentsOf(node) : [];
  const times = count && numberOf(count);
  return unit === undefined || times === undefined ? undefined : unit * times;
}

function readPrefix(length: QueryNode | undefined): number {
  return PREFIX_SECONDS.get((length && numberOf(length)) ?? 0) ?? 1;
}

function readFormat(format: string): number {
  return FORMAT_SECONDS.find(([pattern]) => pattern.test(format))?.[1] ?? 1;
}

function readText(node: QueryNode | undefined): string {
  return (node && textOf(node)) ?? '';
}

/** A column's name without its table. */
function lastPart(identifier: string | undefined): string | undefined {
  return identifier?.split('.').at(-1);
}
