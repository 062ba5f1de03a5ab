/**
 * The statements of one task on the nodes of a server. Invariant: a statement whose node is lost before its answer has
 * arrived runs on another node, once on each, and its caller notices only the time; an error of the statement itself is
 * never tried again. That is safe because the service's user may only read.
 *
 * An error after a 200 is impossible, because the server keeps the result until the statement has ended
 * (`wait_end_of_query`), and because the beginning of the result is read before any of it is passed on: only an answer
 * longer than `HELD_BYTES` can break in the middle, and only while its node dies.
 */
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { buffer, json } from 'node:stream/consumers';
import { EngineFault } from './engine-fault.ts';
import { quoteString } from './literal.ts';
import type { PooledEngine } from './pool.ts';
import { toEngineFault } from './server-client.ts';
import type { ServerNode } from './server-node.ts';

/** Decides where statements run. */
export interface NodeChoice {
  /** Number of nodes. */
  readonly size: number;
  /** The node for the next statement, other than `tried`. */
  pick(tried: ReadonlySet<ServerNode>): ServerNode | undefined;
  /** Whether the node, or the cluster, is to blame for a failure, so that another node may do better. */
  isToBlame(node: ServerNode, fault: EngineFault): Promise<boolean>;
}

/** Bytes of a result that are read before the first is passed on; an answer of 10,000 trade records has about 7 MB. */
const HELD_BYTES = 8_000_000;
/** A statement still running this long after KILL is left to the server's own time limit. */
const KILL_WAIT_MS = 5_000;
/** KILL may overtake its statement, which the server then does not know yet. */
const KILL_ATTEMPTS = 3;

interface OpenStatement {
  readonly node: ServerNode;
  readonly control: AbortController;
}

export class ServerStatements implements PooledEngine {
  readonly state: object;
  readonly #nodes: NodeChoice;
  /** Statements that a server may still be running, by id. */
  readonly #open = new Map<string, OpenStatement>();
  /** Resolves when all statements so far have ended. */
  #last: Promise<unknown> = Promise.resolve();
  /** Results that were not read to their end. */
  readonly #results = new Set<Readable>();
  #isOver = false;

  constructor(nodes: NodeChoice) {
    this.#nodes = nodes;
    // All tasks share the state of the server, and all nodes have the same.
    this.state = nodes;
  }

  async rows<Row extends object>(sql: string): Promise<readonly Row[]> {
    const result = await this.#send(`${sql}\nFORMAT JSON`, json);
    return (result as { data: Row[] }).data; // The format defines the shape; the caller is responsible for `Row`.
  }

  async command(sql: string): Promise<void> {
    await this.#send(sql, buffer);
  }

  async stream(sql: string, format: string): Promise<AsyncIterable<Uint8Array>> {
    return await this.#send(`${sql}\nFORMAT ${format}`, async (result) => {
      this.#results.add(result);
      if (this.#nodes.size === 1) return this.#read([], result);
      // A byte stream, not in object mode, yields bytes.
      const pieces: AsyncIterator<Uint8Array> = result[Symbol.asyncIterator]();
      const held: Uint8Array[] = [];
      for (let bytes = 0; bytes < HELD_BYTES; ) {
        const next = await pieces.next();
        if (next.done) break;
        held.push(next.value);
        bytes += next.value.length;
      }
      return this.#read(held, { [Symbol.asyncIterator]: () => pieces }, result);
    });
  }

  /** Ends running statements. No statement begins afterwards. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const result of this.#results) result.destroy();
    const open = [...this.#open.entries()];
    for (const [, { control }] of open) control.abort();
    await Promise.all(open.map(([id, { node }]) => this.#kill(node, id)));
  }

  async *#read(
    held: readonly Uint8Array[],
    rest: AsyncIterable<Uint8Array>,
    result: Readable = rest as Readable,
  ): AsyncGenerator<Uint8Array> {
    try {
      yield* held;
      for await (const piece of rest) yield piece;
    } catch (cause) {
      throw toEngineFault(cause);
    } finally {
      this.#results.delete(result);
      result.destroy();
    }
  }

  /** Sends one statement after earlier ones and reads its result. */
  async #send<T>(query: string, read: (result: Readable) => Promise<T>): Promise<T> {
    const turn = this.#last.then(() => this.#execute(query, read));
    this.#last = turn.catch(() => {});
    return await turn;
  }

  async #execute<T>(query: string, read: (result: Readable) => Promise<T>): Promise<T> {
    const tried = new Set<ServerNode>();
    let failed = new EngineFault(0, 'the task of this engine is over');
    while (!this.#isOver) {
      const node = this.#nodes.pick(tried);
      if (node === undefined) throw failed;
      tried.add(node);
      try {
        return await this.#executeOn(node, query, read);
      } catch (cause) {
        failed = toEngineFault(cause);
        if (this.#isOver || !(await this.#nodes.isToBlame(node, failed))) throw failed;
      }
    }
    throw failed;
  }

  async #executeOn<T>(node: ServerNode, query: string, read: (result: Readable) => Promise<T>): Promise<T> {
    const id = randomUUID();
    const control = new AbortController();
    this.#open.set(id, { node, control });
    const end = node.begin(control);
    try {
      const { stream } = await node.client.exec({ query, query_id: id, abort_signal: control.signal });
      const result = await read(stream);
      this.#open.delete(id);
      return result;
    } catch (cause) {
      const fault = toEngineFault(control.signal.aborted ? control.signal.reason : cause);
      // An error number means that the server has answered, so the statement is over; a silent server hears no KILL.
      if (fault.clickhouseCode !== 0 || (control.signal.aborted && !this.#isOver)) this.#open.delete(id);
      throw fault;
    } finally {
      end();
    }
  }

  /** Best effort: if the server is gone, or another one answers at its address, the server's time limit remains. */
  async #kill(node: ServerNode, id: string): Promise<void> {
    const abort_signal = AbortSignal.timeout(KILL_WAIT_MS);
    try {
      for (let attempt = 0; attempt < KILL_ATTEMPTS; attempt += 1) {
        const { stream } = await node.client.exec({
          query: `KILL QUERY WHERE query_id = ${quoteString(id)} SYNC`,
          abort_signal,
        });
        // The answer lists the killed statements.
        if ((await buffer(stream)).length > 0) break;
      }
    } catch {
      // Nothing more can be done from here.
    }
    this.#open.delete(id);
  }
}
