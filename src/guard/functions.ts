/**
 * Which of the engine's functions a query may call. Invariant: a function that the engine has is refused unless its
 * category is on the list here, so that a new engine's new kinds are refused by default; a name that no engine has is let
 * through, because the engine's own answer to it (UNKNOWN_FUNCTION) is the right one. Compared in lower case.
 */
import type { ParserRows } from './parser.ts';

/** Categories of `system.functions` that compute from their arguments alone. */
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

/** Functions of these may take the name of a time zone. */
const ZONE_CATEGORIES = /Dates and Times|Time Window|Type Conversion|UUID/;

/** Harmless functions of other categories, which otherwise hold files, settings and the server's own state. */
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
 * Refused whatever their category: they do not stop at the time limit (edit distances), fail on purpose, name the engine
 * or its host, print its stack or build unbounded text.
 */
const REFUSED =
  /^(jaro|damerau|levenshtein|editdistance|stringjaccard|arraylevenshtein|arraysimilarity|sleep|throw|aggthrow|flamegraph|arrayreduce|formatrow|groupformat|estimatecompression|generate|file$|url$|s3|remote|dict|joinget|getsetting|currentuser|hostname|servertimezone|chdb$|mergetree)/;

/** Suffixes that make another aggregate function out of one, lower case. */
const COMBINATOR =
  /(if|array|map|distinct|ordefault|ornull|foreach|resample|argmin|argmax|null|simplestate|state|mergestate|merge)$/;

/** Intermediate states come from bytes that a query may forge, and the engine trusts them. */
const STATE_COMBINATOR = /state|merge/;

interface EngineFunction {
  readonly name: string;
  readonly category: string;
  readonly is_aggregate: number;
  /** What an alias stands for; empty for others. */
  readonly alias_to: string;
}

export class FunctionList {
  readonly #aggregates = new Set<string>();
  readonly #allowed = new Set<string>();
  readonly #known: Set<string>;
  readonly #zoned = new Set<string>();

  /**
   * @param functions the functions of the engine whose kinds are trusted
   * @param others names that another engine has as well, such as a server with functions of its own: refused unless the
   *   first one has them too and they are allowed
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
    // An alias is as good as what it stands for, which may be a combination that no list names.
    for (const { name, alias_to } of functions) {
      const key = name.toLowerCase();
      if (this.#zoned.has(alias_to.toLowerCase())) this.#zoned.add(key);
      if (alias_to === '' || REFUSED.test(key)) continue;
      if (this.isAllowed(alias_to)) this.#allowed.add(key);
      else this.#allowed.delete(key);
    }
  }

  /** Whether a query may call `name`, or name it although no engine has such a function. */
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

  /** Whether `name` is a function that a query may not call: the engine calls some of them without parentheses. */
  isRefused(name: string): boolean {
    return this.#known.has(name.toLowerCase()) && !this.isAllowed(name);
  }

  /** The aggregate function that `key` is a combination of, if it is one. */
  #stripCombinators(key: string): string | undefined {
    for (let rest = key; COMBINATOR.test(rest); ) {
      rest = rest.replace(COMBINATOR, '');
      if (this.#aggregates.has(rest)) return rest;
    }
    return undefined;
  }
}

/**
 * Asks the engine which functions it has; an alias counts as what it stands for.
 * @param others names that another engine has as well
 */
export async function readFunctionList(engine: ParserRows, others: readonly string[] = []): Promise<FunctionList> {
  const functions = await engine.rows<EngineFunction>(
    'SELECT name, toUInt8(is_aggregate) AS is_aggregate, categories AS category, alias_to FROM system.functions',
  );
  return new FunctionList(functions, others);
}
