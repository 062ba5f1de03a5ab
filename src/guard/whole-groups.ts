/**
 * Checks that each group of a SELECT lies in one window: the keys of its GROUP BY, and the length of the time groups that
 * common expressions make. Invariant: a length is never longer than the real groups. Of other expressions there is none, and
 * the run checks their groups. Pure.
 */
import { GRAIN_SECONDS, type Grain } from '../calendar/window.ts';
import {
  aliasOf,
  argumentsOf,
  attributesOf,
  childrenUnder,
  functionOf,
  identifierOf,
  numberOf,
  type TreeNode,
  textOf,
  walkTree,
} from './engine-tree.ts';
import { refuseSql } from './refusal.ts';

export interface GroupKeys {
  readonly grainSeconds: number;
  readonly timeColumn: string;
  /** The time column and all other columns that GROUP BY must contain. */
  readonly groupKeys: readonly string[];
}

/**
 * Requires as GROUP BY keys the time by which windows are cut, and the columns by which a grain may be split; then each
 * group lies in one window.
 */
export function assertGroups(query: TreeNode, groups: GroupKeys): void {
  const grouped = childrenUnder(query, 'GROUP BY');
  if (grouped.length === 0) throw refuseSql('has no GROUP BY: SQL with a `grain` must group by it');
  const items = childrenUnder(query, 'PROJECTION');
  for (const name of groups.groupKeys) {
    const item = items.find((found) => nameOfItem(found) === name);
    if (grouped.some((key) => isKeyOf(key, name, item, items))) continue;
    throw refuseSql(
      `does not group by "${name}", so a group could be split between two windows; name "${name}" in GROUP BY as a separate key`,
    );
  }
  assertGrain(query, items, groups);
}

/** Whether `key` is the column's name, its position in the SELECT, or the same expression. */
function isKeyOf(key: TreeNode, name: string, item: TreeNode | undefined, items: readonly TreeNode[]): boolean {
  if (aliasOf(key) !== undefined) return false;
  if (identifierOf(key) === name) return true;
  if (item === undefined) return false;
  const place = numberOf(key);
  return place === undefined ? isSame(key, item, ['alias']) : items[place - 1] === item;
}

function isSame(some: TreeNode, other: TreeNode, except: readonly string[] = []): boolean {
  const attributes = (node: TreeNode) =>
    JSON.stringify([...attributesOf(node)].filter(([key]) => !except.includes(key)));
  return (
    some.kind === other.kind &&
    attributes(some) === attributes(other) &&
    some.children.length === other.children.length &&
    some.children.every((child, index) => {
      const match = other.children[index];
      return match !== undefined && isSame(child, match);
    })
  );
}

/** Group windows end between grains: a longer group would lie in two of them. */
function assertGrain(query: TreeNode, items: readonly TreeNode[], { grainSeconds, timeColumn }: GroupKeys): void {
  const item = items.find((found) => nameOfItem(found) === timeColumn);
  const seconds = item && findGroupSeconds(item, items);
  const hasHaving = childrenUnder(query, 'HAVING').length > 0;
  if (hasHaving && (item === undefined || seconds === undefined || hasTimeZone(item))) {
    throw refuseSql(
      `HAVING hides parts of a group, so "${timeColumn}" must be computed from the column time in a usual way, such as toStartOfHour(toDateTime(time)), without a time zone; leave HAVING out, or compute it that way`,
    );
  }
  if (seconds === undefined || grainSeconds % seconds === 0) return;
  const grains = Object.keys(GRAIN_SECONDS) as Grain[]; // `Object.keys` loses the key type.
  const grain = grains.find((name) => GRAIN_SECONDS[name] === grainSeconds) ?? '';
  const right = grains.find((name) => GRAIN_SECONDS[name] % seconds === 0);
  const advice = right
    ? `write \`grain: ${right}\`, or group by the ${grain} or a part of it`
    : 'no grain has this length; group by the minute, the hour or the day, or by a part that divides it';
  throw refuseSql(
    `${timeColumn}: groups of ${seconds} seconds do not divide \`grain: ${grain}\`, ${grainSeconds} seconds, where windows end; ${advice}`,
  );
}

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
export function nameOfItem(item: TreeNode): string {
  return aliasOf(item) ?? lastPart(identifierOf(item)) ?? '';
}

/**
 * @param items of the SELECT; a name in `item` may refer to another one
 * @returns seconds; `undefined` for any other than the common expressions
 */
function findGroupSeconds(item: TreeNode, items: readonly TreeNode[]): number | undefined {
  return measure(item, items, [nameOfItem(item)]);
}

/** Whether the expression has a time zone, which may shift groups relative to the windows. */
function hasTimeZone(expression: TreeNode): boolean {
  return [...walkTree(expression)].some((node) => {
    const text = textOf(node);
    return text !== undefined && !NO_TIME_ZONE.test(text);
  });
}

function measure(node: TreeNode, items: readonly TreeNode[], seen: readonly string[]): number | undefined {
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
  args: readonly TreeNode[],
  inner: (argument: TreeNode | undefined) => number | undefined,
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
function readInterval(node: TreeNode | undefined): number | undefined {
  const unit = UNIT_SECONDS.get(/^toInterval(\w+)$/i.exec((node && functionOf(node)) ?? '')?.[1]?.toUpperCase() ?? '');
  const [count] = node ? argumentsOf(node) : [];
  const times = count && numberOf(count);
  return unit === undefined || times === undefined ? undefined : unit * times;
}

function readPrefix(length: TreeNode | undefined): number {
  return PREFIX_SECONDS.get((length && numberOf(length)) ?? 0) ?? 1;
}

function readFormat(format: string): number {
  return FORMAT_SECONDS.find(([pattern]) => pattern.test(format))?.[1] ?? 1;
}

function readText(node: TreeNode | undefined): string {
  return (node && textOf(node)) ?? '';
}

/** A column's name without its table. */
function lastPart(identifier: string | undefined): string | undefined {
  return identifier?.split('.').at(-1);
}
