/**
 * `flowdrop key`: a new random key for `flowdrop serve`. Invariant: the key is printed once, on stdout, and kept nowhere;
 * the file gets its hash.
 */
import { chmod, realpath, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Option } from 'commander';
import { hasErrorCode, readFileIfExists, writeFileAtomic } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';
import type { ActionResult, Register } from './command.ts';
import type { CliContext, GlobalOptions } from './context.ts';

/** As in `service/access/keys.ts`, which is loaded only when a key is made; the compiler holds them together. */
const ENTITLEMENTS = ['active', 'trialing', 'none'] as const;
const PREFIXES = ['cus', 'apikey'] as const;

interface KeyOptions {
  readonly name: string;
  readonly entitlement?: (typeof ENTITLEMENTS)[number];
  readonly realtime?: boolean;
  readonly prefix?: (typeof PREFIXES)[number];
  readonly file?: string;
}

/** What a key is when nothing else is said. */
const KEY_DEFAULTS = { entitlement: 'active', realtime: false, prefix: 'cus' } as const;

export const registerKey: Register = (program, context, act) => {
  program
    .command('key')
    .description('make a key for serve; it is shown once, its entry for the key file holds only a hash')
    .requiredOption('--name <name>', 'whose key it is, for the log')
    .addOption(
      new Option('--entitlement <subscription>', 'historical SQL (default: active)').choices([...ENTITLEMENTS]),
    )
    .option('--realtime', 'entitled to the option chain and to market structure')
    .addOption(new Option('--prefix <prefix>', 'what the key begins with (default: cus)').choices([...PREFIXES]))
    .option('--file <file>', 'key file to add the entry to; made when there is none')
    .action(async (options: KeyOptions) => {
      await act((globals) => makeKey(context, globals, { ...KEY_DEFAULTS, ...options }));
    });
};

async function makeKey(
  cli: CliContext,
  globals: GlobalOptions,
  options: KeyOptions & Required<Omit<KeyOptions, 'file'>>,
): ActionResult {
  const { buildEntry, createKey, hashKey } = await import('../service/access/keys.ts');
  const { isKeyName, NAME_RULE } = await import('../service/access/key-file.ts');
  const { appendEntry, describeEntry, renderEntry } = await import('../service/access/key-entry.ts');
  const { name, entitlement, realtime, prefix, file } = options;
  if (!isKeyName(name)) throw new Fault('KEY_NAME_INVALID', `--name: ${NAME_RULE}`, { kind: 'usage' });
  const key = createKey(prefix);
  const entry = buildEntry(hashKey(key), { name, historical: entitlement, realtime });
  if (file !== undefined) await rewriteFile(resolve(cli.cwd, file), (text) => appendEntry(file, text, entry));
  if (globals.json) {
    const place = file === undefined ? {} : { file };
    cli.terminal.out(`${JSON.stringify({ key, id: entry.caller.id, entry: describeEntry(entry), ...place })}\n`);
    return undefined;
  }
  cli.terminal.out(`${key}\n`);
  if (file === undefined)
    cli.terminal.err(`The key is not kept anywhere. Its entry for a key file:\n\n${renderEntry(entry)}`);
  else cli.terminal.err(`The key is not kept anywhere; its entry "${name}" is in ${file}.\n`);
  return undefined;
}

/** Replaces a file's text in one step. A link stays a link, and who may read the file stays the same. */
async function rewriteFile(path: string, edit: (text: string | undefined) => string): Promise<void> {
  try {
    const text = await readFileIfExists(path);
    const target = text === undefined ? path : await realpath(path);
    const mode = text === undefined ? undefined : (await stat(target)).mode;
    await writeFileAtomic(target, edit(text));
    if (mode !== undefined) await chmod(target, mode);
  } catch (cause) {
    if (!hasErrorCode(cause, 'EACCES', 'EPERM', 'EISDIR', 'EROFS', 'ENOSPC', 'EEXIST', 'ENOTDIR')) throw cause;
    throw new Fault('KEY_FILE_UNWRITABLE', `cannot write the key file ${path}: ${(cause as Error).message}`, {
      kind: 'usage',
      cause,
      hint: 'No key was made. Choose another file, or mend its permissions.',
    });
  }
}
