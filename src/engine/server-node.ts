/**
 * One address of a ClickHouse server: its connection, its running statements, and whether it answers at all. A server
 * that hangs keeps its connections open, and sends nothing before a statement has ended, so silence alone means
 * nothing: while statements run, the server is pinged.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { EngineFault } from './engine-fault.ts';

/** Between two pings of a server that runs statements. */
const PING_EVERY_MS = 1_000;
/** A ping costs the server nothing; without an answer for this long it hangs, or its network is gone. */
const SILENT_MS = 5_000;

export class ServerNode {
  readonly url: string;
  /** `host:port`, for people. */
  readonly name: string;
  readonly client: ClickHouseClient;
  /** No statement goes there while others answer. */
  isLost = false;
  readonly #isWatched: boolean;
  readonly #running = new Set<AbortController>();
  #watch: AbortController | undefined;

  /** @param isWatched whether to ping; useless if there is no other node for its statements */
  constructor(url: string, client: ClickHouseClient, isWatched: boolean) {
    this.url = url;
    this.name = new URL(url).host;
    this.client = client;
    this.#isWatched = isWatched;
  }

  /** Number of statements that run there. */
  get running(): number {
    return this.#running.size;
  }

  /** Counts a statement until the returned function is called; aborted if the server falls silent. */
  begin(control: AbortController): () => void {
    this.#running.add(control);
    if (this.#isWatched && this.#watch === undefined) {
      this.#watch = new AbortController();
      void this.#ping(this.#watch.signal);
    }
    return () => {
      this.#running.delete(control);
      if (this.#running.size === 0) this.#stopWatching();
    };
  }

  async close(): Promise<void> {
    this.#stopWatching();
    await this.client.close();
  }

  async #ping(signal: AbortSignal): Promise<void> {
    for (;;) {
      await delay(PING_EVERY_MS, undefined, { signal, ref: false }).catch(() => {}); // It ends early when not needed.
      if (signal.aborted) return;
      const answer = await this.client.ping({ select: false, abort_signal: AbortSignal.timeout(SILENT_MS) });
      if (signal.aborted) return;
      if (answer.success) continue;
      const silent = new EngineFault(0, `${this.name} does not answer`, answer.error);
      for (const control of [...this.#running]) control.abort(silent);
    }
  }

  #stopWatching(): void {
    this.#watch?.abort();
    this.#watch = undefined;
  }
}
