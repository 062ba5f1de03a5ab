/**
 * One document of a store that several workers change. Its newest version is the object with the highest number below a
 * prefix; a change reads it and writes the next number, which only one worker can create. On a store whose `putIfAbsent`
 * is real (a run opens no other), this guarantees:
 * - two writers: both changes are in the document, the second upon the first
 * - a kill at any step: the document is as before the change, or as after it
 * - an answer that is late or lost: the change may be applied twice, so it must set values and not add to them
 * - a slow writer cannot use the number of an old version again that was removed
 * It does not order changes of different documents, and keeps only the newest versions.
 */
import { Fault } from '../core/errors.ts';
import type { Store } from './store.ts';

/** A try fails when another worker changes the document at the same moment. */
const MAX_TRIES = 20;

interface DocumentKind<T> {
  /** Keys are this, the number, and `suffix`. */
  readonly prefix: string;
  readonly suffix: string;
  /** Newest versions that are kept, for readers that are slow: at least 2, and the same for every writer. */
  readonly kept: number;
  /** @returns `undefined` for a damaged text, which then counts as none @throws Fault where it must not */
  parse(bytes: Uint8Array, where: string): T | undefined;
  format(value: T): Uint8Array;
}

export interface DocumentVersion<T> {
  /** 0 before the first. */
  readonly version: number;
  readonly value: T | undefined;
}

export class Document<T> {
  readonly #store: Store;
  readonly #kind: DocumentKind<T>;

  constructor(store: Store, kind: DocumentKind<T>) {
    this.#store = store;
    this.#kind = kind;
  }

  keyOf(version: number): string {
    return `${this.#kind.prefix}${version}${this.#kind.suffix}`;
  }

  async listVersions(): Promise<readonly number[]> {
    const { prefix, suffix } = this.#kind;
    const versions: number[] = [];
    for await (const { key } of this.#store.list(prefix)) {
      const number = key.slice(prefix.length, key.length - suffix.length);
      if (key.endsWith(suffix) && /^[1-9]\d{0,8}$/.test(number)) versions.push(Number(number));
    }
    return versions.sort((a, b) => a - b);
  }

  /** Costs a listing and a read. @throws StoreFault; Fault `DOCUMENT_BUSY`, and of `parse` */
  async read(): Promise<DocumentVersion<T>> {
    return await this.#untilAlone(async () => {
      const version = (await this.listVersions()).at(-1);
      if (version === undefined) return { version: 0, value: undefined };
      const bytes = await this.#store.get(this.keyOf(version));
      // Removed since it was listed: then there are newer ones.
      return bytes && { version, value: this.#parse(version, bytes) };
    });
  }

  /** One version; `undefined` if it is gone or damaged. */
  async readVersion(version: number): Promise<T | undefined> {
    const bytes = await this.#store.get(this.keyOf(version));
    return bytes && this.#parse(version, bytes);
  }

  /**
   * Makes a change, again and again until no other worker comes in between. Nothing is written if it changes nothing.
   * @param change of the newest value (`undefined`: there is none); returns `undefined` for no change
   * @throws StoreFault; Fault `DOCUMENT_BUSY`, and of `parse` and `change`
   */
  async update(change: (before: T | undefined) => T | undefined | Promise<T | undefined>): Promise<DocumentVersion<T>> {
    return await this.#untilAlone(async () => {
      const before = await this.read();
      const value = await change(before.value);
      if (value === undefined) return before;
      const { format } = this.#kind;
      if (before.value !== undefined && Buffer.compare(format(value), format(before.value)) === 0) return before;
      const after = { version: before.version + 1, value };
      return (await this.write(after)) ? after : undefined;
    });
  }

  /** Writes this as the newest version, whatever is there. @throws StoreFault; Fault `DOCUMENT_BUSY` */
  async replace(value: T): Promise<number> {
    return await this.#untilAlone(async () => {
      const version = ((await this.listVersions()).at(-1) ?? 0) + 1;
      return (await this.write({ version, value })) ? version : undefined;
    });
  }

  /**
   * Writes a version upon the one before.
   * @returns whether it is the document's: another worker may have written it first, or have gone on so far that its
   * number was free again
   */
  async write({ version, value }: { readonly version: number; readonly value: T }): Promise<boolean> {
    const key = this.keyOf(version);
    const bytes = this.#kind.format(value);
    if (!(await this.#store.putIfAbsent(key, bytes))) {
      // A request that was sent twice on its way is answered as the second: the same bytes are ours.
      const there = await this.#store.get(key);
      if (there === undefined || Buffer.compare(there, bytes) !== 0) return false;
    }
    const versions = await this.listVersions();
    const newest = versions.at(-1) ?? version;
    if (newest - version >= this.#kind.kept) {
      await this.#store.remove(key);
      return false;
    }
    for (const old of versions) if (newest - old >= this.#kind.kept) await this.#store.remove(this.keyOf(old));
    return true;
  }

  #parse(version: number, bytes: Uint8Array): T | undefined {
    return this.#kind.parse(bytes, `${this.#store.url}/${this.keyOf(version)}`);
  }

  /** @param attempt gives `undefined` when another worker came in between */
  async #untilAlone<R>(attempt: () => Promise<R | undefined>): Promise<R> {
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const done = await attempt();
      if (done !== undefined) return done;
    }
    throw new Fault('DOCUMENT_BUSY', `${this.#store.url}/${this.#kind.prefix}*: other workers keep changing it`, {
      hint: 'Nothing is lost: run the same command again.',
    });
  }
}
