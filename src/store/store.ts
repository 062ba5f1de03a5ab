/**
 * The contract of the object store that holds the drops. Keys are relative, `/`-separated, without `.` or `..`
 * segments. Invariants: an object appears whole or not at all, and replacing one is atomic for readers. A successful
 * write is confirmed: the store was queried afterwards, and has an object of that size and content. So the writer may
 * then remove the original. If a store accepts a write but loses it, the write fails.
 * Implementations: `directory.ts` and `s3.ts`; both pass the suite in `test/contract/store.external.test.ts`.
 * `held-store.ts` adds identity checks to either. A new kind of store also needs a place in `location.ts` (the address in
 * a job file), `access.ts` (how the archive's engine reads it), `openers.ts` (opening it) and `settings/settings.ts`
 * (its secrets).
 */
import type { ObjectLink } from './link.ts';

export interface ObjectInfo {
  readonly key: string;
  readonly sizeBytes: number;
}

/** An object as a listing shows it. */
export interface ListedObject extends ObjectInfo {
  /** When it was written, by the store's own clock. */
  readonly modifiedAtMs: number;
  /** Opaque text that changes whenever the object is replaced by other bytes, even of the same size. */
  readonly version: string;
}

/** A small object in memory, or a local file that is streamed. */
export type ObjectBody = { readonly bytes: Uint8Array } | { readonly path: string };

/** Settings for S3 objects; absent ones default to the bucket's. */
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
 * Maximum size that `get` reads into memory. The largest such objects are manifests of days with many thousands of
 * windows, and archived pages with charts: a few megabytes.
 */
export const MAX_GET_BYTES = 64_000_000;

export interface Store {
  /** Location of the store, for people: `s3://bucket/prefix` or an absolute path. Never contains credentials. */
  readonly url: string;
  /**
   * The object's bytes, or `undefined` if there is no object. For small objects (manifests, receipts).
   * @throws StoreFault; Fault `OBJECT_TOO_LARGE` above `MAX_GET_BYTES`, without reading anything
   */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Size of the object, or `undefined` if there is no object. */
  head(key: string): Promise<ObjectInfo | undefined>;
  /**
   * Writes or replaces the object, and confirms it. Idempotent. A failure leaves the previous object, or none. An
   * object that is missing afterwards is written once more; one with other bytes is a fault, and may be a later write
   * of another worker.
   * @throws StoreFault
   */
  put(key: string, body: ObjectBody, options?: PutOptions): Promise<void>;
  /**
   * Writes the object only if there is none, and confirms it; `false` if one exists already (it is left unchanged).
   * @throws StoreFault
   */
  putIfAbsent(key: string, bytes: Uint8Array, options?: PutOptions): Promise<boolean>;
  /** Copies the object into a local file, whole or not at all; `false` if there is no such object. */
  download(key: string, path: string, signal?: AbortSignal): Promise<boolean>;
  /**
   * Every object whose key begins with `prefix`, in key order. Pages are fetched as needed.
   * @param after only keys behind this one
   */
  list(prefix: string, after?: string): AsyncIterable<ListedObject>;
  /**
   * Names of the folders directly below `prefix`, which ends with a `/`, in key order; in a directory also of empty
   * ones. Costs one request for 1,000 folders, whatever is in them.
   */
  listFolders(prefix: string): Promise<readonly string[]>;
  /**
   * Copies an object inside the store, replacing `to`, and confirms that `to` equals `from`.
   * @returns `to` as it is in the store now @throws StoreFault, also if `from` is missing
   */
  copy(from: string, to: string): Promise<ObjectInfo>;
  /**
   * Removes the object. Idempotent: a missing object is not an error. Not confirmed: nothing is derived from an
   * absence, and the next run removes leftovers of a failed removal.
   */
  remove(key: string): Promise<void>;
  /**
   * A URL with which anyone can read the object for `seconds`, or `undefined` if a store has none (a directory). Sends
   * no request: the object need not exist. @throws Fault `LINK_INVALID` if it is to last too long
   */
  link(key: string, seconds: number): Promise<ObjectLink | undefined>;
  close(): Promise<void>;
}
