/**
 * Job files: YAML text to a resolved job. Invariant: a file is accepted whole or refused with every fault it has, each
 * with file, line, key path, what came and what is allowed.
 */
import { isMap, isScalar, LineCounter, type Node, parseDocument } from 'yaml';
import type { z } from 'zod';
import { Fault } from '../core/errors.ts';
import type { Job } from './job.ts';
import { ResolveFault, resolveJob } from './resolve.ts';
import { jobSchema } from './shape.ts';

type KeyPath = readonly (string | number)[];

/** @throws Fault `JOB_INVALID` (kind `usage`) whose message lists every fault, one a line */
export function parseJob(file: string, text: string): Job {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  if (document.errors.length > 0) {
    throw invalidJob(document.errors.map((error) => `${file}:${lines.linePos(error.pos[0]).line}: ${error.message}`));
  }
  const at = (path: KeyPath) => `${file}:${findLine(document.contents, path, lines)}: ${path.join('.') || 'the file'}`;
  const value: unknown = document.toJS();
  const checked = jobSchema.safeParse(value);
  if (!checked.success) {
    throw invalidJob(checked.error.issues.flatMap((issue) => describeIssue(issue, value, at)));
  }
  try {
    return resolveJob(file, checked.data);
  } catch (error) {
    if (error instanceof ResolveFault) throw invalidJob([`${at(error.path)}: ${error.message}`]);
    throw error;
  }
}

function invalidJob(faults: readonly string[]): Fault {
  return new Fault('JOB_INVALID', faults.join('\n'), {
    kind: 'usage',
    hint: 'Mend the job file; `flowdrop schema` prints every key, `flowdrop check` tries it again.',
  });
}

function describeIssue(issue: z.core.$ZodIssue, value: unknown, at: (path: KeyPath) => string): readonly string[] {
  const path = issue.path.filter((key) => typeof key !== 'symbol');
  if (issue.code === 'unrecognized_keys') {
    const allowed = listKeys(path);
    return issue.keys.map((key) => {
      const near = allowed.find((candidate) => isNear(candidate, key));
      return `${at([...path, key])}: unknown key "${key}"${near ? ` (did you mean "${near}"?)` : ''}; allowed here: ${allowed.join(', ')}`;
    });
  }
  const came = readPath(value, path);
  if (came === undefined) {
    const about = describeKey(path);
    return [`${at(path)}: is missing; ${describeExpected(issue)}${about ? `: ${about}` : ''}`];
  }
  return [`${at(path)}: got ${JSON.stringify(came)}; ${describeExpected(issue)}`];
}

function describeExpected(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_value':
      return `allowed: ${issue.values.map((value) => String(value)).join(', ')}`;
    case 'invalid_type':
      return `it must be ${issue.expected === 'array' ? 'a list' : issue.expected === 'object' ? 'a section of keys' : `a ${issue.expected}`}`;
    case 'too_small':
      return 'it must not be empty';
    default:
      return issue.message;
  }
}

/** What the schema says a key is for. */
function describeKey(path: KeyPath): string | undefined {
  let schema: unknown = jobSchema;
  for (const key of path) schema = childSchema(unwrap(schema), key);
  return (schema as { description?: string } | undefined)?.description;
}

/** The keys that the schema allows at a path, in the schema's order. */
function listKeys(path: KeyPath): readonly string[] {
  let shape: unknown = jobSchema;
  for (const key of path) shape = childSchema(unwrap(shape), key);
  const object = unwrap(shape) as { shape?: Record<string, unknown> };
  return Object.keys(object.shape ?? {});
}

function childSchema(schema: unknown, key: string | number): unknown {
  const node = schema as { shape?: Record<string, unknown>; element?: unknown };
  return typeof key === 'number' ? node.element : node.shape?.[key];
}

function unwrap(schema: unknown): unknown {
  let node = schema as { def?: { innerType?: unknown } };
  while (node?.def?.innerType !== undefined) node = node.def.innerType as typeof node;
  return node;
}

function readPath(value: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((node, key) => (node as Record<string | number, unknown> | undefined)?.[key], value);
}

/** Line of the deepest part of `path` that the file has, 1 for an empty file. */
function findLine(contents: unknown, path: KeyPath, lines: LineCounter): number {
  let node = contents as Node | null;
  let offset = node?.range?.[0] ?? 0;
  for (const key of path) {
    const pair = isMap(node) ? node.items.find((item) => isScalar(item.key) && item.key.value === key) : undefined;
    const next = (pair?.value ??
      (node as { get?(key: unknown, keep: true): unknown } | null)?.get?.(key, true)) as Node | null;
    const keyOffset = pair && isScalar(pair.key) ? pair.key.range?.[0] : undefined;
    offset = keyOffset ?? next?.range?.[0] ?? offset;
    if (!next) break;
    node = next;
  }
  return lines.linePos(offset).line;
}

/** One edit apart, or the same but for case. */
function isNear(a: string, b: string): boolean {
  if (a.toLowerCase() === b.toLowerCase()) return true;
  if (Math.abs(a.length - b.length) > 1) return false;
  const [short, long] = a.length <= b.length ? [a, b] : [b, a];
  let i = 0;
  while (i < short.length && short[i] === long[i]) i += 1;
  const swapped = short[i] === long[i + 1] && short[i + 1] === long[i] && short.slice(i + 2) === long.slice(i + 2);
  return short.slice(i) === long.slice(i + 1) || short.slice(i + 1) === long.slice(i + 1) || swapped;
}
