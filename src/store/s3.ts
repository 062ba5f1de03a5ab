/**
 * A store in an S3 bucket, or in any service that supports S3 and `If-None-Match` on PutObject (AWS, Ceph, MinIO, R2).
 * Invariant: one request makes an object visible, so readers see it whole or not at all. A failed
 * write leaves the new object, whole, only if every answer to that one request was lost.
 */
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3';
import { writeWholeFile } from '../core/atomic-file.ts';
import { type Clock, systemClock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import { assertKey, assertPrefix, isWrittenInParts } from './object-key.ts';
import { createS3Client, type ObjectAddress, readBody, S3_LIMITS, type S3Limits, type S3Options } from './s3-client.ts';
import { attemptS3, ifPresent, readS3Failure, UNMET_HINT, UnmetRequest } from './s3-fault.ts';
import { buildWriteSettings, S3Writer, type WriteTarget } from './s3-write.ts';
import {
  assertLinkSeconds,
  assertSmall,
  type ListedObject,
  type ObjectBody,
  type ObjectInfo,
  type ObjectLink,
  type ObjectOptions,
  type Store,
} from './store.ts';

export interface S3Surroundings {
  readonly clock?: Clock;
  /** Receives notes that need no action. */
  readonly note?: (text: string) => void;
  readonly limits?: Partial<S3Limits>;
}

/** Competing conditional PUTs may get a 409 while one of them is being decided: retry until it is. */
const MAX_CONFLICTS = 8;
const CONFLICT_WAIT_MS = 50;
/** None of our uploads takes a day, and a clock that is wrong by hours, here or there, does no harm. */
const LEFTOVER_AGE_MS = 24 * 60 * 60 * 1000;
/** More pages of unfinished uploads wait for the next run. */
const MAX_PAGES = 100;

/** Opens the store; the first call sends the first request. */
export async function openS3Store(options: S3Options, surroundings: S3Surroundings = {}): Promise<S3Store> {
  return new S3Store(options, surroundings);
}

class S3Store implements Store {
  readonly url: string;
  readonly #client: S3Client;
  readonly #writer: S3Writer;
  readonly #limits: S3Limits;
  readonly #clock: Clock;
  readonly #note: (text: string) => void;
  readonly #objects: ObjectOptions;
  readonly #bucket: string;
  /** Empty, or ends with `/`. */
  readonly #root: string;
  #hasLookedForLeftovers = false;

  constructor(options: S3Options, { clock = systemClock, note = () => {}, limits = {} }: S3Surroundings) {
    const { bucket, prefix, objects = {} } = options;
    this.#limits = { ...S3_LIMITS, ...limits };
    this.#client = createS3Client(options, this.#limits.requestTimeoutMs);
    this.#writer = new S3Writer(this.#client, this.#limits);
    this.#clock = clock;
    this.#note = note;
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
    await this.#attempt('put', key, signal, () => this.#writer.put(this.#target(key), body, signal));
    await this.#removeLeftovers();
  }

  async putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean> {
    return await this.#attempt('putIfAbsent', key, undefined, async () => {
      let mayHaveWon = false;
      for (let conflicts = 0; ; conflicts += 1) {
        try {
          await this.#writer.putNew(this.#target(key), bytes);
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
    return await this.#attempt('copy', to, undefined, async ({ Bucket }) => {
      const sizeBytes = await this.#writer.copy({ Bucket, Key: this.#root + from }, this.#target(to));
      return { key: to, sizeBytes };
    });
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

  /** Tests uploads in parts, for `flowdrop doctor`, and leaves an object at `key`. @throws StoreFault */
  async tryUpload(key: string, signal?: AbortSignal): Promise<void> {
    const bytes = Buffer.from('flowdrop doctor');
    await this.#attempt('upload in parts of', key, signal, () =>
      this.#writer.tryParts(this.#target(key), bytes, signal),
    );
  }

  async close(): Promise<void> {
    await this.#writer.removeUnfinished();
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

  /**
   * Removes the parts that killed processes left, for which S3 keeps charging: only old uploads to keys of the layout. Others
   * are not ours, and a younger one may be another worker's. Once, after the first write: by then the network works, and
   * this store is known to be written to. A failure, e.g. without the right `s3:ListBucketMultipartUploads`, fails nothing:
   * the object is written, and the next run, or a lifecycle rule of the bucket, removes the parts.
   */
  async #removeLeftovers(): Promise<void> {
    if (this.#hasLookedForLeftovers) return;
    this.#hasLookedForLeftovers = true;
    const place = { Bucket: this.#bucket, Prefix: this.#root, MaxUploads: this.#limits.uploadsOnPage };
    let KeyMarker: string | undefined;
    let UploadIdMarker: string | undefined;
    try {
      for (let pages = 0; pages < MAX_PAGES; pages += 1) {
        const page = await this.#client.send(new ListMultipartUploadsCommand({ ...place, KeyMarker, UploadIdMarker }));
        for (const { Key = '', UploadId, Initiated } of page.Uploads ?? []) {
          if (Initiated === undefined || this.#clock.now() - Initiated.getTime() < LEFTOVER_AGE_MS) continue;
          if (!isWrittenInParts(Key.slice(this.#root.length))) continue;
          await this.#client.send(new AbortMultipartUploadCommand({ Bucket: this.#bucket, Key, UploadId }));
          this.#note(`store: removed the parts of an unfinished upload of ${Initiated.toISOString()} to ${Key}`);
        }
        if (page.IsTruncated !== true || !page.NextKeyMarker) return;
        KeyMarker = page.NextKeyMarker;
        UploadIdMarker = page.NextUploadIdMarker || undefined;
      }
    } catch (error) {
      const what = `store: parts of unfinished uploads below ${this.#root} could not be listed`;
      this.#note(`${what}: ${describeError(error)}`);
    }
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
