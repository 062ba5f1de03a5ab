/**
 * Where functions take the name of a time zone. To the engine such a name can be a file of its host, so it must be
 * readable in the statement: a literal, or an alias of one. A table of data and one question. Pure.
 */
import type { SyntaxNode } from './syntax-tree.ts';

/** Names of time zones that stand for files and settings of the host. */
const HOST_ZONE = /'(file:|libc:|localtime')/i;

/** From which argument on, counted from 0, a function takes nothing but a time zone. Lower case. */
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

/** Functions whose results are numbers, times or intervals. Lower case. */
const NO_TEXT =
  /^(tointerval\w+|to(u?int|float|decimal)\d+|todate(32|time|time32|time64)?|plus|minus|multiply|divide|intdiv|modulo|negate|now|today|yesterday)$/;

/** Whether a literal, without its escapes, names a zone of the host. */
export function namesHostZone(literal: string): boolean {
  return HOST_ZONE.test(literal);
}

/**
 * Whether every time zone that a call names can be read in the statement.
 * @param textAliases names that the statement gives to text literals, lower case
 * @param mayTakeZone whether the called function may take a zone; where, is known of some only: the others take, from the
 *   second argument on, nothing that can be a text that was put together
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
