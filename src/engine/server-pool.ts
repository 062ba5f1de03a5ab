/**
 * Many callers on a ClickHouse server or cluster, over HTTP. Invariant: at most `size` statements run at the same time,
 * and an aborted statement is ended on the server before its slot is released.
 *
 * Three things end it: the closed connection, which newer servers watch
 * (`cancel_http_readonly_queries_on_client_close`); KILL QUERY with the statement's own id, for older ones; and, if
 * neither reaches the server, its own time limit.
 *
 * An error after a 200 is impossible, because the server keeps the result until the statement has ended
 * (`wait_end_of_query`); results above `RESULT_MEMORY_BYTES` go to its disk. The alternative would be to send at once
 * and to look for the exception at the body's end. Then we would have to keep the whole result here, since nothing may
 * be passed on before success is known; the server's threads would be freed only as fast as the caller reads; and older
 * servers write that end differently.
 */
import { type Capabilities, keepKnown } from './capabilities.ts';
import { EngineFault } from './engine-fault.ts';
import { FairSlots, type TurnLimits } from './fair-slots.ts';
import type { EngineSettings } from './literal.ts';
import type { EnginePool, PooledEngine, PoolRequest } from './pool.ts';
import { ServerNodes } from './server-nodes.ts';
import { ServerStatements } from './server-statements.ts';

export interface ServerPoolOptions extends TurnLimits {
  /**
   * `http(s)://user:password@host:port/database`, one for each node of a cluster that may be asked. A statement goes to
   * the one that runs the fewest, and to another one if that is lost.
   */
  readonly urls: readonly string[];
  /**
   * Settings sent with every statement, given the names of the settings that the server knows; unknown ones are left
   * out. Old servers obey `max_memory_usage` and `max_result_rows` only here, not in a SETTINGS clause. Default: none.
   */
  readonly settings?: (known: ReadonlySet<string>) => EngineSettings;
  /** Throws if a node must not be used: asked at the start, and again before a lost node is used. Default: none. */
  readonly check?: (engine: PooledEngine, capabilities: Capabilities, node: string) => Promise<void>;
  /** Called when a node (`host:port`) is lost, with the reason, and when it is used again. Default: nothing. */
  readonly onNode?: (node: string, lost: Error | undefined) => void;
}

export interface ServerPool extends EnginePool {
  /** What all nodes had when the pool was opened. */
  readonly capabilities: Capabilities;
}

/** Bytes of a result that the server keeps in memory; an answer of 10,000 trade records has about 7 MB. */
const RESULT_MEMORY_BYTES = 16_000_000;
/**
 * A node that waits for another one, which has hung, gives up after this much silence, seconds; a node that works reports
 * its progress several times a second. Without it, it would wait for minutes.
 */
const NODE_SILENCE_SECONDS = 5;
/** A replica that lags by more than this, seconds, is not read while another lags less. The default is 300. */
const MAX_LAG_SECONDS = 10;

/**
 * Opens the pool and reads the capabilities of its nodes. One that cannot be used counts as lost, if there is another.
 * @throws EngineFault if no node is reachable and takes the user; or what `check` throws, if no node passes it
 */
export async function openServerPool(options: ServerPoolOptions): Promise<ServerPool> {
  // Of use only where another node can be asked instead.
  const between =
    options.urls.length === 1
      ? {}
      : {
          receive_timeout: NODE_SILENCE_SECONDS,
          send_timeout: NODE_SILENCE_SECONDS,
          max_replica_delay_for_distributed_queries: MAX_LAG_SECONDS,
        };
  const nodes = await ServerNodes.open({
    urls: options.urls,
    // One statement per slot, as many KILLs, and a ping.
    maxConnections: 2 * options.size + 1,
    settings: (settings) => ({
      buffer_size: RESULT_MEMORY_BYTES,
      ...keepKnown(
        { cancel_http_readonly_queries_on_client_close: 1, ...between, ...options.settings?.(settings) },
        { settings },
      ),
    }),
    check: options.check ?? (async () => {}),
    onNode: options.onNode ?? (() => {}),
  });
  return new HttpPool(nodes, options);
}

class HttpPool implements ServerPool {
  readonly kind = 'server';
  readonly size: number;
  readonly #nodes: ServerNodes;
  readonly #turns: FairSlots;
  /** Running tasks, by the function that aborts each. */
  readonly #running = new Map<(reason: unknown) => void, Promise<unknown>>();

  constructor(nodes: ServerNodes, limits: TurnLimits) {
    this.#nodes = nodes;
    this.size = limits.size;
    this.#turns = new FairSlots(limits);
  }

  get capabilities(): Capabilities {
    return this.#nodes.capabilities;
  }

  get running(): number {
    return this.#turns.running;
  }

  get waiting(): number {
    return this.#turns.waiting;
  }

  async use<T>(request: PoolRequest, task: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const turn = await this.#turns.take(request.owner, request.signal);
    let give: (reason: unknown) => void = () => {};
    const given = new Promise<never>((_resolve, reject) => {
      give = reject;
    });
    const abort = () => give(request.signal.reason);
    const running = this.#run(given, task).finally(() => {
      turn.release();
      this.#running.delete(give);
    });
    this.#running.set(give, running);
    request.signal.addEventListener('abort', abort, { once: true });
    if (request.signal.aborted) abort();
    try {
      // An aborting caller need not wait until the server has ended the statement; the slot does.
      return await Promise.race([running, given]);
    } finally {
      request.signal.removeEventListener('abort', abort);
    }
  }

  async close(): Promise<void> {
    this.#turns.close();
    for (const give of this.#running.keys()) give(new EngineFault(0, 'the engines are closed'));
    await Promise.allSettled(this.#running.values());
    await this.#nodes.close();
  }

  /** Returns the task's result, or throws the abort reason; in either case no statement is left on the server. */
  async #run<T>(given: Promise<never>, task: (engine: PooledEngine) => Promise<T>): Promise<T> {
    const engine = new ServerStatements(this.#nodes);
    try {
      return await Promise.race([task(engine), given]);
    } finally {
      await engine.end();
    }
  }
}
