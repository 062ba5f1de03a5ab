/**
 * Parses the key file, YAML (and so also JSON), into key entries. Invariant: a file is either accepted as a whole, or
 * refused with all its faults, each with file, line, key path, the value found and the values allowed. No message
 * repeats anything that could be a key. It does not touch the disk.
 */
import { type Document, isNode, LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { describeError, Fault } from '../../core/errors.ts';
import { buildEntry, ENTITLEMENTS, type KeyEntry } from './keys.ts';

/** Every request is compared with every key; this many take about a millisecond. */
const MAX_KEYS = 10_000;

/** The leading letter or digit separates these names from those of `--key` keys, such as `--key 1`. */
const NAME = /^(?!.*(?:cus|apikey)_)[A-Za-z0-9][\w .@-]{0,63}$/;
export const NAME_RULE =
  'allowed: up to 64 letters, digits, spaces and . _ @ -, a letter or digit first, neither cus_ nor apikey_ in it';
const HASH = /^sha256:[0-9a-f]{64}$/i;
const LIKE_KEY = /\b(cus|apikey)_[^\s"',}\]]+/g;
/** Members in which people put the key itself by mistake. */
const KEY_MEMBERS = ['key', 'api_key', 'apikey', 'apiKey', 'token', 'secret'];
/** Members whose values a message may show. Any other value may be a key. */
const SHOWN_MEMBERS = ['name', 'entitlement', 'realtime'];
const MAX_SHOWN_LENGTH = 80;

const PLAIN_KEY = 'is a key in plain text (not shown here); allowed is only its hash, as `flowdrop key` prints it';

const fileSchema = z.strictObject({
  keys: z
    .array(
      z.strictObject({
        name: z.string().regex(NAME, NAME_RULE),
        hash: z.string().regex(HASH, 'allowed: sha256: and 64 hex digits'),
        entitlement: z.enum(ENTITLEMENTS),
        realtime: z.boolean().default(false),
      }),
    )
    .max(MAX_KEYS, `allowed: up to ${MAX_KEYS} keys`),
});
const MEMBERS = { file: Object.keys(fileSchema.shape), entry: Object.keys(fileSchema.shape.keys.element.shape) };

type Entries = z.infer<typeof fileSchema>['keys'];
type KeyPath = readonly (string | number)[];
type Where = (path: KeyPath) => string;

/** Whether an entry may have this name. */
export function isKeyName(name: string): boolean {
  return NAME.test(name);
}

/** @throws Fault `KEY_FILE_INVALID` (kind `usage`) whose message lists every fault, one per line */
export function parseKeyFile(file: string, text: string): readonly KeyEntry[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  if (document.errors.length > 0) {
    throw invalidFile(
      file,
      document.errors.map((error) => `${lines.linePos(error.pos[0]).line}: ${error.message}`),
    );
  }
  const at: Where = (path) => `${findLine(document, path, lines)}: ${path.join('.') || 'the file'}`;
  const value = readValue(file, document);
  const checked = fileSchema.safeParse(value);
  if (!checked.success)
    throw invalidFile(
      file,
      checked.error.issues.flatMap((issue) => describeIssue(issue, value, at)),
    );
  const { keys } = checked.data;
  const doubles = [...findDoubles(keys, 'name', at), ...findDoubles(keys, 'hash', at)];
  if (doubles.length > 0) throw invalidFile(file, doubles);
  return keys.map(({ name, hash, entitlement, realtime }) =>
    buildEntry(Buffer.from(hash.slice('sha256:'.length), 'hex'), { name, historical: entitlement, realtime }),
  );
}

/** @param faults each starts with its line number, or with a space if it has none */
export function invalidFile(file: string, faults: readonly string[]): Fault {
  const shown = faults.map((fault) => `${file}:${fault.replaceAll(LIKE_KEY, '$1_(not shown)')}`);
  return new Fault('KEY_FILE_INVALID', shown.join('\n'), {
    kind: 'usage',
    hint: '`flowdrop key --name NAME --file FILE` makes a key and adds its entry. Replace any key that was in the file in plain text.',
  });
}

/** Aliases are refused: entries need none, and a few nested aliases could expand to gigabytes. */
function readValue(file: string, document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 });
  } catch (error) {
    throw invalidFile(file, [` ${describeError(error)}`]);
  }
}

function describeIssue(issue: z.core.$ZodIssue, value: unknown, at: Where): readonly string[] {
  const path = issue.path.filter((key) => typeof key !== 'symbol');
  if (issue.code === 'unrecognized_keys') {
    const allowed = (path.length === 0 ? MEMBERS.file : MEMBERS.entry).join(', ');
    return issue.keys.map((key) =>
      KEY_MEMBERS.includes(key)
        ? `${at([...path, key])}: ${PLAIN_KEY}`
        : `${at([...path, key])}: unknown key "${key}"; allowed here: ${allowed}`,
    );
  }
  const came = readPath(value, path);
  if (typeof came === 'string' && came.search(LIKE_KEY) === 0) return [`${at(path)}: ${PLAIN_KEY}`];
  const expected = describeExpected(issue);
  return [`${at(path)}: ${came === undefined ? 'is missing' : `got ${show(came, path)}`}; ${expected}`];
}

function describeExpected(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_value':
      return `allowed: ${issue.values.map((value) => String(value)).join(', ')}`;
    case 'invalid_type':
      return `allowed: ${EXPECTED[issue.expected] ?? issue.expected}`;
    default:
      return issue.message;
  }
}

const EXPECTED: Readonly<Record<string, string>> = {
  array: 'a list of entries',
  object: 'a section of keys',
  string: 'text',
  boolean: 'true or false',
};

function show(came: unknown, path: KeyPath): string {
  if (came === null) return 'nothing';
  if (Array.isArray(came)) return came.length > MAX_KEYS ? `a list of ${came.length}` : 'a list';
  if (typeof came === 'object') return 'a section of keys';
  const member = path.at(-1);
  if (typeof member !== 'string' || !SHOWN_MEMBERS.includes(member)) {
    return `${typeof came === 'string' ? 'text' : `a ${typeof came}`} of ${String(came).length} characters (not shown)`;
  }
  const text = JSON.stringify(came) ?? '';
  return text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}...` : text;
}

/** Names identify callers in the log, and hashes identify the callers themselves: both must be unique. */
function findDoubles(keys: Entries, member: 'name' | 'hash', at: Where): readonly string[] {
  const first = new Map<string, number>();
  return keys.flatMap((entry, index) => {
    const value = entry[member].toLowerCase();
    const before = first.get(value);
    if (before === undefined) first.set(value, index);
    if (before === undefined) return [];
    return [`${at(['keys', index, member])}: has the same ${member} as keys.${before}; each must be unique`];
  });
}

function readPath(value: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>((node, key) => (node as Record<string | number, unknown> | undefined)?.[key], value);
}

/** Line of the deepest part of `path` that exists in the file; 1 for an empty file. */
function findLine(document: Document, path: KeyPath, lines: LineCounter): number {
  for (let depth = path.length; depth >= 0; depth -= 1) {
    const node = document.getIn(path.slice(0, depth), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}
