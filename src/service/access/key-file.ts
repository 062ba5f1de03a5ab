/**
 * The key file, YAML (and so also JSON): parses it to key entries, and adds one to its text. Invariant: a file is either
 * accepted as a whole, or refused with all its faults, each with file, line, key path, the value found and the values
 * allowed. No message repeats anything that could be a key. It does not touch the disk, and knows only hashes of keys.
 */
import { type Document, isNode, isSeq, LineCounter, parseDocument, stringify } from 'yaml';
import { z } from 'zod';
import { tryParseJson } from '../../core/atomic-file.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { buildEntry, ENTITLEMENTS, type KeyEntry } from './keys.ts';

/** Every request is compared with every key; this many take about a millisecond. */
const MAX_KEYS = 10_000;

/** The leading letter or digit separates these names from those of `--key` keys, such as `--key 1`. */
const NAME = /^(?!.*(?:cus|apikey)_)[A-Za-z0-9][\w .@-]{0,63}$/;
export const NAME_RULE =
  'allowed: up to 64 letters, digits, spaces and . _ @ -, a letter or digit first, neither cus_ nor apikey_ in it';
const HASH_MARK = 'sha256:';
const LIKE_KEY = /\b(cus|apikey)_[^\s"',}\]]+/g;
/** Members in which people put the key itself by mistake. */
const KEY_MEMBER = /^((api_?)?key|token|secret)$/i;
/** Members whose values a message may show. Any other value may be a key. */
const SHOWN_MEMBERS: readonly unknown[] = ['name', 'entitlement', 'realtime'];
const MAX_SHOWN_LENGTH = 80;

const PLAIN_KEY = 'is a key in plain text (not shown here); allowed is only its hash, as `flowdrop key` prints it';
const HEADER = '# Keys of `flowdrop serve`. Only hashes: a key itself is shown once, when `flowdrop key` makes it.\n';

const SECTION = 'allowed: a section of keys';
const TEXT = 'allowed: text';
const entrySchema = z.strictObject(
  {
    name: z.string(TEXT).regex(NAME, NAME_RULE),
    hash: z.string(TEXT).regex(/^sha256:[0-9a-f]{64}$/i, 'allowed: sha256: and 64 hex digits'),
    entitlement: z.enum(ENTITLEMENTS, `allowed: ${ENTITLEMENTS.join(', ')}`),
    realtime: z.boolean('allowed: true or false').default(false),
  },
  SECTION,
);
type WrittenEntry = z.infer<typeof entrySchema>;

/** @param taken ids of callers that no entry may have */
const createFileSchema = (taken: readonly string[]) =>
  z.strictObject(
    {
      keys: z
        .array(entrySchema, 'allowed: a list of entries')
        .max(MAX_KEYS, { error: `allowed: up to ${MAX_KEYS} keys`, abort: true })
        // Names identify callers in the log, and hashes identify the callers themselves.
        .superRefine((entries, { addIssue }) => {
          for (const member of ['name', 'hash'] as const) {
            const values = entries.map((entry) => entry[member].toLowerCase());
            const first = new Map(values.map((value, index) => [value, index] as const).reverse());
            for (const [index, value] of values.entries()) {
              const before = first.get(value);
              const message = `has the same ${member} as keys.${before}; each must be unique`;
              if (before !== index) addIssue({ code: 'custom', path: [index, member], message });
            }
          }
          for (const [index, entry] of entries.entries()) {
            const message = 'is the hash of a key given with --key';
            if (taken.includes(toEntry(entry).caller.id)) addIssue({ code: 'custom', path: [index, 'hash'], message });
          }
        }),
    },
    SECTION,
  );

type KeyPath = readonly (string | number)[];

/** Whether an entry may have this name. */
export function isKeyName(name: string): boolean {
  return NAME.test(name);
}

/**
 * @param taken ids of callers that no entry may have
 * @throws Fault `KEY_FILE_INVALID` (kind `usage`) whose message lists every fault, one per line
 */
export function parseKeyFile(file: string, text: string, taken: readonly string[] = []): readonly KeyEntry[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  if (document.errors.length > 0) {
    throw invalidFile(
      file,
      document.errors.map(({ pos, message }) => `${lines.linePos(pos[0]).line}: ${message}`),
    );
  }
  const value = readValue(file, document);
  const checked = createFileSchema(taken).safeParse(value);
  if (checked.success) return checked.data.keys.map(toEntry);
  const at = (path: KeyPath) => `${findLine(document, path, lines)}: ${path.join('.') || 'the file'}`;
  throw invalidFile(
    file,
    checked.error.issues.flatMap((issue) => describeIssue(issue, value, at)),
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

function toEntry({ name, hash, entitlement, realtime }: WrittenEntry): KeyEntry {
  return buildEntry(Buffer.from(hash.slice(HASH_MARK.length), 'hex'), { name, historical: entitlement, realtime });
}

/** An entry as the key file has it. */
export function describeEntry({ hash, caller }: KeyEntry): WrittenEntry {
  const { name, historical, realtime } = caller;
  return { name, hash: `${HASH_MARK}${hash.toString('hex')}`, entitlement: historical, realtime };
}

/** A complete key file with this one entry. */
export function renderEntry(entry: KeyEntry): string {
  return stringify({ keys: [describeEntry(entry)] }, { lineWidth: 0 });
}

/**
 * The text of the key file with one more entry; JSON stays JSON, and comments stay.
 * @param text the file's present text, `undefined` if the file does not exist
 * @throws Fault `KEY_FILE_INVALID`, `KEY_NAME_TAKEN` (kind `usage`)
 */
export function appendEntry(file: string, text: string | undefined, entry: KeyEntry): string {
  if (text === undefined || text.trim() === '') return HEADER + renderEntry(entry);
  const { name } = entry.caller;
  if (parseKeyFile(file, text).some(({ caller }) => caller.name.toLowerCase() === name.toLowerCase())) {
    throw new Fault('KEY_NAME_TAKEN', `${file} has a key named "${name}" already`, {
      kind: 'usage',
      hint: 'Choose another name, or remove that entry first.',
    });
  }
  const written = addEntry(text, entry);
  parseKeyFile(file, written); // What is written can be read back.
  return written;
}

function addEntry(text: string, entry: KeyEntry): string {
  const document = parseDocument(text);
  const json = tryParseJson(text) as { readonly keys: readonly unknown[] } | undefined; // The file has been validated.
  if (json) return `${JSON.stringify({ keys: [...json.keys, describeEntry(entry)] }, undefined, 2)}\n`;
  const list = document.get('keys');
  if (isSeq(list) && list.items.length === 0) list.flow = false;
  document.addIn(['keys'], document.createNode(describeEntry(entry)));
  return document.toString({ lineWidth: 0 });
}

/** Aliases are refused: entries need none, and a few nested aliases could expand to gigabytes. */
function readValue(file: string, document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 0 });
  } catch (error) {
    throw invalidFile(file, [` ${describeError(error)}`]);
  }
}

function describeIssue(issue: z.core.$ZodIssue, value: unknown, at: (path: KeyPath) => string): readonly string[] {
  const path = issue.path.filter((key) => typeof key !== 'symbol');
  if (issue.code === 'unrecognized_keys') {
    const allowed = path.length === 0 ? 'keys' : Object.keys(entrySchema.shape).join(', ');
    return issue.keys.map((key) => {
      const says = KEY_MEMBER.test(key) ? PLAIN_KEY : `unknown key "${key}"; allowed here: ${allowed}`;
      return `${at([...path, key])}: ${says}`;
    });
  }
  const came = path.reduce<unknown>(
    (node, key) => (node as Record<KeyPath[number], unknown> | undefined)?.[key],
    value,
  );
  if (issue.code === 'custom') return [`${at(path)}: ${issue.message}`];
  if (typeof came === 'string' && came.search(LIKE_KEY) === 0) return [`${at(path)}: ${PLAIN_KEY}`];
  return [`${at(path)}: ${came === undefined ? 'is missing' : `got ${show(came, path.at(-1))}`}; ${issue.message}`];
}

function show(came: unknown, member: unknown): string {
  if (came === null) return 'nothing';
  if (Array.isArray(came)) return `a list of ${came.length}`;
  if (typeof came === 'object') return 'a section of keys';
  if (!SHOWN_MEMBERS.includes(member)) return `a ${typeof came} of ${String(came).length} characters (not shown)`;
  const text = JSON.stringify(came) ?? '';
  return text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}...` : text;
}

/** Line of the deepest part of `path` that exists in the file; 1 for an empty file. */
function findLine(document: Document, path: KeyPath, lines: LineCounter): number {
  for (let depth = path.length; depth >= 0; depth -= 1) {
    const node = document.getIn(path.slice(0, depth), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}
