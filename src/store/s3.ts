/**
 * A store in an S3 bucket, or in any service that speaks S3 and knows `If-None-Match` on PutObject (AWS, Ceph, MinIO,
 * R2). Invariant: an object is written by one request that decides, so readers see it whole or not at all. Copies are
 * limited to S3's 5 GiB for one request.
 */
import { readFile, stat } from 'node:fs/promises';
import { addAbortSignal, Readable } from 'node:stream';
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3';
import { systemClock } from '../core/clock.ts';
import { assertKey, assertPrefix } from './key.ts';
import { createS3Client, type S3Options } from './s3-client.ts';
import { attemptS3, isAbsent, readS3Failure } from './s3-fault.ts';
import { PartUploader, SINGLE_PUT_MAX_BYTES } from './s3-upload.ts';
import type { ObjectBody, ObjectInfo, PutOptions, Store } from './store.ts';
import { writeWholeFile } from './whole-file.ts';

/** A body slower than this has stalled. */
const MIN_BYTES_PER_SECOND = 64 * 1024;
const MIN_BODY_TIMEOUT_MS = 60_000;
/** The SDK repeats requests, not bodies that break off. */
const MAX_DOWNLOADS = 3;
/** Names of a body that broke off, stalled or came short; `Error` is our own count of its bytes. */
const BROKEN_BODY = ['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'TimeoutError', 'ABORT_ERR', 'Error'] as const;
/** Rivals of a conditional PUT may get a 409 while one of them is being decided: ask again until it is. */
const MAX_CONFLICTS = 8;
const CONFLICT_WAIT_MS = 50;

/** Opens the store; the first request happens with the first call. */
export async function openS3Store(options: S3Options): Promise<Store> {
  return new S3Store(createS3Client(options), options);
}

class S3Store implements Store {
  readonly url: string;
  readonly #client: S3Client;
  readonly #uploader: PartUploader;
  readonly #bucket: string;
  /** Empty, or ends with `/`. */
  readonly #root: string;

  constructor(client: S3Client, { bucket, prefix }: S3Options) {
    this.#client = client;
    this.#uploader = new PartUploader(client);
    this.#bucket = bucket;
    this.#root = prefix === '' ? '' : `${prefix}/`;
    this.url = `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return await this.#attempt('get', key, undefined, (input) =>
      this.#read(input, undefined, async (body, sizeBytes) => {
        const bytes = Buffer.concat(await body.toArray());
        if (bytes.length !== sizeBytes)
          throw new RangeError(`${bytes.length} bytes came where ${sizeBytes} were announced`);
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
      if ('bytes' in body) return await this.#putBytes(input, body.bytes, options);
      const { size } = await stat(body.path);
      if (size <= SINGLE_PUT_MAX_BYTES) return await this.#putBytes(input, await readFile(body.path), options);
      await this.#uploader.upload({ bucket: input.Bucket, key: input.Key, contentType }, body.path, size, signal);
    });
  }

  async putIfAbsent(key: string, bytes: Uint8Array, options: PutOptions = {}): Promise<boolean> {
    return await this.#attempt('putIfAbsent', key, options.signal, async (input) => {
      for (let conflicts = 0; ; conflicts += 1) {
        try {
          await this.#putBytes({ ...input, IfNoneMatch: '*' }, bytes, options);
          return true;
        } catch (error) {
          const { httpStatus, attempts } = readS3Failure(error);
          const isExisting = httpStatus === 412;
          // An attempt whose answer was lost may have won: then the object is ours, byte for byte.
          const isUncertain = isExisting ? attempts > 1 : httpStatus === 0 && !options.signal?.aborted;
          if (isUncertain && (await this.#holds(key, bytes))) return true;
          if (isExisting) return false;
          if (httpStatus !== 409 || conflicts === MAX_CONFLICTS) throw error;
          await systemClock.sleep(CONFLICT_WAIT_MS * (conflicts + Math.random()), options.signal);
        }
      }
    });
  }

  async download(key: string, path: string, signal?: AbortSignal): Promise<boolean> {
    return await this.#attempt('download', key, signal, async (input) => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          const written = await this.#read(input, signal, (body, expectedBytes) =>
            writeWholeFile(path, body, { expectedBytes }),
          );
          return written ?? false;
        } catch (error) {
          // An answer of the service, and what the local disk says, would be the same again.
          if (signal?.aborted || attempt === MAX_DOWNLOADS || !isBrokenBody(error)) throw error;
        }
      }
    });
  }

  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    assertPrefix(prefix);
    const target = `${this.url}/${prefix}`;
    const pages = paginateListObjectsV2(
      { client: this.#client },
      { Bucket: this.#bucket, Prefix: this.#root + prefix },
    );
    for (;;) {
      const page = await attemptS3('list', target, undefined, () => pages.next());
      if (page.done) return;
      for (const { Key = '', Size = 0 } of page.value.Contents ?? []) {
        // Consoles mark "folders" by empty objects whose key ends with a slash: they are none of ours.
        if (!Key.endsWith('/')) yield { key: Key.slice(this.#root.length), sizeBytes: Size };
      }
    }
  }

  async copy(from: string, to: string): Promise<void> {
    assertKey(from);
    const source = [this.#bucket, ...`${this.#root}${from}`.split('/')].map(encodeURIComponent).join('/');
    await this.#attempt('copy', to, undefined, (input) =>
      this.#client.send(new CopyObjectCommand({ ...input, CopySource: source })),
    );
  }

  async remove(key: string): Promise<void> {
    await this.#attempt('remove', key, undefined, (input) =>
      ifPresent(this.#client.send(new DeleteObjectCommand(input))),
    );
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

  async #putBytes(
    input: ObjectAddress & { readonly IfNoneMatch?: string },
    bytes: Uint8Array,
    { contentType, signal }: PutOptions,
  ): Promise<void> {
    await this.#client.send(
      new PutObjectCommand({
        ...input,
        Body: bytes,
        ContentLength: bytes.byteLength,
        ...(contentType === undefined ? {} : { ContentType: contentType }),
      }),
      signal === undefined ? {} : { abortSignal: signal },
    );
  }

  /** Hands the body to `use` with its length; `undefined` when there is no such object. */
  async #read<T>(
    input: ObjectAddress,
    signal: AbortSignal | undefined,
    use: (body: Readable, sizeBytes: number) => Promise<T>,
  ): Promise<T | undefined> {
    const stop = new AbortController();
    const signals = signal === undefined ? [stop.signal] : [stop.signal, signal];
    const abortSignal = AbortSignal.any(signals);
    const found = await ifPresent(this.#client.send(new GetObjectCommand(input), { abortSignal }));
    if (found === undefined) return undefined;
    const { Body, ContentLength } = found;
    if (!(Body instanceof Readable) || ContentLength === undefined)
      throw new TypeError('the answer has no body or no length');
    const timeoutMs = Math.max(MIN_BODY_TIMEOUT_MS, Math.ceil((ContentLength / MIN_BYTES_PER_SECOND) * 1000));
    try {
      return await use(
        addAbortSignal(AbortSignal.any([...signals, AbortSignal.timeout(timeoutMs)]), Body),
        ContentLength,
      );
    } finally {
      // Closes the connection of a body that was not read to its end.
      stop.abort();
    }
  }

  async #holds(key: string, bytes: Uint8Array): Promise<boolean> {
    const stored = await this.get(key);
    return stored !== undefined && Buffer.compare(stored, bytes) === 0;
  }
}

interface ObjectAddress {
  readonly Bucket: string;
  readonly Key: string;
}

async function ifPresent<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

function isBrokenBody(error: unknown): boolean {
  const { name, httpStatus } = readS3Failure(error);
  return httpStatus === 0 && BROKEN_BODY.some((broken) => broken === name);
}
