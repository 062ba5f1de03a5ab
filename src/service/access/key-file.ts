/**
 * Keys and the key file, YAML (and so also JSON): what an entry is, parsing a file to entries, and adding one to its text.
 * Invariant: a file is either accepted as a whole, or refused with all its faults, each with file, line, key path, the value
 * found and the values allowed. No message repeats anything that could be a key. It does not touch the disk, and knows only
 * hashes of keys: plain SHA-256 without salt or stretching, because keys are random tokens of at least 128 bits, so no
 * dictionary contains them, and with a salt each request would need one hash per key.
 */
import { createHash, randomInt } from 'node:crypto';
import { isNode, isSeq, LineCounter, parseDocument, stringify } from 'yaml';
import { z } from 'zod';
import { tryParseJson } from '../../core/atomic-file.ts';
import { describeError, Fault } from '../../core/errors.ts';

/** The subscription to historical SQL. */
const ENTITLEMENTS = ['active', 'trialing', 'none'] as const;
type Entitlement = (typeof ENTITLEMENTS)[number];

export interface Caller {
  /** First 12 hex digits of the key's SHA-256. They reveal nothing about the key, so they may be logged. */
  readonly id: string;
  readonly name: string;
  readonly historical: Entitlement;
  /** Option chain and market structure. The API treats trial and active subscriptions alike here. */
  readonly realtime: boolean;
}

export interface KeyEntry {
  /** SHA-256 of the key: 32 bytes. */
  readonly hash: Buffer;
  readonly caller: Caller;
}

const ID_DIGITS = 12;
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 62^32 is more than 2^190, so a key cannot be guessed, however fast the service answers. */
const RANDOM_CHARACTERS = 32;

export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

export function buildEntry(hash: Buffer, rights: Omit<Caller, 'id'>): KeyEntry {
  return { hash, caller: { id: hash.toString('hex').slice(0, ID_DIGITS), ...rights } };
}

/** A new random key. */
export function createKey(prefix: 'cus' | 'apikey'): string {
  const random = Array.from({ length: RANDOM_CHARACTERS }, () => BASE62[randomInt(BASE62.length)]);
  return `${prefix}_${random.join('')}`;
}

/** Every request is compared with every key; this many take about a millisecond. */
const MAX_KEYS = 10_000;

/** The leading letter or digit separates these names from those of `--key` keys, such as `--key 1`. */
const NAME = /^(?!.*(?:cus|apikey)_)[A-Za-z0-9][\w .@-]{0,63}$/;
const NAME_WORDS =
  'up to 64 letters, digits, spaces and . _ @ -, a letter or digit first, neither cus_ nor apikey_ in it';
export const NAME_RULE = `allowed: ${NAME_WORDS}`;
const HASH_MARK = 'sha256:';
const LIKE_KEY = /\b(cus|apikey)_[^\s"',}\]]+/g;
/** Members in which people put the key itself by mistake. */
const KEY_MEMBER = /^((api_?)?key|token|secret)$/i;
const MAX_SHOWN_LENGTH = 80;

const PLAIN_KEY = 'is a key in plain text (not shown here); allowed is only its hash, as `flowdrop key` prints it';
const HEADER = '# Keys of `flowdrop serve`. Only hashes: a key itself is shown once, when `flowdrop key` makes it.\n';

/** What a fault of a value says. @param isShown whether the value may be shown; any other may be a key */
function allow(what: string, isShown = false) {
  return {
    error: ({ input }: { readonly input?: unknown }) => {
      if (input === undefined) return `is missing; allowed: ${what}`;
      if (typeof input === 'string' && input.search(LIKE_KEY) === 0) return PLAIN_KEY;
      return `got ${show(input, isShown)}; allowed: ${what}`;
    },
  };
}

function show(came: unknown, isShown: boolean): string {
  if (came === null) return 'nothing';
  if (Array.isArray(came)) return `a list of ${came.length}`;
  if (typeof came === 'object') return 'a section of keys';
  if (!isShown) return `a ${typeof came} of ${String(came).length} characters (not shown)`;
  const text = JSON.stringify(came);
  return text.length > MAX_SHOWN_LENGTH ? `${text.slice(0, MAX_SHOWN_LENGTH)}...` : text;
}

const SECTION = allow('a section of keys');
const entrySchema = z.strictObject(
  {
    name: z.string(allow('text', true)).regex(NAME, allow(NAME_WORDS, true)),
    hash: z.string(allow('text')).regex(/^sha256:[0-9a-f]{64}$/i, allow('sha256: and 64 hex digits')),
    entitlement: z.enum(ENTITLEMENTS, allow(ENTITLEMENTS.join(', '), true)),
    realtime: z.boolean(allow('true or false', true)).default(false),
  },
  SECTION,
);
const fileSchema = z.strictObject(
  { keys: z.array(entrySchema, allow('a list of entries')).max(MAX_KEYS, allow(`up to ${MAX_KEYS} keys`)) },
  SECTION,
);
type WrittenEntry = z.infer<typeof entrySchema>;

type KeyPath = readonly (string | number)[];
type KeyFault = readonly [path: KeyPath, says: string];

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
  const broken = document.errors.map(({ pos, message }) => `${lines.linePos(pos[0]).line}: ${message}`);
  if (broken.length > 0) throw invalidFile(file, broken);
  let value: unknown;
  try {
    // Aliases are refused: entries need none, and a few nested aliases could expand to gigabytes.
    value = document.toJS({ maxAliasCount: 0 });
  } catch (error) {
    throw invalidFile(file, [` ${describeError(error)}`]);
  }
  const { success, data, error } = fileSchema.safeParse(value);
  const entries = (data?.keys ?? []).map(toEntry);
  const faults = success ? listClashes(entries, taken) : error.issues.flatMap(describeIssue);
  if (faults.length === 0) return entries;
  throw invalidFile(
    file,
    faults.map(([path, says]) => `${lineOf(path)}: ${path.join('.') || 'the file'}: ${says}`),
  );

  /** Line of the deepest part of `path` that exists in the file; 1 for an empty file. */
  function lineOf(path: KeyPath): number {
    const node = document.getIn(path, true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
    return path.length === 0 ? 1 : lineOf(path.slice(0, -1));
  }
}

/** Names identify callers in the log, and hashes identify the callers themselves. */
function listClashes(entries: readonly KeyEntry[], taken: readonly string[]): readonly KeyFault[] {
  const first = new Map<string, number>();
  return entries.flatMap(({ hash, caller }, index) => {
    const faults: KeyFault[] = [];
    const values = { name: caller.name.toLowerCase(), hash: hash.toString('hex') };
    for (const [member, value] of Object.entries(values)) {
      const before = first.get(`${member} ${value}`);
      if (before === undefined) first.set(`${member} ${value}`, index);
      else faults.push([['keys', index, member], `has the same ${member} as keys.${before}; each must be unique`]);
    }
    if (taken.includes(caller.id)) faults.push([['keys', index, 'hash'], 'is the hash of a key given with --key']);
    return faults;
  });
}

function describeIssue(issue: z.core.$ZodIssue): readonly KeyFault[] {
  const path = issue.path.filter((key) => typeof key !== 'symbol');
  if (issue.code !== 'unrecognized_keys') return [[path, issue.message]];
  const allowed = path.length === 0 ? 'keys' : Object.keys(entrySchema.shape).join(', ');
  return issue.keys.map((key) => [
    [...path, key],
    KEY_MEMBER.test(key) ? PLAIN_KEY : `unknown key "${key}"; allowed here: ${allowed}`,
  ]);
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
  const written = addEntry(text, describeEntry(entry));
  parseKeyFile(file, written); // What is written can be read back.
  return written;
}

function addEntry(text: string, entry: WrittenEntry): string {
  const json = tryParseJson(text) as { readonly keys: readonly unknown[] } | undefined; // The file has been validated.
  if (json) return `${JSON.stringify({ keys: [...json.keys, entry] }, undefined, 2)}\n`;
  const document = parseDocument(text);
  const list = document.get('keys');
  if (isSeq(list) && list.items.length === 0) list.flow = false;
  document.addIn(['keys'], document.createNode(entry));
  return document.toString({ lineWidth: 0 });
}
