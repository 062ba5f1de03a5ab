/**
 * Checks the time zone arguments of functions. The engine may read such a name as a file of its host, so it must be
 * visible in the statement: a literal, or an alias of one. Tables of data and two checks. Pure.
 */
import type { SyntaxNode } from './syntax-tree.ts';

/** Time zone names that refer to files and settings of the host. */
const HOST_ZONE = /'(file:|libc:|localtime')/i;

/** Index of the first argument, from 0, from which a function takes only a time zone. Lower case. */
const ZONE_PLACES: readonly (readonly [RegExp, number])[] = [
  [/^(now|nowinblock|current_timestamp|localtimestamp)$/, 0],
  [/^(to_?timezone|(from|to)_?utc_?timestamp|now(inblock)?64|tostring|tounixtimestamp|to_unixtime)$/, 1],
  [/^(todate(32)?|todatetime(32)?(or(null|zero))?|parsedatetime(32|64)?besteffort\w*|fromunixtimestamp64\w+)$/, 1],
  [/^to(year|quarter|month|dayofmonth|dayofyear|hour|minute|second|monday|yyyymm\w*|iso\w+|relative\w+)$/, 1],
  [/^tostartof(year|quarter|month|day|hour|minute|second|fiveminutes?|tenminutes|fifteenminutes|isoyear)$/, 1],
  [/^(year|quarter|month|day|dayofmonth|dayofyear|hour|minute|second)$/, 1],
  [/^(todatetime64\w*|formatdatetime\w*|date_format|parsedatetime(64)?(orzero|ornull|injoda\w*)?|datename)$/, 2],
  [/^(tostartofweek|tolastdayofweek|toweek|week|toyearweek|yearweek|todayofweek|dayofweek|date_?trunc)$/, 2],
  [/^(datediff|date_diff|timestamp_?diff|age)$/, 3],
  [/^(add|subtract)\w+$/, 2],
  [/^makedate(32)?$/, 3],
  [/^makedatetime$/, 6],
  [/^makedatetime64$/, 8],
];

/** Functions that return numbers, times or intervals. Lower case. */
const NO_TEXT =
  /^(tointerval\w+|to(u?int|float|decimal)\d+|todate(32|time|time32|time64)?|plus|minus|multiply|divide|intdiv|modulo|negate|now|today|yesterday)$/;

/** Whether a literal, without its escapes, names a time zone of the host. */
export function namesHostZone(literal: string): boolean {
  return HOST_ZONE.test(literal);
}

/**
 * Whether every time zone in a call is visible in the statement.
 * @param textAliases names that the statement gives to text literals, lower case
 * @param mayTakeZone whether the function may take a time zone. The argument's position is known only for some
 *   functions; for the others, no argument from the second on may be a computed text
 */
export function hasPlainZones(call: SyntaxNode, textAliases: ReadonlySet<string>, mayTakeZone: boolean): boolean {
  const place = ZONE_PLACES.find(([pattern]) => pattern.test(call.value.toLowerCase()))?.[1];
  if (place === undefined && !mayTakeZone) return true;
  const isReadable = ({ kind, value }: SyntaxNode) =>
    kind === 'Literal' || (kind === 'Identifier' && textAliases.has(value.toLowerCase()));
  const args = call.children[0]?.children ?? [];
  if (place !== undefined) return args.slice(place).every(isReadable);
  return args.slice(1).every((argument) => isReadable(argument) || isNoText(argument));
}

function isNoText({ kind, value }: SyntaxNode): boolean {
  return kind === 'Function' && NO_TEXT.test(value.toLowerCase());
}
