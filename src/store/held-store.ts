/**
 * A store that must keep the identity it was opened with. Invariant: nothing is written to another store that has taken
 * its place, and a missing object there does not count as missing: both end in `STORE_CHANGED`. The number of checks
 * depends on their cost. In a directory, whose disk may be unmounted at any moment, it checks before and after every
 * write, with a small local read; in S3, where a bucket does not change its identity within a minute, at most once a
 * minute.
 */
import type { Clock } from '../core/clock.ts';
import { assertSameStore, identifyStore, isStoreChange, type StorePlace, type StoreUse } from './identity.ts';
import type { ObjectLink } from './link.ts';
import type { ListedObject, ObjectBody, ObjectInfo, PutOptions, Store } from './store.ts';

/** How long a check remains valid. */
const TRUST_MS: Readonly<Record<StorePlace['kind'], number>> = { directory: 0, s3: 60_000 };

/**
 * Identifies the store and wraps it with checks. If `look` leaves it without an identity, it is returned unchanged.
 * @throws Fault `STORE_CHANGED`, `STORE_FORMAT`, StoreFault
 */
export async function holdStore(store: Store, place: StorePlace, use: StoreUse, clock: Clock): Promise<Store> {
  const id = await identifyStore(store, place, use);
  return id === undefined ? store : new HeldStore(store, place.kind, id, clock);
}

class HeldStore implements Store {
  readonly url: string;
  readonly #store: Store;
  readonly #kind: StorePlace['kind'];
  readonly #id: string;
  readonly #clock: Clock;
  #seenMs: number;

  constructor(store: Store, kind: StorePlace['kind'], id: string, clock: Clock) {
    this.url = store.url;
    this.#store = store;
    this.#kind = kind;
    this.#id = id;
    this.#clock = clock;
    this.#seenMs = clock.now();
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return await this.#believe(await this.#store.get(key));
  }

  async head(key: string): Promise<ObjectInfo | undefined> {
    return await this.#believe(await this.#store.head(key));
  }

  async put(key: string, body: ObjectBody, options?: PutOptions): Promise<void> {
    await this.#write(() => this.#store.put(key, body, options));
  }

  async putIfAbsent(key: string, bytes: Uint8Array, options?: PutOptions): Promise<boolean> {
    return await this.#write(() => this.#store.putIfAbsent(key, bytes, options));
  }

  async download(key: string, path: string, signal?: AbortSignal): Promise<boolean> {
    const isThere = await this.#store.download(key, path, signal);
    if (!isThere) await this.#assertSame();
    return isThere;
  }

  async *list(prefix: string, after?: string): AsyncIterable<ListedObject> {
    try {
      yield* this.#store.list(prefix, after);
    } catch (error) {
      throw await this.#explain(error);
    }
    // Only at the end: objects may have disappeared during the listing.
    await this.#assertSame();
  }

  async listFolders(prefix: string): Promise<readonly string[]> {
    try {
      const folders = await this.#store.listFolders(prefix);
      await this.#assertSame();
      return folders;
    } catch (error) {
      throw await this.#explain(error);
    }
  }

  async copy(from: string, to: string): Promise<ObjectInfo> {
    return await this.#write(() => this.#store.copy(from, to));
  }

  async remove(key: string): Promise<void> {
    await this.#write(() => this.#store.remove(key));
  }

  async link(key: string, seconds: number): Promise<ObjectLink | undefined> {
    return await this.#store.link(key, seconds);
  }

  async close(): Promise<void> {
    await this.#store.close();
  }

  async #believe<T>(found: T | undefined): Promise<T | undefined> {
    if (found === undefined) await this.#assertSame();
    return found;
  }

  async #write<T>(write: () => Promise<T>): Promise<T> {
    await this.#assertSame();
    const done = await write().catch(async (error: unknown) => {
      throw await this.#explain(error);
    });
    await this.#assertSame();
    return done;
  }

  /** A missing disk explains more than the file that could not be written to it. */
  async #explain(error: unknown): Promise<unknown> {
    const change: unknown = await this.#assertSame().catch((found: unknown) => found);
    return isStoreChange(change) ? change : error;
  }

  async #assertSame(): Promise<void> {
    // If the clock was set, in either direction, check again.
    if (Math.abs(this.#clock.now() - this.#seenMs) < TRUST_MS[this.#kind]) return;
    await assertSameStore(this.#store, this.#kind, this.#id);
    this.#seenMs = this.#clock.now();
  }
}
