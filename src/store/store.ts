/**
 * The contract of the object store that holds the drops. Keys are relative, `/`-separated, without `.` or `..`
 * segments. Invariants: an object appears whole or not at all, and replacing one is atomic for readers; a write that
 * succeeded is confirmed: the store was asked afterwards, and has an object of that size and content. So whoever wrote may
 * remove what it was made from. A store that takes a write and does not keep it fails the write.
 * Implementations: `directory.ts` and `s3.ts`; both run the one suite in `test/contract/store.external.test.ts`. `held-store.ts`
 * adds to either that it is still the same store.
 */
import type { ObjectLink } from './link.ts';

export interface ObjectInfo {
  readonly key: string;
  readonly sizeBytes: number;
}

/** As a listing shows an object. */
export interface ListedObject extends ObjectInfo {
  /** When it was written, by the store's own clock. */
  readonly modifiedAtMs: number;
}

/** A small object in memory, or a local file that is streamed. */
export type ObjectBody = { readonly bytes: Uint8Array } | { readonly path: string };

/** How objects are written to S3; what is left out is as the bucket has it. */
export interface ObjectOptions {
  readonly encryption?: 'sse-s3' | 'sse-kms' | undefined;
  /** Key of `sse-kms`. */
  readonly kmsKey?: string | undefined;
  readonly storageClass?: string | undefined;
  readonly tags?: Readonly<Record<string, string>> | undefined;
  /** Canned ACL. */
  readonly acl?: string | undefined;
}

export interface PutOptions {
  readonly contentType?: string;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Most that `get` reads into memory. The largest of such objects are manifests of days with many thousands of windows, and
 * archived pages with charts: a few megabytes.
 */
export const MAX_GET_BYTES = 64_000_000;

export interface Store {
  /** Where the store is, for people: `s3://bucket/prefix` or an absolute path. Never has credentials in it. */
  readonly url: string;
  /**
   * The object's bytes, or `undefined` when there is none. For small objects (manifests, receipts).
   * @throws StoreFault; Fault `OBJECT_TOO_LARGE` above `MAX_GET_BYTES`, of which nothing is read
   */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Size of the object, or `undefined` when there is none. */
  head(key: string): Promise<ObjectInfo | undefined>;
  /**
   * Writes or replaces the object, and confirms it. Idempotent. A failure leaves the previous object, or none. One that is
   * not there afterwards is written once more; one of other bytes is a fault, and may be a later write of another worker.
   * @throws StoreFault
   */
  put(key: string, body: ObjectBody, options?: PutOptions): Promise<void>;
  /**
   * Writes the object only if there is none, and confirms it; `false` when there was one already (and it is left as it is).
   * @throws StoreFault
   */
  putIfAbsent(key: string, bytes: Uint8Array, options?: PutOptions): Promise<boolean>;
  /** Copies the object into a local file, whole or not at all; `false` when there is no such object. */
  download(key: string, path: string, signal?: AbortSignal): Promise<boolean>;
  /** Every object whose key begins with `prefix`, in key order. Pages are fetched as needed. */
  list(prefix: string): AsyncIterable<ListedObject>;
  /**
   * Copies an object inside the store, replacing `to`, and confirms that `to` is what `from` was.
   * @returns `to` as it is in the store now @throws StoreFault also when `from` is missing
   */
  copy(from: string, to: string): Promise<ObjectInfo>;
  /**
   * Removes the object. Idempotent: a missing object is no error. Not confirmed: nothing is made from an absence, and what
   * is left over by a store that does not remove is removed again by the next run.
   */
  remove(key: string): Promise<void>;
  /**
   * An address that lets anybody who has it read the object for `seconds`, or `undefined` where a store has none (a
   * directory). Sends no request: the object is not looked for. @throws Fault `LINK_INVALID` when it is to last too long
   */
  link(key: string, seconds: number): Promise<ObjectLink | undefined>;
  close(): Promise<void>;
}
