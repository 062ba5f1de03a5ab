/**
 * The contract of the object store that holds the drops. Keys are relative, `/`-separated, without `.` or `..`
 * segments. Invariants: an object appears whole or not at all, and replacing one is atomic for readers. A successful
 * write is confirmed: the store was queried afterwards, and has an object of that size and content. So the writer may
 * then remove the original. If a store accepts a write but loses it, the write fails.
 * Implementations: `directory.ts` and `s3.ts`; both pass the suite in `test/contract/store.external.test.ts`.
 * `identity.ts` adds identity checks to either. A new kind of store also needs a place in `object-key.ts` (the address in
 * a job file), `StoreAccess` (how the archive's engine reads it), `openers.ts` (opening it) and `settings/settings.ts`
 * (its secrets).
 */
import { assertNotAborted, describeError, Fault } from '../core/errors.ts';
import { formatBytes } from '../core/units.ts';

export interface ObjectInfo {
  readonly key: string;
  readonly sizeBytes: number;
}

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

/**
 * Maximum size that `get` reads into memory. The largest such objects are manifests of days with many thousands of
 * windows, and archived pages with charts: a few megabytes.
 */
export const MAX_GET_BYTES = 64_000_000;

/** Seven days: S3 refuses version 4 signatures that last longer. */
export const MAX_LINK_SECONDS = 7 * 86_400;

/**
 * A link to an object for people without credentials. It is a secret: anyone who has it can read that one object until it
 * expires. It goes only to its intended reader, never into a log or manifest.
 */
export interface ObjectLink {
  readonly url: string;
  /** When it expires: as requested, or when the credentials that signed it expire, if that is known and sooner. */
  readonly expiresAt: Date;
}

export interface S3Access {
  readonly kind: 's3';
  /** Address of the bucket, without a trailing slash: `https://bucket.s3.eu-west-1.amazonaws.com`. */
  readonly bucketUrl: string;
  readonly bucket: string;
  /** Put before every key; empty, or without leading and trailing slashes. */
  readonly prefix: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Only with temporary credentials. */
  readonly sessionToken: string | undefined;
}

/**
 * How another reader (the engine) reaches the objects of a store: a folder, or an address with credentials. The latter
 * contains secrets: use it only in statements that no caller sees.
 */
export type StoreAccess = S3Access | { readonly kind: 'directory' /** Absolute path. */; readonly path: string };

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
  put(key: string, body: ObjectBody, options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /**
   * Writes the object only if there is none, and confirms it; `false` if one exists already (it is left unchanged).
   * @throws StoreFault
   */
  putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean>;
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
   * A URL with which anyone can read the object for `seconds`, at most `MAX_LINK_SECONDS`, or `undefined` if a store has
   * none (a directory). Sends no request: the object need not exist.
   */
  link(key: string, seconds: number): Promise<ObjectLink | undefined>;
  close(): Promise<void>;
}

/** Which operation on which object failed, and what the operator can do. */
export class StoreFault extends Fault {
  override readonly name = 'StoreFault';

  /** @param operation verb of the contract, e.g. `put` @param target the store's URL and the key */
  constructor(operation: string, target: string, cause: unknown, hint?: string) {
    super('STORE_FAILED', `store: ${operation} ${target} failed: ${describeError(cause)}`, {
      cause,
      hint,
    });
  }
}

/** @param message what the store did with a conditional write */
export function createUnfit(message: string): Fault {
  return new Fault('STORE_UNFIT', message, {
    hint: 'This store ignores If-None-Match: two workers could seal one date. Use one that supports it.',
  });
}

/** @throws Fault `OBJECT_TOO_LARGE` for an object that is too large to read into memory */
export function assertSmall(target: string, sizeBytes: number): void {
  if (sizeBytes <= MAX_GET_BYTES) return;
  const came = `${target} has ${formatBytes(sizeBytes)}; at most ${formatBytes(MAX_GET_BYTES)} are read into memory`;
  throw new Fault('OBJECT_TOO_LARGE', `store: ${came}`, {
    hint: 'flowdrop writes no file this large under this name: another program wrote it. Move it away.',
  });
}

/**
 * Runs one operation; every failure leaves as a `Fault`.
 * @param explain a foreign error: its cause without secrets, and what the operator can do
 * @throws StoreFault, or the interruption if aborted
 */
export async function attempt<T>(
  operation: string,
  target: string,
  signal: AbortSignal | undefined,
  explain: (error: unknown) => { readonly cause: unknown; readonly hint: string | undefined },
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    assertNotAborted(signal);
    if (error instanceof Fault) throw error;
    const { cause, hint } = explain(error);
    throw new StoreFault(operation, target, cause, hint);
  }
}
