/**
 * `flowdrop key`: creates a random key for `flowdrop serve`. Invariant: the key is printed once, on stdout, and stored
 * nowhere; the file gets its hash.
 */
import { chmod, realpath, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { hasErrorCode, readFileIfExists, writeWholeFile } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import {
  appendEntry,
  buildEntry,
  createKey,
  describeEntry,
  hashKey,
  isKeyName,
  NAME_RULE,
  renderEntry,
} from '../service/access/key-file.ts';
import { type Call, type Cli, usage } from './context.ts';

export async function key({ cwd, print }: Cli, { options }: Call<'key'>) {
  const { name, entitlement = 'active', realtime = false, prefix = 'cus', file } = options;
  if (name === undefined || !isKeyName(name)) throw usage(`--name: ${NAME_RULE}`, undefined, 'KEY_NAME_INVALID');
  const made = createKey(prefix);
  const entry = buildEntry(hashKey(made), { name, historical: entitlement, realtime });
  if (file !== undefined) await rewriteFile(resolve(cwd, file), (text) => appendEntry(file, text, entry));
  return print(
    { key: made, id: entry.caller.id, entry: describeEntry(entry), file },
    [made],
    file === undefined
      ? `The key is not stored. Its entry for a key file:\n\n${renderEntry(entry)}`
      : `The key is not stored; its entry "${name}" is in ${file}.\n`,
  );
}

/** Replaces a file's text in one step. A link stays a link, and the file keeps its mode. */
async function rewriteFile(path: string, edit: (text: string | undefined) => string): Promise<void> {
  try {
    const text = await readFileIfExists(path);
    const target = text === undefined ? path : await realpath(path);
    const mode = text === undefined ? undefined : (await stat(target)).mode;
    await writeWholeFile(target, edit(text));
    if (mode !== undefined) await chmod(target, mode);
  } catch (cause) {
    if (!hasErrorCode(cause, 'EACCES', 'EPERM', 'EISDIR', 'EROFS', 'ENOSPC', 'EEXIST', 'ENOTDIR')) throw cause;
    throw new Fault('KEY_FILE_UNWRITABLE', `cannot write the key file ${path}: ${(cause as Error).message}`, {
      kind: 'usage',
      cause,
      hint: 'No key was made. Choose another file, or correct its permissions.',
    });
  }
}
