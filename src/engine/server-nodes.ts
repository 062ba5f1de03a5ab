/**
 * The nodes of a ClickHouse server or cluster that give the same answers. Invariant: a node runs statements only after
 * it has passed the caller's check; one that is lost gets no statement while another answers, until it passes again.
 * Statements go to the node that runs the fewest.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Capabilities, readCapabilities } from './capabilities.ts';
import { CLICKHOUSE_CODES, EngineFault } from './engine-fault.ts';
import type { EngineSettings } from './literal.ts';
import { openServerClient, toEngineFault } from './server-client.ts';
import { ServerNode } from './server-node.ts';
import { type NodeChoice, ServerStatements } from './server-statements.ts';

export interface NodesOptions {
  /** `http(s)://user:password@host:port/database`, one or more. */
  readonly urls: readonly string[];
  readonly maxConnections: number;
  /** Settings sent with every statement, given the names of those that all nodes know. */
  readonly settings: (known: ReadonlySet<string>) => EngineSettings;
  /** Throws if a node must not be used. */
  readonly check: (engine: ServerStatements, capabilities: Capabilities, node: string) => Promise<void>;
  /** A node was lost, with the reason; or it is used again. */
  readonly onNode: (node: string, lost: Error | undefined) => void;
}

/** Before a lost node is checked again. */
const REST_MS = 3_000;
/** A node that cannot be checked in this time is not there. */
const CHECK_MS = 10_000;

/** The connections between the nodes of a cluster failed: the same statement on another node takes other connections. */
const CLUSTER_CODES: ReadonlySet<number> = new Set([
  CLICKHOUSE_CODES.DNS_ERROR,
  CLICKHOUSE_CODES.SOCKET_TIMEOUT,
  CLICKHOUSE_CODES.NETWORK_ERROR,
  CLICKHOUSE_CODES.ALL_CONNECTION_TRIES_FAILED,
]);
/** Errors that have these numbers in the middle of a value too, so their text decides. */
const CUT_CODES: ReadonlySet<number> = new Set([
  CLICKHOUSE_CODES.ATTEMPT_TO_READ_AFTER_EOF,
  CLICKHOUSE_CODES.CANNOT_READ_ALL_DATA,
]);
const CUT_TEXT = /while (reading from|receiving packet from|writing to) /;
/** A node that was set up anew lacks tables and users; but the caller's SQL can be wrong, too. */
const DOUBTFUL_CODES: ReadonlySet<number> = new Set([
  CLICKHOUSE_CODES.UNKNOWN_TABLE,
  CLICKHOUSE_CODES.UNKNOWN_DATABASE,
  CLICKHOUSE_CODES.UNKNOWN_USER,
  CLICKHOUSE_CODES.WRONG_PASSWORD,
  CLICKHOUSE_CODES.REQUIRED_PASSWORD,
  CLICKHOUSE_CODES.QUERY_WAS_CANCELLED,
  CLICKHOUSE_CODES.ACCESS_DENIED,
  CLICKHOUSE_CODES.AUTHENTICATION_FAILED,
]);

export class ServerNodes implements NodeChoice {
  readonly #nodes: readonly ServerNode[];
  readonly #options: NodesOptions;
  readonly #capabilities: Capabilities;
  readonly #closing = new AbortController();
  /** Checks of nodes that run at present. */
  readonly #checks = new Map<ServerNode, Promise<Error | undefined>>();
  readonly #returns = new Set<Promise<void>>();

  private constructor(nodes: readonly ServerNode[], capabilities: Capabilities, options: NodesOptions) {
    this.#nodes = nodes;
    this.#capabilities = capabilities;
    this.#options = options;
  }

  /**
   * Connects to all nodes and checks them. Those that cannot be used now count as lost.
   * @throws what the first node failed with, if none can be used
   */
  static async open(options: NodesOptions): Promise<ServerNodes> {
    const read = await Promise.all(options.urls.map(readNode));
    const present = read.filter((found): found is Capabilities => !(found instanceof Error));
    const [first] = present;
    if (first === undefined) throw read[0];
    const settings = new Set([...first.settings].filter((name) => present.every((found) => found.settings.has(name))));
    const functions = first.functions.filter((name) => present.every((found) => found.functions.includes(name)));
    const sent = options.settings(settings);
    const { maxConnections, urls } = options;
    const nodes: ServerNode[] = [];
    for (const url of urls)
      nodes.push(new ServerNode(url, await openServerClient({ url, maxConnections, settings: sent }), urls.length > 1));
    const opened = new ServerNodes(nodes, { ...first, settings, functions }, options);
    try {
      const faults = await Promise.all(nodes.map((node, index) => opened.#check(node, read[index])));
      if (faults.every((fault) => fault !== undefined)) throw faults[0];
      for (const [index, fault] of faults.entries()) if (fault) opened.#lose(nodes[index] as ServerNode, fault);
      return opened;
    } catch (error) {
      await opened.close();
      throw error;
    }
  }

  get size(): number {
    return this.#nodes.length;
  }

  /** What all nodes have. */
  get capabilities(): Capabilities {
    return this.#capabilities;
  }

  pick(tried: ReadonlySet<ServerNode>): ServerNode | undefined {
    const rank = (node: ServerNode) => (node.isLost ? 1e9 : 0) + node.running;
    return this.#nodes
      .filter((node) => !tried.has(node))
      .reduce<ServerNode | undefined>((best, node) => (best && rank(best) <= rank(node) ? best : node), undefined);
  }

  async isToBlame(node: ServerNode, fault: EngineFault): Promise<boolean> {
    if (this.size === 1) return false;
    const code = fault.clickhouseCode;
    if (code === 0) {
      // Whatever it is, it is no answer of ClickHouse.
      this.#lose(node, fault);
      return true;
    }
    if (CLUSTER_CODES.has(code) || (CUT_CODES.has(code) && CUT_TEXT.test(fault.message))) return true;
    if (!DOUBTFUL_CODES.has(code)) return false;
    const unready = await this.#check(node);
    if (unready === undefined) return false;
    this.#lose(node, unready);
    return true;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#nodes.map((node) => node.close()));
    await Promise.allSettled([...this.#returns, ...this.#checks.values()]);
  }

  #lose(node: ServerNode, fault: Error): void {
    if (node.isLost || this.#closing.signal.aborted) return;
    node.isLost = true;
    this.#options.onNode(node.name, fault);
    const returning = this.#returnLater(node);
    this.#returns.add(returning);
    returning.finally(() => this.#returns.delete(returning));
  }

  async #returnLater(node: ServerNode): Promise<void> {
    const { signal } = this.#closing;
    do {
      await delay(REST_MS, undefined, { signal, ref: false }).catch(() => {});
      if (signal.aborted) return;
    } while ((await this.#check(node)) !== undefined);
    node.isLost = false;
    this.#options.onNode(node.name, undefined);
  }

  /** Why the node cannot be used; `undefined` if it can. One check at a time. */
  async #check(node: ServerNode, found?: Capabilities | Error): Promise<Error | undefined> {
    const running = this.#checks.get(node);
    if (running !== undefined) return await running;
    const check = this.#examine(node, found).then(
      () => undefined,
      (cause: unknown) => (cause instanceof Error ? cause : toEngineFault(cause)),
    );
    this.#checks.set(node, check);
    return await check.finally(() => this.#checks.delete(node));
  }

  async #examine(node: ServerNode, read?: Capabilities | Error): Promise<void> {
    const found = read ?? (await readNode(node.url));
    if (found instanceof Error) throw found;
    const missing = [...this.#capabilities.settings].filter((name) => !found.settings.has(name));
    if (missing.length > 0)
      throw new EngineFault(0, `${node.name} has another version: it lacks the setting ${missing[0]}`);
    await ask(node, (engine) => this.#options.check(engine, found, node.name));
  }
}

/** A choice of one. */
function only(node: ServerNode): NodeChoice {
  return {
    size: 1,
    pick: (tried) => (tried.has(node) ? undefined : node),
    isToBlame: async () => false,
  };
}

/**
 * What a node has, or why it does not say; without the settings of statements, which may limit the answer.
 * @throws Fault `SERVER_URL_INVALID` (kind `usage`)
 */
async function readNode(url: string): Promise<Capabilities | Error> {
  const client = await openServerClient({ url });
  try {
    return await ask(new ServerNode(url, client, false), readCapabilities);
  } catch (cause) {
    return toEngineFault(cause);
  } finally {
    await client.close();
  }
}

/** Asks one node, for so long at most. @throws EngineFault */
async function ask<T>(node: ServerNode, action: (engine: ServerStatements) => Promise<T>): Promise<T> {
  const engine = new ServerStatements(only(node));
  const over = new AbortController();
  const late = delay(CHECK_MS, undefined, { signal: over.signal, ref: false }).then(() => {
    throw new EngineFault(0, `${node.name} does not answer`);
  });
  late.catch(() => {}); // The race below has it.
  try {
    return await Promise.race([action(engine), late]);
  } finally {
    over.abort();
    await engine.end();
  }
}
