/**
 * Which of the engine's functions a query may call. Invariant: a function that the engine has is refused unless its
 * category is on the list here, so that a new engine's new kinds are refused by default; a name that the engine does not
 * have is let through, because the engine's own answer to it (UNKNOWN_FUNCTION) is the right one. Compared in lower case.
 */
import type { Engine } from '../engine/engine.ts';

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
  'Tuple',
  'Type Conversion',
  'UUID',
  'Window',
  'Window Functions',
]);

/** Harmless functions of the category `Other`, which otherwise holds files, settings and the server's own state. */
const ALLOWED_OTHERS: readonly string[] = [
  'bar',
  'byteSize',
  'countDigits',
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
 * Refused whatever their category: they do not stop at the time limit (edit distances), fail on purpose, print the
 * engine's stack or build unbounded text.
 */
const REFUSED =
  /^(jaro|damerau|levenshtein|editdistance|stringjaccard|sleep|throw|aggthrow|flamegraph|arrayreduce|formatrow|estimatecompression|generate|file$|url$|s3|remote|dict|joinget|getsetting|currentuser|hostname|mergetree)/;

/** Suffixes that make another aggregate function out of one, lower case. */
const COMBINATOR =
  /(if|array|map|distinct|ordefault|ornull|foreach|resample|argmin|argmax|null|simplestate|state|mergestate|merge)$/;

/** Intermediate states come from bytes that a query may forge, and the engine trusts them. */
const STATE_COMBINATOR = /(state|merge)$/;

interface EngineFunction {
  readonly name: string;
  readonly category: string;
  readonly is_aggregate: number;
}

export class FunctionList {
  readonly #aggregates = new Set<string>();
  readonly #allowed = new Set<string>();
  readonly #known = new Set<string>();

  constructor(functions: readonly EngineFunction[]) {
    const others = new Set(ALLOWED_OTHERS.map((name) => name.toLowerCase()));
    for (const { name, category, is_aggregate } of functions) {
      const key = name.toLowerCase();
      this.#known.add(key);
      if (is_aggregate) this.#aggregates.add(key);
      if (!REFUSED.test(key) && (ALLOWED_CATEGORIES.has(category) || others.has(key))) this.#allowed.add(key);
    }
  }

  /** Whether a query may call `name`, or name it although the engine has no such function. */
  isAllowed(name: string): boolean {
    const key = name.toLowerCase();
    if (this.#known.has(key)) return this.#allowed.has(key);
    if (REFUSED.test(key) || key.startsWith('__')) return false;
    const base = this.#stripCombinators(key);
    if (base === undefined) return true;
    return this.#allowed.has(base) && !STATE_COMBINATOR.test(key);
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

/** Asks the engine which functions it has; an alias counts as what it stands for. */
export async function readFunctionList(engine: Pick<Engine, 'rows'>): Promise<FunctionList> {
  return new FunctionList(
    await engine.rows<EngineFunction>(
      `SELECT name, toUInt8(is_aggregate) AS is_aggregate, if(alias_to = '', categories, target.category) AS category
       FROM system.functions AS called
       LEFT JOIN (SELECT name AS target_name, categories AS category FROM system.functions) AS target
         ON target.target_name = called.alias_to`,
    ),
  );
}
