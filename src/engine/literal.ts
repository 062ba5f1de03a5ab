/**
 * SQL text from values, where ClickHouse accepts no bound parameter (settings, file paths, DDL, SQL sent over the API).
 */
import { createHash } from 'node:crypto';
import { lstatSync, readlinkSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { hasErrorCode } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';

/** A ClickHouse string literal, with backslashes and quotes escaped. */
export function quoteString(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

export function quoteIdentifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** A file on this disk, as SQL reads it. @param structure columns with their types; absent: the file's own */
export function localFile(path: string, format: string, structure?: string): string {
  return `file(${quoteString(plainPath(path))}, ${format}${structure === undefined ? '' : `, ${quoteString(structure)}`})`;
}

/** A Parquet file on this disk, as SQL reads it. */
export function parquetFile(path: string, structure?: string): string {
  return localFile(path, 'Parquet', structure);
}

export type EngineSettings = Readonly<Record<string, string | number>>;

export function formatSettings(settings: EngineSettings): string {
  const each = Object.entries(settings).map(
    ([name, value]) => `${name} = ${typeof value === 'number' ? value : quoteString(value)}`,
  );
  return `SETTINGS ${each.join(', ')}`;
}

const PATTERN_SIGNS = /[*?{},:]/g;
/** The path up to the end of its last name with such a sign. */
const ODD_PART = /^.*[*?{},:][^/]*/s;
const MAX_NAME_LENGTH = 100;

/**
 * The path itself, or one that leads to the same file, which the engine takes word for word. In `file(...)` it reads `*`, `?`,
 * braces and commas as a pattern, and `::` as the inside of an archive, in names of folders too, and knows no way to escape
 * them: it would find no file, or those of another folder. Such a path is reached through a symbolic link with a plain name,
 * always the same for one path.
 * @throws Fault `PATH_UNFIT`
 */
export function plainPath(path: string): string {
  const [odd] = ODD_PART.exec(path) ?? [];
  return odd === undefined ? path : `${createLink(resolve(odd))}${path.slice(odd.length)}`;
}

function createLink(odd: string): string {
  const hash = createHash('sha256').update(odd).digest('hex').slice(0, 16);
  // The ending of a file's name says how it is compressed.
  const name = basename(odd).replace(PATTERN_SIGNS, '_').slice(-MAX_NAME_LENGTH);
  const link = join(ODD_PART.test(tmpdir()) ? '/tmp' : tmpdir(), `flowdrop-${hash}-${name}`);
  try {
    symlinkSync(odd, link);
  } catch (cause) {
    if (!(hasErrorCode(cause, 'EEXIST') && isOwn(link, odd))) {
      throw new Fault('PATH_UNFIT', `${odd} has a sign that the engine takes as a pattern: * ? { } , :`, {
        cause,
        hint: `Use a path without these signs, or let this user create the link ${link}.`,
      });
    }
  }
  return link;
}

/** Another user could lead us elsewhere. */
function isOwn(link: string, odd: string): boolean {
  const found = lstatSync(link);
  return found.isSymbolicLink() && found.uid === process.getuid?.() && readlinkSync(link) === odd;
}
