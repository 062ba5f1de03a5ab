/**
 * A store in an S3 bucket, or in any service that supports S3 and `If-None-Match` on PutObject (AWS, Ceph, MinIO, R2).
 * Invariant: one request makes an object visible, so readers see it whole or not at all. Every body carries an MD5 that
 * the service verifies, so data damaged in transit never becomes an object. A failed write leaves the new object,
 * whole, only if every answer to that one request was lost.
 */
import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3';
import { writeWholeFile } from '../core/atomic-file.ts';
import { type Clock, systemClock } from '../core/clock.ts';
import { assertLinkSeconds, type ObjectLink } from './link.ts';
import { assertKey, assertPrefix } from './object-key.ts';
import { ifPresent, readBody } from './s3-body.ts';
import { createS3Client, type S3Options } from './s3-client.ts';
import { assertListing, confirmWritten, type ObjectAddress, writeKept } from './s3-confirm.ts';
import { attemptS3, readS3Failure } from './s3-fault.ts';
import { removeLeftovers } from './s3-leftovers.ts';
import { S3_LIMITS, type S3Limits } from './s3-limits.ts';
import { type CopySource, MultipartUploader, type ObjectHead } from './s3-multipart.ts';
import { assertEncrypted, buildWriteSettings } from './s3-write-settings.ts';
import type { ListedObject, ObjectBody, ObjectInfo, ObjectOptions, PutOptions, Store } from './store.ts';
import { assertSmall } from './store-fault.ts';

export interface S3Surroundings {
  readonly clock?: Clock;
  /** Receives notes that need no action. */
  readonly note?: (text: string) => void;
  readonly limits?: Partial<S3Limits>;
}

/** Competing conditional PUTs may get a 409 while one of them is being decided: retry until it is. */
const MAX_CONFLICTS = 8;
const CONFLICT_WAIT_MS = 50;

/** Opens the store; the first call sends the first request. */
export async function openS3Store(options: S3Options, surroundings: S3Surroundings = {}): Promise<Store> {
  const limits = { ...S3_LIMITS, ...surroundings.limits };
  return new S3Store(createS3Client(options, limits.requestTimeoutMs), options, limits, surroundings);
}

class S3Store implements Store {
  readonly url: string;
  readonly #client: S3Client;
  readonly #uploader: MultipartUploader;
  readonly #limits: S3Limits;
  readonly #clock: Clock;
  readonly #note: (text: string) => void;
  readonly #objects: ObjectOptions;
  readonly #bucket: string;
  /** Empty, or ends with `/`. */
  readonly #root: string;
  #hasLookedForLeftovers = false;

  constructor(
    client: S3Client,
    { bucket, prefix, objects = {} }: S3Options,
    limits: S3Limits,
    { clock = systemClock, note = () => {} }: S3Surroundings,
  ) {
    this.#client = client;
    this.#uploader = new MultipartUploader(client);
    this.#limits = limits;
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

  async put(key: string, body: ObjectBody, options: PutOptions = {}): Promise<void> {
    const { contentType, signal } = options;
    await this.#attempt('put', key, signal, async (input) => {
      await this.#uploader.removeUnfinished();
      const head = this.#buildHead(key, contentType);
      await writeKept(async () => {
        if ('bytes' in body) await this.#putBytes(input, head, body.bytes, signal);
        else if ((await stat(body.path)).size <= this.#limits.putBytes)
          await this.#putBytes(input, head, await readFile(body.path), signal);
        else await this.#uploader.upload(input, head, body.path, this.#limits.partBytes, signal);
      });
    });
    await this.#removeLeftovers();
  }

  async putIfAbsent(key: string, bytes: Uint8Array, options: PutOptions = {}): Promise<boolean> {
    const { contentType, signal } = options;
    return await this.#attempt('putIfAbsent', key, signal, async (input) => {
      const head = this.#buildHead(key, contentType);
      let mayHaveWon = false;
      for (let conflicts = 0; ; conflicts += 1) {
        try {
          await writeKept(() => this.#putBytes({ ...input, IfNoneMatch: '*' }, head, bytes, signal));
          return true;
        } catch (error) {
          const { httpStatus, attempts } = readS3Failure(error);
          const isExisting = httpStatus === 412;
          // An attempt whose answer was lost, or that failed in the service, may have won: then the object is ours.
          mayHaveWon ||= attempts > 1 || httpStatus === 0 || httpStatus >= 500;
          if (mayHaveWon && httpStatus !== 409 && !signal?.aborted && (await this.#holds(key, bytes))) return true;
          if (isExisting) return false;
          if (httpStatus !== 409 || conflicts === MAX_CONFLICTS) throw error;
          await systemClock.sleep(CONFLICT_WAIT_MS * (conflicts + Math.random()), signal);
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
    const address = [this.#bucket, ...`${this.#root}${from}`.split('/')].map(encodeURIComponent).join('/');
    return await this.#attempt('copy', to, undefined, async (input) => {
      await this.#uploader.removeUnfinished();
      const source = await this.#client.send(new HeadObjectCommand({ ...input, Key: this.#root + from }));
      const { Metadata, ETag: etag, ContentType, ContentLength: sizeBytes = 0 } = source;
      await writeKept(async () => {
        if (sizeBytes <= this.#limits.copyBytes && (await this.#copyAtOnce(input, to, { address, etag, sizeBytes })))
          return;
        const head = { ...this.#buildHead(to, ContentType), ...(Metadata === undefined ? {} : { Metadata }) };
        await this.#uploader.copy(input, head, { address, etag, sizeBytes }, this.#limits.copyPartBytes);
      });
      return { key: to, sizeBytes };
    });
  }

  async remove(key: string): Promise<void> {
    await this.#attempt('remove', key, undefined, (input) =>
      ifPresent(this.#client.send(new DeleteObjectCommand(input))),
    );
  }

  async link(key: string, seconds: number): Promise<ObjectLink> {
    assertLinkSeconds(seconds);
    return await this.#attempt('link', key, undefined, (input) => signLink(this.#client, input, seconds, this.#clock));
  }

  async close(): Promise<void> {
    await this.#uploader.removeUnfinished();
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

  #buildHead(key: string, contentType: string | undefined): ObjectHead {
    const settings = buildWriteSettings(this.#objects, key);
    return contentType === undefined ? settings : { ...settings, ContentType: contentType };
  }

  async #putBytes(
    input: ObjectAddress & { readonly IfNoneMatch?: string },
    head: ObjectHead,
    bytes: Uint8Array,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { Bucket, Key } = input;
    const md5 = createHash('md5').update(bytes).digest();
    const answer = await this.#client.send(
      new PutObjectCommand({
        ...input,
        ...head,
        Body: bytes,
        ContentLength: bytes.byteLength,
        ContentMD5: md5.toString('base64'),
      }),
      signal === undefined ? {} : { abortSignal: signal },
    );
    try {
      assertEncrypted(head, answer);
    } catch (error) {
      await this.#client.send(new DeleteObjectCommand({ Bucket, Key }));
      throw error;
    }
    const written = { sizeBytes: bytes.byteLength, etags: [answer.ETag, md5.toString('hex')] };
    await confirmWritten(this.#client, { Bucket, Key }, written);
  }

  /**
   * Copies in one request. `false` if only a multipart copy will do: if the copy must be encrypted, because a multipart
   * upload reports its encryption before the first byte; or if the service cannot copy encrypted objects in one request
   * (Ceph answers 501).
   */
  async #copyAtOnce(input: ObjectAddress, to: string, source: CopySource): Promise<boolean> {
    const settings = buildWriteSettings(this.#objects, to);
    if (settings.ServerSideEncryption !== undefined) return false;
    const tagging = settings.Tagging === undefined ? {} : ({ TaggingDirective: 'REPLACE' } as const);
    const { address, etag, sizeBytes } = source;
    const copying = new CopyObjectCommand({ ...input, ...settings, ...tagging, CopySource: address });
    const answer = await this.#client.send(copying).catch((error: unknown) => {
      if (readS3Failure(error).httpStatus === 501) return undefined;
      throw error;
    });
    if (answer === undefined) return false;
    await confirmWritten(this.#client, input, { sizeBytes, etags: [answer.CopyObjectResult?.ETag, etag] });
    return true;
  }

  /** Once, after the first write: by then the network works, and this store is known to be written to. */
  async #removeLeftovers(): Promise<void> {
    if (this.#hasLookedForLeftovers) return;
    this.#hasLookedForLeftovers = true;
    await removeLeftovers(this.#client, { Bucket: this.#bucket, Prefix: this.#root }, this.#clock, this.#note);
  }

  async #holds(key: string, bytes: Uint8Array): Promise<boolean> {
    const stored = await this.get(key);
    return stored !== undefined && Buffer.compare(stored, bytes) === 0;
  }
}

/**
 * Signing sends no request: neither the object nor the right to read it is checked.
 * @param seconds checked by `assertLinkSeconds`
 */
async function signLink(client: S3Client, object: ObjectAddress, seconds: number, clock: Clock): Promise<ObjectLink> {
  // Few runs create links; the others need not load it.
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  // A signature has whole seconds only.
  const signedAtMs = Math.floor(clock.now() / 1000) * 1000;
  const { expiration } = await client.config.credentials();
  const url = await getSignedUrl(client, new GetObjectCommand(object), {
    expiresIn: seconds,
    signingDate: new Date(signedAtMs),
  });
  const askedMs = signedAtMs + seconds * 1000;
  return { url, expiresAt: new Date(Math.min(askedMs, expiration?.getTime() ?? askedMs)) };
}
