/**
 * ClickHouse inside this process (chdb). Invariant: one data path per process, statements run one after another off the
 * event loop; the native library is loaded when an engine is opened, never at import. An aborted statement rejects at
 * once, and its computation is killed through a connection of its own: it would keep the process to its end otherwise,
 * because Node joins its threads before it exits.
 */
import { randomUUID } from 'node:crypto';
import type { Session } from 'chdb';
import { systemClock } from '../core/clock.ts';
import { assertNotAborted, createInterruption, describeError, Fault } from '../core/errors.ts';
import { makeFolder } from '../core/folder.ts';
import { assertEnoughFiles, planEngineMemory, readFileLimit, readMemoryBytes } from '../core/machine.ts';
import { readTable } from './arrow-table.ts';
import type { Engine, FormattedResult, InsertRequest, StatementOptions } from './engine.ts';
import { EngineFault } from './engine-fault.ts';
import { describeBusy, isHeldElsewhere, isProbablyHeld } from './holder.ts';

export interface EmbeddedOptions {
  /** Folder of the data; created when missing. Without it the data is temporary and removed on close. */
  readonly path?: string;
  /** Cap of the engine's memory, bytes; default: what of the machine's or container's memory is not needed beside it. */
  readonly maxMemoryBytes?: number;
  /** Threads of one statement; default: the engine's own choice (the number of cores). */
  readonly maxThreads?: number;
  /** Ends the statement under way, and refuses those that follow: both throw Fault `INTERRUPTED`. */
  readonly signal?: AbortSignal | undefined;
}

/** A statement that is on its way to the engine is not among its processes yet, so it is looked for again. */
const KILL_EVERY_MS = 50;

/**
 * Opens the embedded engine.
 * @throws Fault `ENGINE_BUSY` (kind `active`) when another process holds the path, `ENGINE_UNAVAILABLE` when the native
 *   library does not load here, `MEMORY_TOO_SMALL` and `FILES_TOO_FEW` where it could not work
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
  // Asked before the engine is, which would write of its lock to stderr in its own words.
  if (options.path !== undefined && (await isHeldElsewhere(options.path))) throw await describeBusy(options.path);
  const connectionArgs = [
    '--output_format_json_quote_64bit_integers=0',
    // Times without a zone (the exchange's wall clock) must read the same on every machine.
    '--session_timezone=UTC',
    // The library maps files into memory by default: they count as the process's own, and one that somebody shortens
    // while it is read ends the process.
    '--storage_file_read_method=pread',
    // The library would take nine tenths of the machine, whatever the container may have. The second one's message is clearer.
    `--max_server_memory_usage=${maxMemoryBytes}`,
    `--max_memory_usage=${maxMemoryBytes}`,
    ...(options.maxThreads === undefined ? [] : [`--max_threads=${options.maxThreads}`]),
  ];
  try {
    const session = new chdb.Session(options.path, { connectionArgs });
    const mark = randomUUID();
    await session.queryAsync(`SET log_comment = '${mark}'`, { format: 'Null' });
    return new EmbeddedEngine(session, {
      mark,
      drain: chdb.drainPending,
      connect: () => new chdb.Session(session.path, { connectionArgs }),
      signal: options.signal,
    });
  } catch (cause) {
    if (options.path !== undefined) {
      if (await isProbablyHeld(options.path)) throw await describeBusy(options.path, cause);
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

interface EngineParts {
  /** Resolves when the library does nothing any more. */
  readonly drain: () => Promise<void>;
  /** One more connection to the same data: it is served while the engine's own is busy. */
  readonly connect: () => Session;
  /** Comment on the engine's statements: their texts are not kept as they came where values are bound. */
  readonly mark: string;
  readonly signal: AbortSignal | undefined;
}

class EmbeddedEngine implements Engine {
  readonly kind = 'embedded';
  readonly #session: Session;
  readonly #parts: EngineParts;
  /** Ends when the statements so far have: a failed one must be cleaned up after before the next begins. */
  #last: Promise<void> = Promise.resolve();

  constructor(session: Session, parts: EngineParts) {
    this.#session = session;
    this.#parts = parts;
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
    assertNotAborted(this.#parts.signal);
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
    await this.#parts.drain();
  }

  /** One statement, after those before it; an aborted one is given up at once, its turn lasts until it has ended. */
  async #run(sql: string, format: string, options: StatementOptions): Promise<FormattedResult> {
    const signals = [this.#parts.signal, options.signal].filter((signal) => signal !== undefined);
    const turn = this.#last.then(() => this.#execute(sql, format, options, signals));
    this.#last = turn.then(ignore, () => this.#clean());
    let forget = ignore;
    const aborted = new Promise<never>((_resolve, reject) => {
      forget = onAbort(signals, () => reject(this.#describeAbort(options.signal)));
    });
    try {
      return await Promise.race([turn, aborted]);
    } finally {
      forget();
    }
  }

  /** Settles when the engine has ended the statement. */
  async #execute(
    sql: string,
    format: string,
    { params, signal }: StatementOptions,
    signals: readonly AbortSignal[],
  ): Promise<FormattedResult> {
    if (signals.some(({ aborted }) => aborted)) throw this.#describeAbort(signal);
    const statement = params
      ? this.#session.queryBindAsync(sql, params, { format })
      : this.#session.queryAsync(sql, { format });
    let killed: Promise<void> | undefined;
    const forget = onAbort(signals, () => {
      killed ??= this.#kill(statement);
    });
    try {
      const result = await statement;
      return { bytes: result.bytes(), rows: result.rowsRead };
    } catch (cause) {
      throw toEngineFault(cause);
    } finally {
      forget();
      await killed;
    }
  }

  /** Never throws: what cannot be killed ends by itself. @param statement settles when it has ended */
  async #kill(statement: Promise<unknown>): Promise<void> {
    const ended = new AbortController();
    const end = () => ended.abort();
    void statement.then(end, end);
    // No other statement of this engine can be meant: they run one after another.
    const kill = `KILL QUERY WHERE Settings['log_comment'] = '${this.#parts.mark}' ASYNC`;
    try {
      const connection = this.#parts.connect();
      while (!ended.signal.aborted) {
        await connection.queryAsync(kill, { format: 'Null' });
        await systemClock.sleep(KILL_EVERY_MS, ended.signal).catch(ignore);
      }
      connection.close();
    } catch {
      // It is waited for then, as for any other statement.
    }
  }

  /** The end of the engine is the end of the command; that of one statement is its caller's affair. */
  #describeAbort(signal: AbortSignal | undefined): Fault {
    const { signal: own } = this.#parts;
    return own?.aborted ? createInterruption() : toEngineFault(signal?.reason);
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

/** Calls at the first abort, at once if it has come already. @returns what ends the listening */
function onAbort(signals: readonly AbortSignal[], act: () => void): () => void {
  if (signals.some(({ aborted }) => aborted)) act();
  for (const signal of signals) signal.addEventListener('abort', act, { once: true });
  return () => {
    for (const signal of signals) signal.removeEventListener('abort', act);
  };
}

function toEngineFault(cause: unknown): EngineFault {
  const code = (cause as { clickhouseCode?: unknown }).clickhouseCode;
  return new EngineFault(typeof code === 'number' ? code : 0, describeError(cause), cause);
}
