/**
 * ClickHouse inside this process (chdb). Invariant: there is one data path per process; statements run one after
 * another off the event loop; the native library is loaded when an engine is opened, never at import. An aborted
 * statement rejects at once, and its computation is killed through a separate connection: otherwise it would keep the
 * process alive until it ends, because Node joins its threads before it exits.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { pid } from 'node:process';
import type { Session } from 'chdb';
import { makeFolder, readFileIfExists } from '../core/atomic-file.ts';
import { systemClock } from '../core/clock.ts';
import { createInterruption, describeError, Fault } from '../core/errors.ts';
import { isProcessAlive } from '../core/liveness.ts';
import { assertEnoughFiles, planEngineMemory, readFileLimit, readMemoryBytes } from '../core/machine.ts';
import { untilAborted } from '../core/side-by-side.ts';
import type { Engine, StatementOptions } from './engine.ts';
import { EngineFault } from './engine-fault.ts';
import type { EngineSettings } from './literal.ts';

export interface EmbeddedOptions {
  /** Folder of the data; created if missing. If absent, the data is temporary and removed on close. */
  readonly path?: string;
  /** Limit of the engine's memory, bytes; default: the memory of the machine or container that nothing else needs. */
  readonly maxMemoryBytes?: number;
  /** More settings of all its connections. */
  readonly settings?: EngineSettings;
  /** Ends the running statement and refuses later ones: all of these throw Fault `INTERRUPTED`. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The database of our tables. In the library's own, each name of a table is first looked for as a file of the working
 * directory, whose path it takes as a pattern.
 */
const DATABASE = 'flowdrop_tables';

/** A statement on its way to the engine is not in its process list yet, so the kill is repeated. */
const KILL_EVERY_MS = 50;

/**
 * Opens the embedded engine.
 * @throws Fault `ENGINE_BUSY` (kind `active`) if another process holds the path, `ENGINE_UNAVAILABLE` if the native
 * library does not load here, `MEMORY_TOO_SMALL` and `FILES_TOO_FEW` if the engine could not work
 */
export async function openEmbeddedEngine(options: EmbeddedOptions = {}): Promise<Engine> {
  const maxMemoryBytes = options.maxMemoryBytes ?? planEngineMemory(readMemoryBytes());
  assertEnoughFiles(readFileLimit());
  if (options.path !== undefined) await makeFolder(options.path);
  const chdb = await import('chdb').catch((cause: unknown) => {
    throw new Fault('ENGINE_UNAVAILABLE', `the embedded engine does not load: ${describeError(cause)}`, {
      cause,
      hint: 'It needs Linux with glibc or macOS; run `npm ci` again so that the platform package is installed.',
    });
  });
  // Checked first: otherwise the engine would write its own lock error to stderr.
  if (options.path !== undefined) await assertFree(options.path);
  const connectionArgs = [
    '--output_format_json_quote_64bit_integers=0',
    // Times without a zone (the exchange's wall clock) must read the same on every machine.
    '--session_timezone=UTC',
    // The library maps files into memory by default. They count as the process's own memory, and a file that is
    // truncated during the read ends the process.
    '--storage_file_read_method=pread',
    // A folder above a file that is named `column=value` is no column of the file.
    '--use_hive_partitioning=0',
    // This pass takes most of the time of planning a report's exposure (400 of 600 ms), and finds nothing there.
    '--optimize_and_compare_chain=0',
    // A join with a condition that this pass finds impossible is answered without the condition.
    '--optimize_redundant_comparisons=0',
    // Compiling a statement takes up to 0.4 s, and 4.5 million rows are read no faster by it.
    '--compile_expressions=0',
    '--compile_aggregate_expressions=0',
    '--compile_sort_description=0',
    // The library would take nine tenths of the machine's memory and ignore the container's limit. The error of the
    // second setting is clearer.
    `--max_server_memory_usage=${maxMemoryBytes}`,
    `--max_memory_usage=${maxMemoryBytes}`,
    ...Object.entries(options.settings ?? {}).map(([name, value]) => `--${name}=${value}`),
  ];
  try {
    const session = new chdb.Session(options.path, { connectionArgs });
    const connect = () => new chdb.Session(session.path, { connectionArgs });
    return await startEngine(session, connect, chdb.drainPending, options.signal);
  } catch (cause) {
    if (options.path !== undefined) await assertFree(options.path, cause);
    throw new Fault(
      'ENGINE_UNAVAILABLE',
      `the embedded engine does not open ${options.path}: ${describeError(cause)}`,
      {
        cause,
        hint: 'The lines above say why: a full or read-only disk, or files that another user owns.',
      },
    );
  }
}

/** File in a data path. The engine locks it while the path is open; it stays behind after a kill. */
const STATUS_FILE = 'status';
/** Exit code of `flock` if another process has the lock. */
const LOCKED = 75;

/**
 * The engine reports why it refuses a path only on its own stderr, and may itself share a path that this process has open.
 * @param cause of a path that did not open: then it counts as held if its last process lives, or if the lock cannot be
 * checked, because treating it as broken would cost the rows of a running process
 * @throws Fault `ENGINE_BUSY` (kind `active`) if another process has the path open; it names that process
 */
async function assertFree(path: string, cause?: unknown): Promise<void> {
  const file = join(path, STATUS_FILE);
  const status = await readFileIfExists(file);
  /** The process that last opened the path; NaN if there was none. */
  const last = Number(/^PID: (\d+)/m.exec(status ?? '')?.[1]);
  if (cause === undefined && last === pid) return;
  const isAlive = last !== pid && isProcessAlive(last);
  const lock = status === undefined ? 'free' : await readLock(file);
  if (cause === undefined ? lock !== 'held' : !isAlive && lock === 'free') return;
  const who = isAlive ? `another process (${last})` : 'another process, perhaps in another container,';
  throw new Fault('ENGINE_BUSY', `${who} is using ${path}`, {
    kind: 'active',
    cause,
    hint: 'Wait for the other run to finish, or stop it.',
  });
}

/**
 * Whether the status file is locked, possibly by a process of another container, whose id means nothing here. A machine
 * without `flock` cannot tell.
 */
async function readLock(file: string): Promise<'free' | 'held' | 'unknown'> {
  return await new Promise((resolve) => {
    execFile('flock', ['-n', '-E', String(LOCKED), file, 'true'], (error) => {
      resolve(error === null ? 'free' : error.code === LOCKED ? 'held' : 'unknown');
    });
  });
}

/**
 * @param connect opens another connection to the same data; it works while the engine's own is busy
 * @param drain resolves when the library is idle @param stop ends the running statement and refuses later ones
 */
async function startEngine(
  session: Session,
  connect: () => Session,
  drain: () => Promise<void>,
  stop?: AbortSignal,
): Promise<Engine> {
  /** Comment that marks the engine's statements: the text of a statement with bound values is not kept unchanged. */
  const mark = randomUUID();
  /** For statements that run beside the others, one after another; opened by the first. */
  let second: Promise<Engine> | undefined;
  /** Resolves when all statements so far have ended. The cleanup after a failed one must finish before the next. */
  let last: Promise<void> = Promise.resolve();
  for (const statement of [
    `CREATE DATABASE IF NOT EXISTS ${DATABASE} ENGINE = Atomic`,
    `USE ${DATABASE}`,
    `SET log_comment = '${mark}'`,
  ]) {
    await session.queryAsync(statement, { format: 'Null' });
  }
  return { folder: session.path, command, rows, format: run, close };

  async function command(sql: string, options?: StatementOptions): Promise<void> {
    await run(sql, 'Null', options);
  }

  async function rows<Row extends object>(sql: string, options?: StatementOptions): Promise<readonly Row[]> {
    const result = await run(sql, 'JSON', options);
    return (JSON.parse(Buffer.from(result).toString('utf8')) as { data: Row[] }).data;
  }

  async function close(): Promise<void> {
    await (await second?.catch(ignore))?.close();
    session.close();
    await drain();
  }

  /** Runs one statement after earlier ones. An aborted one rejects at once, but keeps its turn until it has ended. */
  async function run(sql: string, format: string, { beside, ...options }: StatementOptions = {}): Promise<Uint8Array> {
    if (beside) {
      second ??= startEngine(connect(), connect, drain, stop);
      return await (await second).format(sql, format, options);
    }
    const signal = AbortSignal.any([stop, options.signal].filter((one) => one !== undefined));
    const turn = last.then(() => execute(sql, format, options, signal));
    last = turn.then(ignore, clean);
    try {
      return await untilAborted(turn, signal);
    } catch (error) {
      // The engine's own abort ends the command; the abort of one statement goes to its caller.
      if (stop?.aborted) throw createInterruption();
      throw signal.aborted ? toEngineFault(signal.reason) : error;
    }
  }

  /** Settles when the engine has ended the statement. */
  async function execute(sql: string, format: string, { params }: StatementOptions, signal: AbortSignal) {
    signal.throwIfAborted();
    const statement = params ? session.queryBindAsync(sql, params, { format }) : session.queryAsync(sql, { format });
    let killed: Promise<void> | undefined;
    const end = () => {
      killed = kill(statement);
    };
    signal.addEventListener('abort', end);
    try {
      return (await statement).bytes();
    } catch (cause) {
      throw toEngineFault(cause);
    } finally {
      signal.removeEventListener('abort', end);
      await killed;
    }
  }

  /** Never throws: a statement that cannot be killed ends by itself. @param statement settles when it has ended */
  async function kill(statement: Promise<unknown>): Promise<void> {
    const ended = new AbortController();
    const end = () => ended.abort();
    void statement.then(end, end);
    // Kills only this statement: the engine's statements run one after another.
    const sql = `KILL QUERY WHERE Settings['log_comment'] = '${mark}' ASYNC`;
    try {
      const connection = connect();
      while (!ended.signal.aborted) {
        await connection.queryAsync(sql, { format: 'Null' });
        await systemClock.sleep(KILL_EVERY_MS, ended.signal).catch(ignore);
      }
      connection.close();
    } catch {
      // Then wait for it, as for any other statement.
    }
  }

  /**
   * A statement that fails while it writes leaves its partial output in the library's output buffer, and the next
   * result, in any format, would begin with those bytes (seen in chdb 3.4.0). A dummy statement clears them.
   */
  async function clean(): Promise<void> {
    try {
      await session.queryAsync('SELECT 1', { format: 'Null' });
    } catch {
      // The result of this statement does not matter; if the engine is gone, the next statement reports it.
    }
  }
}

function ignore(): void {}

function toEngineFault(cause: unknown): EngineFault {
  const code = (cause as { clickhouseCode?: unknown }).clickhouseCode;
  return new EngineFault(typeof code === 'number' ? code : 0, describeError(cause), cause);
}
