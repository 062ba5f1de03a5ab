/**
 * A store in an S3 bucket, or in any service that supports S3 and `If-None-Match` on PutObject (AWS, Ceph, MinIO, R2).
 * Invariants:
 * - one request makes an object visible, so readers see it whole or not at all. The service verifies the MD5 of every
 *   body. Then the object is looked at before the writer continues: a HEAD is the cheapest reliable way, its size and tag
 *   are those of the stored object. A failed write leaves the new object, whole, only if every answer to that one request
 *   was lost
 * - every request that creates an object carries the job's settings (`drop.s3`), copies too, because S3 inherits neither
 *   encryption nor ACL from the source
 * Not in parts: they need more rights, and a killed worker leaves some, for which S3 keeps charging. So an object has at
 * most 5 GiB, more than ten times a session of 12 million trades.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  type PutObjectCommandOutput,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3';
import { writeWholeFile } from '../core/atomic-file.ts';
import { type Clock, systemClock } from '../core/clock.ts';
import { assertKey, assertPrefix } from './object-key.ts';
import {
  attemptS3,
  buildWriteSettings,
  createS3Client,
  ifPresent,
  MIN_BYTES_PER_SECOND,
  type ObjectAddress,
  REQUEST_TIMEOUT_MS,
  readBody,
  readS3Failure,
  type S3Options,
  sendFile,
  UNMET_HINT,
  UnmetRequest,
} from './s3-client.ts';
import {
  assertSmall,
  type ListedObject,
  type ObjectBody,
  type ObjectInfo,
  type ObjectLink,
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
/**
 * An acknowledged object that is missing is written once more. Either another worker removed it as no longer needed, then
 * the second copy is superfluous; or the service lost it.
 */
const MAX_WRITES = 2;
/** The SDK retries broken connections, but not answers that are not HTTP. */
const MAX_HEADS = 3;

/** Opens the store; the first call sends the first request. */
export async function openS3Store(options: S3Options, surroundings: S3Surroundings = {}): Promise<Store> {
  return new S3Store(options, surroundings);
}

class S3Store implements Store {
  readonly url: string;
  readonly #client;
  readonly #given: Required<S3Surroundings>;
  readonly #objects;
  readonly #bucket;
  /** Empty, or ends with `/`. */
  readonly #root: string;

  constructor(options: S3Options, surroundings: S3Surroundings) {
    const { bucket, prefix, objects = {} } = options;
    const makeScratch = () => mkdtemp(join(tmpdir(), 'flowdrop-copy-'));
    this.#given = { clock: systemClock, requestTimeoutMs: REQUEST_TIMEOUT_MS, makeScratch, ...surroundings };
    this.#client = createS3Client(options, this.#given.requestTimeoutMs);
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

  async put(key: string, body: ObjectBody, { signal }: { readonly signal?: AbortSignal | undefined } = {}) {
    await this.#attempt('put', key, signal, () => this.#put(key, body, { signal }));
  }

  async putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean> {
    return await this.#attempt('putIfAbsent', key, undefined, async () => {
      let mayHaveWon = false;
      for (let conflicts = 0; ; conflicts += 1) {
        try {
          await this.#put(key, { bytes }, { onlyIf: { IfNoneMatch: '*' } });
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

  async #put(
    key: string,
    body: ObjectBody,
    { signal, onlyIf = {} }: { readonly signal?: AbortSignal | undefined; readonly onlyIf?: { IfNoneMatch?: '*' } },
  ): Promise<void> {
    const sizeBytes = 'bytes' in body ? body.bytes.byteLength : (await stat(body.path)).size;
    const hash = createHash('md5');
    if ('bytes' in body) hash.update(body.bytes);
    else for await (const chunk of createReadStream(body.path, { signal })) hash.update(chunk);
    const md5 = hash.digest();
    const input = { ...this.#target(key), ...onlyIf, ContentLength: sizeBytes, ContentMD5: md5.toString('base64') };
    const requestTimeout = this.#given.requestTimeoutMs + Math.ceil((sizeBytes / MIN_BYTES_PER_SECOND) * 1000);
    const send = async (Body: Uint8Array | ReturnType<typeof createReadStream>, abortSignal: AbortSignal | undefined) =>
      await this.#client.send(new PutObjectCommand({ ...input, Body }), {
        requestTimeout,
        ...(abortSignal && { abortSignal }),
      });
    await this.#write(key, sizeBytes, md5.toString('hex'), async () => {
      if ('path' in body) return await sendFile(body.path, send, signal);
      return await send(body.bytes, signal);
    });
  }

  /**
   * Writes an object, and looks whether it is there. A different one is left alone: it may be a later write of another
   * worker, which a second one would overwrite. @param tag that it should have, besides that in the answer: one must match,
   * as with SSE-KMS a tag is not an MD5 @throws UnmetRequest
   */
  async #write(
    key: string,
    sizeBytes: number,
    tag: string | undefined,
    send: () => Promise<Pick<PutObjectCommandOutput, 'ETag' | 'ServerSideEncryption'> & { readonly isCopy?: true }>,
  ): Promise<void> {
    const { ServerSideEncryption: wanted, ...target } = this.#target(key);
    const address = { Bucket: target.Bucket, Key: target.Key };
    for (let writes = 1; writes <= MAX_WRITES; writes += 1) {
      const answer = await send();
      const refused = answer.isCopy ? undefined : checkEncryption(wanted, answer.ServerSideEncryption);
      if (refused) {
        await this.#client.send(new DeleteObjectCommand(address));
        throw refused;
      }
      const found = await this.#look(address);
      if (found === undefined) continue;
      const etags = [answer.ETag, tag].map(unquote);
      const stored = unquote(found.ETag);
      if (found.ContentLength !== sizeBytes || !stored || !etags.includes(stored)) {
        const sent = [...new Set(etags.filter(Boolean))].join(' or ') || '(unknown)';
        throw new UnmetRequest(
          `flowdrop sent ${sizeBytes} bytes with the tag ${sent}, stored are ${found.ContentLength ?? 0} with ${stored ?? 'none'}`,
          'Another worker may have replaced it meanwhile, or the service has damaged it: start the same command again, and check any proxy on the way.',
        );
      }
      // MinIO names the encryption of a copy only when it is looked at. A copy stays: it may have replaced the only one.
      const unmet = checkEncryption(wanted, answer.ServerSideEncryption ?? found.ServerSideEncryption);
      if (unmet) throw unmet;
      return;
    }
    throw new UnmetRequest(
      'the service confirmed the write, but there is no object',
      'Check whether something removes objects there (a lifecycle rule, another program), and whether the service works; then start the same command again.',
    );
  }

  /** Retried after an unreadable answer: a failure here would report a whole object as missing. */
  async #look(address: ObjectAddress) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await ifPresent(this.#client.send(new HeadObjectCommand(address)));
      } catch (error) {
        if (tries === MAX_HEADS || readS3Failure(error).httpStatus !== 0) throw error;
      }
    }
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

  async *#listPages(prefix: string, more: Pick<ListObjectsV2CommandInput, 'Delimiter' | 'StartAfter'>) {
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
      const source = await this.#client.send(new HeadObjectCommand({ Bucket, Key: this.#root + from }));
      const { ContentLength: sizeBytes = 0, ETag } = source;
      const CopySource = [Bucket, ...`${this.#root}${from}`.split('/')].map(encodeURIComponent).join('/');
      const target = this.#target(to);
      const tagging = target.Tagging === undefined ? {} : ({ TaggingDirective: 'REPLACE' } as const);
      try {
        await this.#write(to, sizeBytes, ETag, async () => {
          // The content type is copied with the object: where that is replaced, Ceph forgets the tags.
          const answer = await this.#client.send(new CopyObjectCommand({ ...target, ...tagging, CopySource }));
          return { ...answer, ETag: answer.CopyObjectResult?.ETag, isCopy: true };
        });
        return { key: to, sizeBytes };
      } catch (error) {
        // Ceph cannot copy encrypted objects.
        if (readS3Failure(error).httpStatus !== 501) throw error;
        return await this.#copyThroughHere(from, to);
      }
    });
  }

  async #copyThroughHere(from: string, to: string): Promise<ObjectInfo> {
    const folder = await this.#given.makeScratch();
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
    return await this.#attempt('link', key, undefined, async (input) => {
      // Few runs create links; the others need not load it.
      const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
      // A signature has whole seconds only.
      const signedAtMs = Math.floor(this.#given.clock.now() / 1000) * 1000;
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

  /** Address and properties of a new object. */
  #target(key: string) {
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

/**
 * Some services accept the header but write the object unencrypted.
 * @param named the encryption that the service names @returns the fault if that is not the requested one
 */
function checkEncryption(wanted: string | undefined, named: string | undefined): UnmetRequest | undefined {
  if (wanted === undefined || named === wanted) return undefined;
  return new UnmetRequest(
    `the service was asked to encrypt with ${wanted}, and answered ${named ?? 'without encryption'}`,
    'This S3 service does not support the requested `drop.s3.encryption`: choose another kind or another service, or leave it out.',
  );
}

/** Without quotes, and without the mark that a proxy puts before a tag when it compresses the body. */
function unquote(etag: string | undefined): string | undefined {
  return etag?.replace(/^W\//, '').replaceAll('"', '');
}
