/**
 * Renders new entries of a key file as text. Invariant: the present content of the file is preserved, comments
 * included. It does not touch the disk and sees only a key's hash, never the key.
 */
import { isSeq, parseDocument, stringify } from 'yaml';
import { Fault } from '../../core/errors.ts';
import { parseKeyFile } from './key-file.ts';
import type { KeyEntry } from './keys.ts';

/** An entry in the shape of the key file. */
interface WrittenEntry {
  readonly name: string;
  readonly hash: string;
  readonly entitlement: string;
  readonly realtime: boolean;
}

const HEADER = '# Keys of `flowdrop serve`. Only hashes: a key itself is shown once, when `flowdrop key` makes it.\n';

export function describeEntry({ hash, caller }: KeyEntry): WrittenEntry {
  const { name, historical, realtime } = caller;
  return { name, hash: `sha256:${hash.toString('hex')}`, entitlement: historical, realtime };
}

/** A complete key file with this one entry. */
export function renderEntry(entry: KeyEntry): string {
  return stringify({ keys: [describeEntry(entry)] }, { lineWidth: 0 });
}

/**
 * The text of the key file with one more entry; JSON stays JSON.
 * @param text the file's present text, `undefined` if the file does not exist
 * @throws Fault `KEY_FILE_INVALID`, `KEY_NAME_TAKEN` (kind `usage`)
 */
export function appendEntry(file: string, text: string | undefined, entry: KeyEntry): string {
  if (text === undefined || text.trim() === '') return checked(file, HEADER + renderEntry(entry));
  const present = parseKeyFile(file, text);
  const { name } = entry.caller;
  if (present.some(({ caller }) => caller.name.toLowerCase() === name.toLowerCase())) {
    throw new Fault('KEY_NAME_TAKEN', `${file} has a key named "${name}" already`, {
      kind: 'usage',
      hint: 'Choose another name, or remove that entry first.',
    });
  }
  const json = readJson(text);
  if (json) return checked(file, `${JSON.stringify({ keys: [...json.keys, describeEntry(entry)] }, undefined, 2)}\n`);
  const document = parseDocument(text);
  const list = document.get('keys');
  if (isSeq(list) && list.items.length === 0) list.flow = false;
  document.addIn(['keys'], document.createNode(describeEntry(entry)));
  return checked(file, document.toString({ lineWidth: 0 }));
}

/** Checks that the text to write can be read back. */
function checked(file: string, text: string): string {
  parseKeyFile(file, text);
  return text;
}

function readJson(text: string): { readonly keys: readonly unknown[] } | undefined {
  try {
    return JSON.parse(text) as { keys: unknown[] }; // The file has been validated: it has a list of keys.
  } catch {
    return undefined; // YAML that is not JSON.
  }
}
