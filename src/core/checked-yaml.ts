/**
 * YAML (and so also JSON) checked by a schema. Invariant: a text is either accepted whole or refused. All faults of its
 * syntax, or else of its shape, are listed together, each with file, line, key path (if it has one), the value found and
 * what is allowed.
 */
import { type Document, isMap, isScalar, type Node, parseDocument, visit, type YAMLParseError } from 'yaml';
import { z } from 'zod';
import { describeError, type Fault, findPlace, isFault, type Place } from './errors.ts';
import { findNearest } from './nearest.ts';

type KeyPath = readonly (string | number)[];
/** @param faults one a line @param places of those that have one */
type Refuse = (faults: readonly string[], places: readonly Place[]) => Fault;

/** More faults of one file have one reason, and nobody reads them. */
const MAX_FAULTS = 100;
const TOO_DEEP = 'sections or lists are nested too deeply';
/** A value that came is shown up to this length. */
const MAX_SHOWN_LENGTH = 200;

/** The value of a text, as the schema makes it. @throws what `refuse` makes of the faults */
export function parseYaml<T extends z.ZodType>(file: string, text: string, schema: T, refuse: Refuse): z.output<T> {
  const { contents, value } = readYaml(file, text, refuse);
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  const shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  const { issues } = checked.error;
  const faults = issues
    .slice(0, MAX_FAULTS)
    .flatMap((issue) => describeIssue(issue, value, shape))
    .map(({ path, says }) => ({ path, says, place: findPlace(file, text, ...findKey(contents, path)) }))
    .sort((a, b) => a.place.line - b.place.line);
  const others = issues.length - MAX_FAULTS;
  throw refuse(
    [
      ...faults.map(({ path, says, place }) => `${describePlace(place, path)}: ${says}`),
      ...(others > 0 ? [`${file}: and ${others} more faults`] : []),
    ],
    faults.map(({ place }) => place),
  );
}

/**
 * The nodes and the value of a text. Aliases that would expand without end, and what is nested too deeply to read, are
 * refused. @throws what `refuse` makes of the faults
 */
export function readYaml(file: string, text: string, refuse: Refuse) {
  let document: Document.Parsed | undefined;
  try {
    document = parseDocument(text, { prettyErrors: false, uniqueKeys: true });
    if (document.errors.length > 0) throw refuseSyntax(file, text, document.errors, refuse);
    const value: unknown = document.toJS();
    // Not of a value that contains itself.
    JSON.stringify(value);
    return { contents: document.contents, value };
  } catch (error) {
    if (isFault(error)) throw error;
    if (error instanceof RangeError) throw refuse([`${file}: ${TOO_DEEP}`], []);
    const ranges: number[] = [];
    if (document) visit(document, { Alias: (_, { range }) => void ranges.push(...(range ?? [])) });
    const place = findPlace(file, text, ranges[0] ?? 0, ranges[1] ?? 1);
    const what = error instanceof TypeError ? 'an alias stands for a value that contains it' : describeError(error);
    const allowed = 'an alias (*name) repeats a value that was written before it, and few of them are needed';
    throw refuse([`${file}:${place.line}: ${what}; ${allowed}`], [place]);
  }
}

/** The first error of each line: those after it follow from it. */
function refuseSyntax(file: string, text: string, errors: readonly YAMLParseError[], refuse: Refuse): Fault {
  const byLine = new Map<number, { readonly message: string; readonly place: Place }>();
  for (const { message, pos } of errors.slice(0, MAX_FAULTS)) {
    const place = findPlace(file, text, ...pos);
    const said = /call stack/.test(message) ? TOO_DEEP : message;
    if (!byLine.has(place.line)) byLine.set(place.line, { message: explainAlias(place.text) ?? said, place });
  }
  const faults = [...byLine.values()];
  return refuse(
    faults.map(({ message, place }) => `${file}:${place.line}: ${message}`),
    faults.map(({ place }) => place),
  );
}

/** YAML takes a star at the beginning of a value as a reference, which schedules often have. */
function explainAlias(line: string): string | undefined {
  const [, key, value] = /^[\s-]*([\w-]+):\s*(\*[^#]*?)\s*(?:#.*)?$/.exec(line) ?? [];
  return key === undefined ? undefined : `a value that begins with * needs quotes: ${key}: "${value}"`;
}

/** File, line and key path, as a fault begins. */
export function describePlace({ file, line }: Place, path: KeyPath): string {
  return `${file}:${line}: ${path.join('.') || 'the file'}`;
}

function describeIssue(
  issue: z.core.$ZodIssue,
  value: unknown,
  whole: Shape,
): readonly { readonly path: KeyPath; readonly says: string }[] {
  const path = issue.path.filter((key) => typeof key !== 'symbol');
  const came = readPath(value, path);
  if (issue.code === 'unrecognized_keys') {
    const allowed = Object.keys(chooseShape(shapeAt(path, value, whole), came)?.properties ?? {});
    return issue.keys.map((key) => {
      const near = findNearest(key, allowed);
      const meant = near ? ` (did you mean "${near}"?)` : '';
      return { path: [...path, key], says: `unknown key "${key}"${meant}; allowed here: ${allowed.join(', ')}` };
    });
  }
  const inner = issue.code === 'invalid_union' ? chooseIssues(issue, came) : undefined;
  if (inner) return inner.flatMap((found) => describeIssue({ ...found, path: [...path, ...found.path] }, value, whole));
  if (came !== undefined)
    return [{ path, says: `got ${showValue(came)}; ${describeExpected(issue)}${suggestValue(issue, came)}` }];
  const about = shapeAt(path, value, whole)?.description;
  return [{ path, says: `is missing; ${describeExpected(issue)}${about ? `: ${about}` : ''}` }];
}

function showValue(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH)}…`;
}

/** Issues of a value with several allowed kinds: those of the kind that it has, or one that lists all kinds. */
function chooseIssues(issue: z.core.$ZodIssueInvalidUnion, value: unknown): readonly z.core.$ZodIssue[] | undefined {
  if (issue.errors.length === 0) return undefined;
  const isOfKind = (issues: readonly z.core.$ZodIssue[]) =>
    !issues.some(({ code, path }) => code === 'invalid_type' && path.length === 0);
  const chosen = issue.errors.find(isOfKind);
  if (chosen) return chosen;
  const kinds = issue.errors.flatMap((issues) => issues.slice(0, 1).map(describeExpected));
  const message = kinds.join(', or ');
  return [{ code: 'custom', path: [], message, input: value, params: {} }];
}

/** Suggests the nearest allowed value. */
function suggestValue(issue: z.core.$ZodIssue, came: unknown): string {
  const allowed = issue.code === 'invalid_value' ? issue.values.map(String) : [];
  const near = typeof came === 'string' ? findNearest(came, allowed) : undefined;
  return near === undefined ? '' : ` (did you mean "${near}"?)`;
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  array: 'a list',
  object: 'a section of keys',
  int: 'a whole number',
};

function describeExpected(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_value':
      return `allowed: ${issue.values.map((value) => String(value)).join(', ')}`;
    case 'invalid_type':
      return `it must be ${TYPE_WORDS[issue.expected] ?? `a ${issue.expected}`}`;
    case 'invalid_union':
      return 'options' in issue && issue.options ? `allowed: ${issue.options.join(', ')}` : issue.message;
    case 'too_small':
      if (!isNumeric(issue.origin)) return 'it must not be empty';
      return `it must be ${issue.inclusive ? 'at least' : 'more than'} ${issue.minimum}`;
    case 'too_big':
      if (!isNumeric(issue.origin)) return issue.message;
      return `it must be ${issue.inclusive ? 'at most' : 'less than'} ${issue.maximum}`;
    default:
      return issue.message;
  }
}

function isNumeric(origin: string): boolean {
  return origin === 'number' || origin === 'int';
}

type Shape = z.core.JSONSchema.BaseSchema;

/** What the schema says of a path. */
function shapeAt(path: KeyPath, value: unknown, whole: Shape): Shape | undefined {
  return path.reduce<Shape | undefined>((shape, key, depth) => {
    const { items, properties } = chooseShape(shape, readPath(value, path.slice(0, depth))) ?? {};
    return (typeof key === 'number' ? items : properties?.[key]) as Shape | undefined;
  }, whole);
}

/** Of several shapes, the section whose fixed keys the value has. */
function chooseShape(shape: Shape | undefined, value: unknown): Shape | undefined {
  const options = shape?.anyOf ?? shape?.oneOf;
  if (options === undefined) return shape;
  return options.find(({ properties }) => {
    const fixed = Object.entries(properties ?? {}).filter(
      ([, one]) => typeof one === 'object' && one.const !== undefined,
    );
    return properties && fixed.every(([key, one]) => (one as Shape).const === readPath(value, [key]));
  });
}

function readPath(value: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((node, key) => (node as Record<string | number, unknown> | undefined)?.[key], value);
}

/** Offsets of the deepest key of `path` that the file has; for an empty file, its beginning. */
export function findKey(contents: unknown, path: KeyPath): readonly [number, number] {
  let node = contents as Node | null;
  const rangeOf = (found: Node | null | undefined) => found?.range && ([found.range[0], found.range[1]] as const);
  let range = [node?.range?.[0] ?? 0, node?.range?.[0] ?? 0] as const;
  for (const key of path) {
    const pair = isMap(node) ? node.items.find((item) => isScalar(item.key) && item.key.value === key) : undefined;
    const next = (pair?.value ??
      (node as { get?(key: unknown, keep: true): unknown } | null)?.get?.(key, true)) as Node | null;
    range = (pair && isScalar(pair.key) ? rangeOf(pair.key) : undefined) ?? rangeOf(next) ?? range;
    if (!next) break;
    node = next;
  }
  return range;
}
