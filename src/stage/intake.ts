/**
 * Loads pages into the stage's table. The bytes of a page are spooled to a file, because the engine reads a file twice
 * as fast as the same bytes inside a statement. Pages that arrive during an insert go in together with the next one:
 * one insert of four pages costs half of four inserts. Invariant: there is one insert at a time, and each makes one
 * part, so its pages are staged together or not at all. A page that does not fit is refused alone.
 */
import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { makeFolder } from '../core/atomic-file.ts';
import type { Engine } from '../engine/engine.ts';
import { EngineFault } from '../engine/engine-fault.ts';
import { plainPath, quoteString } from '../engine/literal.ts';

/** Maximum pages and bytes of one insert: both bound the memory of its block (10,000 trades have about 7 MB). */
const MAX_GROUP_PAGES = 8;
const MAX_GROUP_BYTES = 64 * 1024 * 1024;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** Not enough space, memory limit, cannot write, cannot open, read-only, timeout; and 0, which no statement raises. */
const ENVIRONMENT_CODES: ReadonlySet<number> = new Set([0, 243, 241, 75, 76, 164, 159]);

/** Folder in which pages wait for their insert: those of a stage, by the name of its table, or of all stages. */
export function findSpool(engine: Engine, name = ''): string {
  return join(engine.folder, 'pages', name);
}

/** Removes pages that a killed process was about to load: of a stage, or of all, also of dates that are never opened again. */
export async function clearSpool(engine: Engine, name?: string): Promise<void> {
  await rm(findSpool(engine, name), { recursive: true, force: true });
}

/** Lets the engine read bytes as a file. @param use given its path; the file is removed afterwards */
export async function withSpooled<T>(folder: string, data: Uint8Array, use: (path: string) => Promise<T>): Promise<T> {
  const path = join(folder, `${randomUUID()}.json`);
  try {
    await makeFolder(folder);
    await writeFile(path, data);
    return await use(path);
  } finally {
    await rm(path, { force: true });
  }
}

interface WaitingPage {
  /** Text of the window, stored with every row of the page. */
  readonly window: string;
  /** Name of the file with its rows, within the spool's folder. */
  readonly file: string;
  readonly bytes: number;
  readonly settle: { resolve(): void; reject(error: unknown): void };
}

/** As `insertPages`. */
type InsertSql = (path: string, window: string) => Promise<string>;

/**
 * @param folder for the spooled pages
 * @returns stages a page: when it resolves, its rows are staged. It throws EngineFault if they are not, because of this page
 *   or the machine
 */
export function createIntake(engine: Engine, folder: string, insertSql: InsertSql) {
  const waiting: WaitingPage[] = [];
  let isLoading = false;
  return async (window: string, data: Uint8Array): Promise<void> => {
    await withSpooled(folder, withoutBrackets(data), async (path) => {
      await new Promise<void>((resolve, reject) => {
        waiting.push({ window, file: basename(path), bytes: data.byteLength, settle: { resolve, reject } });
        void loadAll();
      });
    });
  };

  async function loadAll(): Promise<void> {
    if (isLoading) return;
    isLoading = true;
    while (waiting.length > 0) await loadGroup(waiting.splice(0, countGroup()));
    isLoading = false;
  }

  /** Number of waiting pages for the next insert: at least one, however large it is. */
  function countGroup(): number {
    let bytes = 0;
    const fits = waiting.findIndex((page, index) => {
      bytes += page.bytes;
      return index === MAX_GROUP_PAGES || (index > 0 && bytes > MAX_GROUP_BYTES);
    });
    return fits === -1 ? waiting.length : fits;
  }

  /** Never throws: each page of the group gets its own outcome. */
  async function loadGroup(group: readonly WaitingPage[]): Promise<void> {
    try {
      await load(group);
      for (const { settle } of group) settle.resolve();
    } catch (error) {
      if (group.length === 1 || !isAboutData(error)) {
        for (const { settle } of group) settle.reject(error);
        return;
      }
      for (const page of group) await loadGroup([page]);
    }
  }

  async function load(pages: readonly WaitingPage[]): Promise<void> {
    const files = pages.map(({ file }) => file);
    const path = join(plainPath(folder), files.length === 1 ? (files[0] ?? '') : `{${files.join(',')}}`);
    const list = (texts: readonly string[]) => `[${texts.map(quoteString).join(', ')}]`;
    const window = `transform(_file, ${list(files)}, ${list(pages.map((page) => page.window))})`;
    const sql = await insertSql(path, window);
    await engine.command(`${sql} SETTINGS ${READ_SETTINGS}, ${ONE_PART}`);
  }
}

/** Every way to read rows. */
export const PARSE_SETTINGS = [
  // Otherwise the last digit of a long number may change.
  'precise_float_parsing = 1',
  // All cores read even a single page.
  'min_chunk_bytes_for_parallel_parsing = 1048576',
].join(', ');

/** How the values of a plain page are read: as text, if the column is text. */
export const READ_SETTINGS = [
  PARSE_SETTINGS,
  // The newer analyzer takes 4 ms longer to plan this statement, a twentieth of the total cost of a page.
  'enable_analyzer = 0',
  // A field outside the contract must be detected, not skipped.
  'input_format_skip_unknown_fields = 0',
  'input_format_json_read_bools_as_numbers = 0',
  'input_format_json_read_numbers_as_strings = 1',
  'input_format_json_read_bools_as_strings = 1',
  'input_format_json_read_objects_as_strings = 1',
  'input_format_json_read_arrays_as_strings = 1',
].join(', ');

/** Rows of an insert become one part. */
export const ONE_PART = [
  // All rows in one block, and so in one part, however large they are: this makes an insert atomic.
  'max_insert_threads = 1',
  'min_insert_block_size_rows = 1000000000',
  'min_insert_block_size_bytes = 1000000000000',
].join(', ');

/** A full disk or too little memory is not the page's fault. */
export function isAboutData(error: unknown): boolean {
  return error instanceof EngineFault && !ENVIRONMENT_CODES.has(error.clickhouseCode);
}

/** Rows between brackets are one value, which only one core can read. */
function withoutBrackets(data: Uint8Array): Uint8Array {
  const isArray = data[0] === OPEN_BRACKET && data.at(-1) === CLOSE_BRACKET;
  return isArray ? data.subarray(1, -1) : data;
}
