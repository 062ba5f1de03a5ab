/**
 * A store in an S3 bucket, or in any service that supports S3 and `If-None-Match` on PutObject (AWS, Ceph, MinIO, R2).
 * Invariant: one request makes an object visible, so readers see it whole or not at all. A failed
 * write leaves the new object, whole, only if every answer to that one request was lost.
 */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3';
import { writeWholeFile } from '../core/atomic-file.ts';
import { type Clock, systemClock } from '../core/clock.ts';
import { assertKey, assertPrefix } from './object-key.ts';
import { createS3Client, type ObjectAddress, REQUEST_TIMEOUT_MS, readBody, type S3Options } from './s3-client.ts';
import { attemptS3, ifPresent, readS3Failure, UNMET_HINT, UnmetRequest } from './s3-fault.ts';
import { buildWriteSettings, copyObject, putObject, type WriteTarget } from './s3-write.ts';
import {
  assertLinkSeconds,
  assertSmall,
  type ListedObject,
  type ObjectBody,
  type ObjectInfo,
  type ObjectLink,
  type ObjectOptions,
  type Store,
  StoreFault,
} from './store.ts';

export interface S3Surroundings {
  readonly clock?: Clock;
  /** Tests pass a shorter one; no setting changes it. */
  readonly requestTimeoutMs?: number;
  /** Makes a folder for the file of one copy, which is removed after it. Default: below the system's temporary folder. */
  readonly makeScratch?: () => Promise<string>;
}

/** Competing conditional PUTs may get a 409 while one of them is being decided: retry until it is. */
const MAX_CONFLICTS = 8;
const CONFLICT_WAIT_MS = 50;
/** Opens the store; the first call sends the first request. */
export async function openS3Store(options: S3Options, surroundings: S3Surroundings = {}): Promise<S3Store> {
  return new S3Store(options, surroundings);
}

class S3Store implements Store {
  readonly url: string;
  readonly #client: S3Client;
  readonly #requestTimeoutMs: number;
  readonly #clock: Clock;
  readonly #makeScratch: () => Promise<string>;
  readonly #objects: ObjectOptions;
  readonly #bucket: string;
  /** Empty, or ends with `/`. */
  readonly #root: string;

  constructor(options: S3Options, surroundings: S3Surroundings) {
    const { clock = systemClock, requestTimeoutMs = REQUEST_TIMEOUT_MS } = surroundings;
    const { bucket, prefix, objects = {} } = options;
    this.#client = createS3Client(options, requestTimeoutMs);
    this.#requestTimeoutMs = requestTimeoutMs;
    this.#clock = clock;
    this.#makeScratch = surroundings.makeScratch ?? (() => mkdtemp(join(tmpdir(), 'flowdrop-copy-')));
    this.#objects = objects;
    this.#bucket = bucket;
    this.#root = prefix === '' ? '' : `${prefix}/`;
    this.url = `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return await this.#attempt('get', key, undefined, (input) =>
      readBody(this.#client, input, undefined, async (body, sizeBytes) => {
        assertSmall(`${this.url}/${key}`, sizeBytes);
        const bytes = Buffer.concat(await body.toArray());
        if (bytes.length !== sizeBytes)
          throw new RangeError(`${bytes.length} bytes arrived, ${sizeBytes} were announced`);
        return new Uint8Array(bytes);
      }),
    );
  }

  async head(key: string): Promise<ObjectInfo | undefined> {
    return await this.#attempt('head', key, undefined, async (input) => {
      const found = await ifPresent(this.#client.send(new HeadObjectCommand(input)));
      return found === undefined ? undefined : { key, sizeBytes: found.ContentLength ?? 0 };
    });
  }

  async put(
    key: string,
    body: ObjectBody,
    { signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): Promise<void> {
    await this.#attempt('put', key, signal, () =>
      putObject(this.#client, this.#target(key), body, this.#requestTimeoutMs, signal),
    );
  }

  async putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean> {
    return await this.#attempt('putIfAbsent', key, undefined, async () => {
      let mayHaveWon = false;
      for (let conflicts = 0; ; conflicts += 1) {
        try {
          await putObject(this.#client, { ...this.#target(key), IfNoneMatch: '*' }, { bytes }, this.#requestTimeoutMs);
          return true;
        } catch (error) {
          const { httpStatus, attempts } = readS3Failure(error);
          // An attempt whose answer was lost, or that failed in the service, may have won: then the object is ours.
          mayHaveWon ||= attempts > 1 || httpStatus === 0 || httpStatus >= 500;
          if (mayHaveWon && httpStatus !== 409 && (await this.#holds(key, bytes))) return true;
          if (httpStatus === 412) return false;
          if (httpStatus !== 409 || conflicts === MAX_CONFLICTS) throw error;
          await systemClock.sleep(CONFLICT_WAIT_MS * (conflicts + Math.random()));
        }
      }
    });
  }

  async download(key: string, path: string, signal?: AbortSignal): Promise<boolean> {
    return await this.#attempt('download', key, signal, async (input) => {
      const written = await readBody(this.#client, input, signal, (body, expectedBytes) =>
        writeWholeFile(path, body, { expectedBytes }),
      );
      return written ?? false;
    });
  }

  async *list(prefix: string, after?: string): AsyncIterable<ListedObject> {
    const start = after === undefined ? {} : { StartAfter: this.#root + after };
    for await (const { Contents = [] } of this.#listPages(prefix, start)) {
      for (const { Key = '', Size = 0, LastModified, ETag = '' } of Contents) {
        // Consoles create empty objects with a trailing slash as "folders": skip them.
        if (Key.endsWith('/')) continue;
        // If a service omits the time, its objects never count as old.
        const modifiedAtMs = LastModified?.getTime() ?? Number.POSITIVE_INFINITY;
        // The time has whole seconds in some services, so the tag of the content decides.
        const version = `${ETag} ${modifiedAtMs} ${Size}`;
        yield { key: Key.slice(this.#root.length), sizeBytes: Size, modifiedAtMs, version };
      }
    }
  }

  async listFolders(prefix: string): Promise<readonly string[]> {
    const folders: string[] = [];
    for await (const { CommonPrefixes = [] } of this.#listPages(prefix, { Delimiter: '/' })) {
      folders.push(...CommonPrefixes.map(({ Prefix = '' }) => Prefix.slice(this.#root.length + prefix.length, -1)));
    }
    return folders;
  }

  async *#listPages(
    prefix: string,
    more: Pick<ListObjectsV2CommandInput, 'Delimiter' | 'StartAfter'>,
  ): AsyncIterable<ListObjectsV2CommandOutput> {
    assertPrefix(prefix);
    const target = `${this.url}/${prefix}`;
    const pages = paginateListObjectsV2(
      { client: this.#client },
      { Bucket: this.#bucket, Prefix: this.#root + prefix, ...more },
    );
    for (let token: string | undefined; ; ) {
      const page = await attemptS3('list', target, undefined, async () => {
        const next = await pages.next();
        if (!next.done) assertListing(next.value, this.#root + prefix, token);
        return next;
      });
      if (page.done) return;
      token = page.value.NextContinuationToken;
      yield page.value;
    }
  }

  async copy(from: string, to: string): Promise<ObjectInfo> {
    assertKey(from);
    const copied = await this.#attempt('copy', to, undefined, ({ Bucket }) =>
      copyObject(this.#client, { Bucket, Key: this.#root + from }, this.#target(to)),
    );
    return copied === undefined ? await this.#copyThroughHere(from, to) : { key: to, sizeBytes: copied };
  }

  async #copyThroughHere(from: string, to: string): Promise<ObjectInfo> {
    const folder = await this.#attempt('copy', to, undefined, this.#makeScratch);
    const path = join(folder, 'copy');
    try {
      if (!(await this.download(from, path))) throw new StoreFault('copy', `${this.url}/${to}`, `${from} is gone`);
      await this.put(to, { path });
      return { key: to, sizeBytes: (await stat(path)).size };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async remove(key: string): Promise<void> {
    await this.#attempt('remove', key, undefined, (input) =>
      ifPresent(this.#client.send(new DeleteObjectCommand(input))),
    );
  }

  /** Signing sends no request: neither the object nor the right to read it is checked. */
  async link(key: string, seconds: number): Promise<ObjectLink> {
    assertLinkSeconds(seconds);
    return await this.#attempt('link', key, undefined, async (input) => {
      // Few runs create links; the others need not load it.
      const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
      // A signature has whole seconds only.
      const signedAtMs = Math.floor(this.#clock.now() / 1000) * 1000;
      const { expiration } = await this.#client.config.credentials();
      const signing = { expiresIn: seconds, signingDate: new Date(signedAtMs) };
      const url = await getSignedUrl(this.#client, new GetObjectCommand(input), signing);
      const askedMs = signedAtMs + seconds * 1000;
      return { url, expiresAt: new Date(Math.min(askedMs, expiration?.getTime() ?? askedMs)) };
    });
  }

  async close(): Promise<void> {
    this.#client.destroy();
  }

  async #attempt<T>(
    operation: string,
    key: string,
    signal: AbortSignal | undefined,
    act: (input: ObjectAddress) => Promise<T>,
  ): Promise<T> {
    assertKey(key);
    const input = { Bucket: this.#bucket, Key: this.#root + key };
    return await attemptS3(operation, `${this.url}/${key}`, signal, () => act(input));
  }

  #target(key: string): WriteTarget {
    return { Bucket: this.#bucket, Key: this.#root + key, ...buildWriteSettings(this.#objects, key) };
  }

  async #holds(key: string, bytes: Uint8Array): Promise<boolean> {
    const stored = await this.get(key);
    return stored !== undefined && Buffer.compare(stored, bytes) === 0;
  }
}

/**
 * Checks a page of a listing: objects that it omits count as absent, and objects under a prefix may be removed.
 * @param token the continuation token that requested the page @throws UnmetRequest
 */
function assertListing(page: ListObjectsV2CommandOutput, prefix: string, token: string | undefined): void {
  const foreign = page.Contents?.find(({ Key = '' }) => !Key.startsWith(prefix));
  if (foreign !== undefined) {
    throw new UnmetRequest(`the listing of ${prefix} has ${foreign.Key ?? 'an object without a key'}`, UNMET_HINT);
  }
  const next = page.NextContinuationToken;
  if (page.IsTruncated === true && !next) throw new UnmetRequest('the listing is cut off', UNMET_HINT);
  if (next && next === token) throw new UnmetRequest('the listing repeats the same page', UNMET_HINT);
}
