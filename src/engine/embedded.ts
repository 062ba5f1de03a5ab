/**
 * ClickHouse inside this process (chdb). Invariant: one data path per process, statements run one after another off the
 * event loop; the native library is loaded when an engine is opened, never at import. An aborted statement is not
 * interrupted by the engine: the promise rejects at once and the computation ends on its own.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pid } from 'node:process';
import type { Session } from 'chdb';
import { readFileIfExists } from '../core/atomic-file.ts';
import { describeError, Fault } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';
import { isProcessAlive } from '../core/liveness.ts';
import { readTable } from './columns.ts';
import type { Engine, FormattedResult, InsertRequest, StatementOptions } from './engine.ts';
import { EngineFault } from './fault.ts';

export interface EmbeddedOptions {
  /** Folder of the data; created when missing. Without it the data is temporary and removed on close. */
  readonly path?: string;
  /** Cap of the engine's memory, bytes. */
  readonly maxMemoryBytes?: number;
  /** Threads of one statement; default: the engine's own choice (the number of cores). */
  readonly maxThreads?: number;
}

/** Where the engine of a data path says whose it is. It is locked while in use, and stays behind after a kill. */
const STATUS_FILE = 'status';

/**
 * Opens the embedded engine.
 * @throws Fault `ENGINE_BUSY` (kind `active`) when another process holds the path, `ENGINE_UNAVAILABLE` when the native
 *   library does not load here
 */
export async function openEmbeddedEngine(options: EmbeddedOptions = {}): Promise<Engine> {
  if (options.path !== undefined) await makeFolder(options.path);
  const chdb = await import('chdb').catch((cause: unknown) => {
    throw new Fault('ENGINE_UNAVAILABLE', `the embedded engine does not load: ${describeError(cause)}`, {
      cause,
      hint: 'It needs Linux with glibc or macOS; run `npm ci` again so that the platform package is installed.',
    });
  });
  // Asked before the engine is, which would write of its lock to stderr in its own words.
  if (options.path !== undefined && (await isHeldElsewhere(options.path))) throw await describeBusy(options.path);
  const connectionArgs = [
    '--output_format_json_quote_64bit_integers=0',
    // Times without a zone (the exchange's wall clock) must read the same on every machine.
    '--session_timezone=UTC',
    ...(options.maxMemoryBytes === undefined ? [] : [`--max_memory_usage=${options.maxMemoryBytes}`]),
    ...(options.maxThreads === undefined ? [] : [`--max_threads=${options.maxThreads}`]),
  ];
  try {
    const session = new chdb.Session(options.path, { connectionArgs });
    return new EmbeddedEngine(session, chdb.drainPending);
  } catch (cause) {
    if (options.path !== undefined) {
      const holder = await findHolder(options.path);
      const isHeld = holder !== undefined || (await readLock(options.path)) !== 'free';
      if (isHeld) throw await describeBusy(options.path, cause);
    }
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

async function describeBusy(path: string, cause?: unknown): Promise<Fault> {
  const holder = await findHolder(path);
  const who = holder === undefined ? 'another process, perhaps in another container,' : `another process (${holder})`;
  return new Fault('ENGINE_BUSY', `${who} is using ${path}`, {
    kind: 'active',
    cause,
    hint: 'Wait for the other run to finish, or stop it.',
  });
}

/** What this process has open the engine itself may share. */
async function isHeldElsewhere(path: string): Promise<boolean> {
  return (await readHolder(path)) !== pid && (await readLock(path)) === 'held';
}

/** The running process that has the path open. The engine tells the reason of its refusal only to its own stderr. */
async function findHolder(path: string): Promise<number | undefined> {
  const holder = await readHolder(path);
  return holder !== pid && isProcessAlive(holder) ? holder : undefined;
}

/** Number of the process that opened the path last; not a number where none did. */
async function readHolder(path: string): Promise<number> {
  const status = await readFileIfExists(join(path, STATUS_FILE));
  return Number(/^PID: (\d+)/m.exec(status ?? '')?.[1]);
}

/** Exit code of `flock` when somebody else has the lock. */
const LOCKED = 75;

/**
 * Whether the status file is locked: by a process of another container too, whose number says nothing here. A machine
 * without `flock` cannot tell; a path that does not open and has a status file then counts as held, because taking it for
 * broken would cost the rows of a running process.
 */
async function readLock(path: string): Promise<'free' | 'held' | 'unknown'> {
  const status = join(path, STATUS_FILE);
  if ((await readFileIfExists(status)) === undefined) return 'free';
  return await new Promise((resolve) => {
    execFile('flock', ['-n', '-E', String(LOCKED), status, 'true'], (error) => {
      resolve(error === null ? 'free' : error.code === LOCKED ? 'held' : 'unknown');
    });
  });
}

class EmbeddedEngine implements Engine {
  readonly kind = 'embedded';
  readonly #session: Session;
  readonly #drain: () => Promise<void>;
  /** Ends when the statements so far have: a failed one must be cleaned up after before the next begins. */
  #last: Promise<void> = Promise.resolve();

  constructor(session: Session, drain: () => Promise<void>) {
    this.#session = session;
    this.#drain = drain;
  }

  async command(sql: string, options: StatementOptions = {}): Promise<void> {
    await this.#run(sql, 'Null', options);
  }

  async rows<Row extends object>(sql: string, options: StatementOptions = {}): Promise<readonly Row[]> {
    const result = await this.#run(sql, 'JSON', options);
    return (JSON.parse(Buffer.from(result.bytes).toString('utf8')) as { data: Row[] }).data;
  }

  async format(sql: string, format: string, options: StatementOptions = {}): Promise<FormattedResult> {
    return await this.#run(sql, format, options);
  }

  async columns(sql: string, options: StatementOptions = {}) {
    return await readTable((await this.#run(sql, 'ArrowStream', options)).bytes);
  }

  async insert(request: InsertRequest): Promise<void> {
    try {
      await this.#session.insert({
        table: request.table,
        format: request.format,
        values: request.payload,
        ...(request.settings ? { settings: { ...request.settings } } : {}),
      });
    } catch (cause) {
      throw toEngineFault(cause);
    }
  }

  async close(): Promise<void> {
    this.#session.close();
    await this.#drain();
  }

  /** One statement, after those before it; an aborted one is given up at once, its turn is kept. */
  async #run(sql: string, format: string, options: StatementOptions): Promise<FormattedResult> {
    const { signal } = options;
    const turn = this.#last.then(() => this.#execute(sql, format, options));
    this.#last = turn.then(ignore, () => this.#clean());
    if (!signal) return await turn;
    const aborted = new Promise<never>((_resolve, reject) => {
      const give = () => reject(toEngineFault(signal.reason));
      if (signal.aborted) give();
      signal.addEventListener('abort', give, { once: true });
      void turn.then(ignore, ignore).then(() => signal.removeEventListener('abort', give));
    });
    return await Promise.race([turn, aborted]);
  }

  async #execute(sql: string, format: string, options: StatementOptions): Promise<FormattedResult> {
    const queryOptions = { format, ...(options.signal ? { signal: options.signal } : {}) };
    try {
      const result = options.params
        ? await this.#session.queryBindAsync(sql, options.params, queryOptions)
        : await this.#session.queryAsync(sql, queryOptions);
      return { bytes: result.bytes(), rows: result.rowsRead };
    } catch (cause) {
      throw toEngineFault(cause);
    }
  }

  /**
   * A statement that fails while it writes leaves what it had written in the library's output buffer, and the next
   * result, of whatever format, would begin with those bytes (seen in chdb 3.4.0): one statement is spent on them.
   */
  async #clean(): Promise<void> {
    try {
      await this.#session.queryAsync('SELECT 1', { format: 'Null' });
    } catch {
      // Nothing is asked of this statement; an engine that is gone says so to the next one.
    }
  }
}

function ignore(): void {}

function toEngineFault(cause: unknown): EngineFault {
  const code = (cause as { clickhouseCode?: unknown }).clickhouseCode;
  return new EngineFault(typeof code === 'number' ? code : 0, describeError(cause), cause);
}
