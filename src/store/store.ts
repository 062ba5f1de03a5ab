/**
 * The contract of the object store that holds the drops. Keys are relative, `/`-separated, without `.` or `..`
 * segments. Invariant: an object appears whole or not at all, and replacing one is atomic for readers.
 * Implementations: `directory.ts` and `s3.ts`; both run the one suite in `test/contract/store.test.ts`.
 */
import type { ObjectLink } from './link.ts';

export interface ObjectInfo {
  readonly key: string;
  readonly sizeBytes: number;
}

/** A small object in memory, or a local file that is streamed. */
export type ObjectBody = { readonly bytes: Uint8Array } | { readonly path: string };

/** How objects are written to S3; what is left out is as the bucket has it. */
export interface ObjectOptions {
  readonly encryption?: 'sse-s3' | 'sse-kms';
  /** Key of `sse-kms`. */
  readonly kmsKey?: string;
  readonly storageClass?: string;
  readonly tags?: Readonly<Record<string, string>>;
  /** Canned ACL. */
  readonly acl?: string;
}

export interface PutOptions {
  readonly contentType?: string;
  readonly signal?: AbortSignal;
}

export interface Store {
  /** Where the store is, for people: `s3://bucket/prefix` or an absolute path. Never has credentials in it. */
  readonly url: string;
  /** The object's bytes, or `undefined` when there is none. For small objects (manifests, receipts). */
  get(key: string): Promise<Uint8Array | undefined>;
  /** Size of the object, or `undefined` when there is none. */
  head(key: string): Promise<ObjectInfo | undefined>;
  /** Writes or replaces the object. Idempotent. A failure leaves the previous object, or none. @throws StoreFault */
  put(key: string, body: ObjectBody, options?: PutOptions): Promise<void>;
  /** Writes the object only if there is none; `false` when there was one already (and it is left as it is). @throws StoreFault */
  putIfAbsent(key: string, bytes: Uint8Array, options?: PutOptions): Promise<boolean>;
  /** Copies the object into a local file, whole or not at all; `false` when there is no such object. */
  download(key: string, path: string, signal?: AbortSignal): Promise<boolean>;
  /** Every object whose key begins with `prefix`, in key order. Pages are fetched as needed. */
  list(prefix: string): AsyncIterable<ObjectInfo>;
  /** Copies an object inside the store, replacing `to`. @throws StoreFault when `from` is missing */
  copy(from: string, to: string): Promise<void>;
  /** Removes the object. Idempotent: a missing object is no error. */
  remove(key: string): Promise<void>;
  /**
   * An address that lets anybody who has it read the object for `seconds`, or `undefined` where a store has none (a
   * directory). Sends no request: the object is not looked for. @throws Fault `LINK_INVALID` when it is to last too long
   */
  link(key: string, seconds: number): Promise<ObjectLink | undefined>;
  close(): Promise<void>;
}
