/**
 * Decides which engine functions a query may call. Invariant: a function of the engine is refused unless its category
 * or its name is on a list here, so new categories of a new engine are refused by default. A name that no engine has is
 * allowed, because the engine's own error (UNKNOWN_FUNCTION) is the right answer. Names are compared in lower case. The engine
 * may read the name of a time zone as a file of its host, so it must be visible in the statement: a literal, or an alias of
 * one.
 */
import type { ParserRows, TreeNode } from './engine-tree.ts';

/** Categories of `system.functions` whose functions compute only from their arguments. */
const ALLOWED_CATEGORIES: ReadonlySet<string> = new Set([
  'Aggregate Functions',
  'Arithmetic',
  'Arrays',
  'Array',
  'Bit',
  'Comparison',
  'Conditional',
  'Dates and Times',
  'Distance',
  'Encoding',
  'Financial',
  'Hash',
  'JSON',
  'Logical',
  'Map',
  'Mathematical',
  'Null',
  'Rounding',
  'String',
  'String Replacement',
  'String Search',
  'String Splitting',
  'Time Window',
  'Tuple',
  'Type Conversion',
  'UUID',
  'Window',
  'Window Functions',
]);

/** Functions of these categories may take the name of a time zone. */
const ZONE_CATEGORIES = /Dates and Times|Time Window|Type Conversion|UUID/;

/** Harmless functions of other categories, which otherwise contain access to files, settings and server state. */
const ALLOWED_OTHERS: readonly string[] = [
  'bar',
  'byteSize',
  'caseWithExpression',
  'countDigits',
  'digits',
  'formatReadableDecimalSize',
  'formatReadableQuantity',
  'formatReadableSize',
  'formatReadableTimeDelta',
  'identity',
  'isConstant',
  'isDecimalOverflow',
  'materialize',
  'neighbor',
  'parseReadableSize',
  'rand',
  'rand64',
  'randCanonical',
  'randNormal',
  'randUniform',
  'rowNumberInAllBlocks',
  'rowNumberInBlock',
  'runningDifference',
  'runningDifferenceStartingWithFirstValue',
  'toColumnTypeName',
  'toTypeName',
  'transform',
  'visibleWidth',
];

/**
 * Refused in every category: functions that do not stop at the time limit (edit distances), fail on purpose, name the
 * engine or its host, print its stack, or build unbounded text.
 */
const REFUSED =
  /^(jaro|damerau|levenshtein|editdistance|stringjaccard|arraylevenshtein|arraysimilarity|sleep|throw|aggthrow|flamegraph|arrayreduce|formatrow|groupformat|estimatecompression|generate|file$|url$|s3|remote|dict|joinget|getsetting|currentuser|hostname|servertimezone|chdb$|mergetree)/;

/** Suffixes that turn an aggregate function into another one, lower case. */
const COMBINATOR =
  /(if|array|map|distinct|ordefault|ornull|foreach|resample|argmin|argmax|null|simplestate|state|mergestate|merge)$/;

/** A query could forge the bytes of intermediate states, and the engine trusts them. */
const STATE_COMBINATOR = /state|merge/;

interface EngineFunction {
  readonly name: string;
  readonly category: string;
  readonly is_aggregate: number;
  /** Function that an alias refers to; empty if not an alias. */
  readonly alias_to: string;
}

export class FunctionList {
  readonly #aggregates = new Set<string>();
  readonly #allowed = new Set<string>();
  readonly #known: Set<string>;
  readonly #zoned = new Set<string>();

  /**
   * @param functions the functions of the engine whose categories are trusted
   * @param others function names of another engine, such as a server with its own functions; refused unless the first
   *   engine has them too and they are allowed
   */
  constructor(functions: readonly EngineFunction[], others: readonly string[] = []) {
    this.#known = new Set([...others, ...functions.map(({ name }) => name)].map((name) => name.toLowerCase()));
    const harmless = new Set(ALLOWED_OTHERS.map((name) => name.toLowerCase()));
    for (const { name, category, is_aggregate } of functions) {
      const key = name.toLowerCase();
      if (is_aggregate) this.#aggregates.add(key);
      if (ZONE_CATEGORIES.test(category)) this.#zoned.add(key);
      if (!REFUSED.test(key) && (ALLOWED_CATEGORIES.has(category) || harmless.has(key))) this.#allowed.add(key);
    }
    // An alias has the status of its function, which may be a combination that no list contains.
    for (const { name, alias_to } of functions) {
      const key = name.toLowerCase();
      if (this.#zoned.has(alias_to.toLowerCase())) this.#zoned.add(key);
      if (alias_to === '' || REFUSED.test(key)) continue;
      if (this.isAllowed(alias_to)) this.#allowed.add(key);
      else this.#allowed.delete(key);
    }
  }

  /** Whether a query may call `name`; also true for names that no engine has as a function. */
  isAllowed(name: string): boolean {
    const key = name.toLowerCase();
    if (this.#allowed.has(key)) return true;
    if (REFUSED.test(key) || key.startsWith('__')) return false;
    const base = this.#stripCombinators(key);
    if (base === undefined) return !this.#known.has(key);
    return this.#allowed.has(base) && !STATE_COMBINATOR.test(key.slice(base.length));
  }

  /** Whether `name` may take the name of a time zone. */
  mayTakeZone(name: string): boolean {
    return this.#zoned.has(name.toLowerCase());
  }

  /** Whether `name` is a function that a query may not call. The engine calls some functions without parentheses. */
  isRefused(name: string): boolean {
    return this.#known.has(name.toLowerCase()) && !this.isAllowed(name);
  }

  /** The aggregate function from which `key` is combined; undefined if there is none. */
  #stripCombinators(key: string): string | undefined {
    for (let rest = key; COMBINATOR.test(rest); ) {
      rest = rest.replace(COMBINATOR, '');
      if (this.#aggregates.has(rest)) return rest;
    }
    return undefined;
  }
}

/**
 * Reads the engine's functions; an alias has the status of its function.
 * @param others function names that another engine has
 */
export async function readFunctionList(engine: ParserRows, others: readonly string[] = []): Promise<FunctionList> {
  const functions = await engine.rows<EngineFunction>(
    'SELECT name, toUInt8(is_aggregate) AS is_aggregate, categories AS category, alias_to FROM system.functions',
  );
  return new FunctionList(functions, others);
}

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
export function hasPlainZones(call: TreeNode, textAliases: ReadonlySet<string>, mayTakeZone: boolean): boolean {
  const place = ZONE_PLACES.find(([pattern]) => pattern.test(call.value.toLowerCase()))?.[1];
  if (place === undefined && !mayTakeZone) return true;
  const isReadable = ({ kind, value }: TreeNode) =>
    kind === 'Literal' || (kind === 'Identifier' && textAliases.has(value.toLowerCase()));
  const args = call.children[0]?.children ?? [];
  if (place !== undefined) return args.slice(place).every(isReadable);
  return args.slice(1).every((argument) => isReadable(argument) || isNoText(argument));
}

function isNoText({ kind, value }: TreeNode): boolean {
  return kind === 'Function' && NO_TEXT.test(value.toLowerCase());
}
