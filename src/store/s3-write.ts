/**
 * Writes S3 objects: small ones in one request, large ones in parts, from a local file or from another object. Invariants:
 * - the object appears whole, with the last request. The service verifies the MD5 of every body. Then the object is looked
 *   at before the writer continues: a HEAD is the cheapest reliable way, its size and tag are those of the stored object
 * - every request that creates an object carries the job's settings (`drop.s3`), copies too, because S3 inherits neither
 *   encryption nor ACL from the source
 * - a failed or stopped upload leaves no parts behind, for which S3 would keep charging; parts that cannot be removed
 *   because the network is down are removed at the next occasion, those of a killed process by `s3.ts`
 */
import { createHash } from 'node:crypto';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  type CopyObjectCommandInput,
  CreateMultipartUploadCommand,
  type CreateMultipartUploadCommandInput,
  DeleteObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { assertNotAborted } from '../core/errors.ts';
import { inParallel } from '../core/side-by-side.ts';
import { isDropFileKey } from './object-key.ts';
import type { ObjectAddress, S3Limits } from './s3-client.ts';
import { isAbsent, readS3Failure, UnmetRequest } from './s3-fault.ts';
import type { ObjectBody, ObjectOptions } from './store.ts';

/** S3's limit: larger objects get larger parts. */
const MAX_PARTS = 10_000;
/** Parts in flight, so 32 MiB of memory for a file; more parts do not use a line better. */
const IN_FLIGHT = 4;
const MD5_TAG = /^[0-9a-f]{32}$/;
/** The SDK retries broken connections, but not answers that are not HTTP. */
const MAX_HEADS = 3;
/** By the end of a key. */
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  avro: 'application/avro',
  eml: 'message/rfc822',
  html: 'text/html; charset=utf-8',
  json: 'application/json',
  ndjson: 'application/x-ndjson',
  parquet: 'application/vnd.apache.parquet',
  text: 'text/plain',
  txt: 'text/plain',
};
const ALGORITHMS = { 'sse-s3': 'AES256', 'sse-kms': 'aws:kms' } as const;

/** The parameters that PutObject, CopyObject and CreateMultipartUpload have in common. */
type WriteSettings = Pick<
  CreateMultipartUploadCommandInput & CopyObjectCommandInput,
  'ServerSideEncryption' | 'SSEKMSKeyId' | 'StorageClass' | 'Tagging' | 'ACL' | 'ContentType'
>;

/** Address and properties of the new object. */
export interface WriteTarget extends ObjectAddress, WriteSettings {
  readonly IfNoneMatch?: '*';
}

interface Upload extends ObjectAddress {
  readonly UploadId: string;
}

interface Part {
  /** From 1. */
  readonly number: number;
  readonly start: number;
  readonly sizeBytes: number;
}

/** A part that the service has, and the MD5 of its bytes if they came from this machine. */
interface StoredPart extends CompletedPart {
  readonly md5?: string;
}

/**
 * Encryption, tags and ACL apply to every object. The storage class applies only to drops: cheaper classes bill small
 * objects as 128 KiB, and short-lived objects, like those being sealed, for a month.
 * @param key of the object, below the store's root
 */
export function buildWriteSettings(options: ObjectOptions, key: string): WriteSettings {
  const { encryption, kmsKey, storageClass, tags, acl } = options;
  const pairs = tags && Object.entries(tags).map((tag) => tag.map(encodeURIComponent).join('='));
  return {
    ServerSideEncryption: encryption && ALGORITHMS[encryption],
    SSEKMSKeyId: kmsKey,
    // The SDK's types list today's classes and ACLs; the schema of the job file decides which values are allowed.
    StorageClass: isDropFileKey(key) ? (storageClass as WriteSettings['StorageClass']) : undefined,
    Tagging: pairs?.join('&'),
    ACL: acl as WriteSettings['ACL'],
    ContentType: CONTENT_TYPES[key.slice(key.lastIndexOf('.') + 1)],
  };
}

export class S3Writer {
  readonly #client: S3Client;
  readonly #limits: S3Limits;
  readonly #unfinished = new Set<Upload>();

  constructor(client: S3Client, limits: S3Limits) {
    this.#client = client;
    this.#limits = limits;
  }

  async put(target: WriteTarget, body: ObjectBody, signal: AbortSignal | undefined): Promise<void> {
    await this.removeUnfinished();
    await this.#writeKept(async () => {
      if ('bytes' in body) return await this.#putBytes(target, body.bytes, signal);
      const { size } = await stat(body.path);
      if (size <= this.#limits.putBytes) return await this.#putBytes(target, await readFile(body.path), signal);
      return await this.#putFile(target, body.path, signal);
    });
  }

  /** Writes it only if there is none: an object that exists is an error with the status 412. */
  async putNew(target: WriteTarget, bytes: Uint8Array): Promise<void> {
    await this.#writeKept(() => this.#putBytes({ ...target, IfNoneMatch: '*' }, bytes, undefined));
  }

  /** @returns the size of the copy */
  async copy(from: ObjectAddress, target: WriteTarget): Promise<number> {
    await this.removeUnfinished();
    const source = await this.#client.send(new HeadObjectCommand(from));
    const { ContentLength = 0 } = source;
    const CopySource = [from.Bucket, ...from.Key.split('/')].map(encodeURIComponent).join('/');
    await this.#writeKept(
      async () =>
        (await this.#copyAtOnce(target, CopySource, source)) ?? (await this.#copyParts(target, CopySource, source)),
    );
    return ContentLength;
  }

  /**
   * Tests uploads in parts, which only a large object would need: one is aborted, one of a few bytes completed. A failure
   * leaves no object, and no parts if it may remove them.
   */
  async tryParts(target: WriteTarget, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const { Bucket, Key } = target;
    const { UploadId } = await this.#client.send(new CreateMultipartUploadCommand(target));
    await this.#client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }));
    // The last part of an upload may be of any size.
    const send = async (upload: Upload, part: Part) => await this.#sendPart(upload, part, bytes);
    await this.#inParts(target, planParts(bytes.length, bytes.length), send, signal);
  }

  /** Removes the parts of failed uploads. If a removal fails, the next call retries it. */
  async removeUnfinished(): Promise<void> {
    for (const upload of [...this.#unfinished]) {
      const isRemoved = await this.#client.send(new AbortMultipartUploadCommand(upload)).then(
        () => true,
        // The caller must see the upload's own failure; this one only postpones the cleanup.
        (error: unknown) => readS3Failure(error).name === 'NoSuchUpload',
      );
      if (isRemoved) this.#unfinished.delete(upload);
    }
  }

  /**
   * Writes once more if an acknowledged object is missing. Either another worker removed it as no longer needed, then the
   * second copy is superfluous; or the service lost it. A different object is left alone: it may be a later write of
   * another worker, which a second one would overwrite.
   * @param write returns whether the object is there
   */
  async #writeKept(write: () => Promise<boolean>): Promise<void> {
    if ((await write()) || (await write())) return;
    throw new UnmetRequest(
      'the service confirmed the write, but there is no object',
      'Check whether something removes objects there (a lifecycle rule, another program), and whether the service works; then start the same command again.',
    );
  }

  async #putBytes(target: WriteTarget, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<boolean> {
    const md5 = createHash('md5').update(bytes).digest();
    const body = { Body: bytes, ContentLength: bytes.byteLength, ContentMD5: md5.toString('base64') };
    const sending = signal === undefined ? {} : { abortSignal: signal };
    const answer = await this.#client.send(new PutObjectCommand({ ...target, ...body }), sending);
    try {
      assertEncrypted(target, answer);
    } catch (error) {
      await this.#client.send(new DeleteObjectCommand({ Bucket: target.Bucket, Key: target.Key }));
      throw error;
    }
    return await this.#isKept(target, bytes.byteLength, [answer.ETag, md5.toString('hex')]);
  }

  /** On abort, parts in flight are finished first: see `#inParts`. */
  async #putFile(target: WriteTarget, path: string, signal: AbortSignal | undefined): Promise<boolean> {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const send = async (upload: Upload, part: Part) => await this.#sendPart(upload, part, await readPart(file, part));
      return await this.#inParts(target, planParts(size, this.#limits.partBytes), send, signal);
    } finally {
      await file.close();
    }
  }

  /**
   * Copies in one request. `undefined` if only a copy in parts will do: if it is too large; if it must be encrypted, because
   * an upload reports its encryption before the first byte; or if the service cannot copy encrypted objects in one request
   * (Ceph answers 501).
   */
  async #copyAtOnce(
    target: WriteTarget,
    CopySource: string,
    { ContentLength = 0, ETag }: HeadObjectCommandOutput,
  ): Promise<boolean | undefined> {
    if (ContentLength > this.#limits.copyBytes || target.ServerSideEncryption !== undefined) return undefined;
    const tagging = target.Tagging === undefined ? {} : ({ TaggingDirective: 'REPLACE' } as const);
    // The content type is copied with the object: where that is replaced, Ceph forgets the tags.
    const copying = new CopyObjectCommand({ ...target, ...tagging, CopySource });
    const answer = await this.#client.send(copying).catch((error: unknown) => {
      if (readS3Failure(error).httpStatus === 501) return undefined;
      throw error;
    });
    return answer && (await this.#isKept(target, ContentLength, [answer.CopyObjectResult?.ETag, ETag]));
  }

  async #copyParts(target: WriteTarget, CopySource: string, source: HeadObjectCommandOutput): Promise<boolean> {
    const { ContentLength = 0, ETag: CopySourceIfMatch } = source;
    const parts = planParts(ContentLength, this.#limits.copyPartBytes);
    const send = async (upload: Upload, { number: PartNumber, start, sizeBytes }: Part) => {
      // An empty object has no range.
      const range = parts.length === 1 ? {} : { CopySourceRange: `bytes=${start}-${start + sizeBytes - 1}` };
      const { CopyPartResult } = await this.#client.send(
        new UploadPartCopyCommand({ ...upload, PartNumber, CopySource, ...range, CopySourceIfMatch }),
      );
      return { PartNumber, ETag: CopyPartResult?.ETag };
    };
    return await this.#inParts(target, parts, send, undefined);
  }

  async #sendPart(upload: Upload, { number: PartNumber }: Part, bytes: Uint8Array): Promise<StoredPart> {
    const md5 = createHash('md5').update(bytes).digest();
    const body = { Body: bytes, ContentLength: bytes.byteLength, ContentMD5: md5.toString('base64') };
    const { ETag } = await this.#client.send(new UploadPartCommand({ ...upload, PartNumber, ...body }));
    return { PartNumber, ETag, md5: md5.toString('hex') };
  }

  /** @returns whether the service has the object afterwards */
  async #inParts(
    target: WriteTarget,
    parts: readonly Part[],
    send: (upload: Upload, part: Part) => Promise<StoredPart>,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    assertNotAborted(signal);
    const { Bucket, Key } = target;
    const created = await this.#client.send(new CreateMultipartUploadCommand(target));
    const upload = { Bucket, Key, UploadId: created.UploadId ?? '' };
    let isKept = false;
    try {
      assertEncrypted(target, created);
      const stored = await inParallel(parts, IN_FLIGHT, async (part) => {
        assertNotAborted(signal);
        return await send(upload, part);
      });
      const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
      isKept = await this.#complete(upload, stored, sizeBytes);
      return isKept;
    } finally {
      // No part is in flight any more: S3 may keep a part that arrives after its upload was aborted.
      if (!isKept) {
        this.#unfinished.add(upload);
        await this.removeUnfinished();
      }
    }
  }

  async #complete(upload: Upload, stored: readonly StoredPart[], sizeBytes: number): Promise<boolean> {
    const { Bucket, Key } = upload;
    const Parts = stored.map(({ PartNumber, ETag }) => ({ PartNumber, ETag }));
    let answered: string | undefined;
    try {
      const completing = new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } });
      answered = (await this.#client.send(completing)).ETag;
    } catch (error) {
      // Perhaps only the answer was lost: then the object exists, and its tag shows that it is ours.
      const found = await headObject(this.#client, { Bucket, Key });
      if (found && isWritten(found, sizeBytes, listETags(stored, undefined))) return true;
      throw error;
    }
    const isSent = stored.every(({ md5 }) => md5 !== undefined);
    return await this.#isKept({ Bucket, Key }, sizeBytes, listETags(stored, answered), isSent);
  }

  /**
   * @param etags tags that an object with these bytes may have: the one in the answer, and the MD5 that we computed. One
   * must match: an answer may have an empty tag (Ceph, multipart), and with SSE-KMS a tag is not an MD5
   * @param isRemoved whether another object is removed: an upload's is damaged, a copy's may be another worker's
   * @returns whether there is an object @throws UnmetRequest if it is another one
   */
  async #isKept(
    { Bucket, Key }: ObjectAddress,
    sizeBytes: number,
    etags: readonly (string | undefined)[],
    isRemoved = false,
  ): Promise<boolean> {
    const found = await headObject(this.#client, { Bucket, Key });
    if (found === undefined || isWritten(found, sizeBytes, etags)) return found !== undefined;
    if (isRemoved) await this.#client.send(new DeleteObjectCommand({ Bucket, Key }));
    const sent = [...new Set(etags.map(unquote).filter(Boolean))].join(' or ') || '(unknown)';
    const stored = `${found.ContentLength ?? 0} with ${unquote(found.ETag) ?? 'none'}`;
    throw new UnmetRequest(
      `flowdrop sent ${sizeBytes} bytes with the tag ${sent}, stored are ${stored}${isRemoved ? '; the object was removed' : ''}`,
      'Another worker may have replaced it meanwhile, or the service has damaged it: start the same command again, and check any proxy on the way.',
    );
  }
}

/** Retried after an unreadable answer: a failure here would report a whole object as missing. */
async function headObject(client: S3Client, address: ObjectAddress): Promise<HeadObjectCommandOutput | undefined> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await client.send(new HeadObjectCommand(address));
    } catch (error) {
      if (isAbsent(error)) return undefined;
      if (tries === MAX_HEADS || readS3Failure(error).httpStatus !== 0) throw error;
    }
  }
}

/**
 * Some services accept the header but write the object unencrypted. S3 names the encryption in its answer.
 * @throws UnmetRequest if the answer does not name the requested encryption
 */
function assertEncrypted(
  { ServerSideEncryption: wanted }: WriteSettings,
  answer: { readonly ServerSideEncryption?: string | undefined },
): void {
  if (wanted === undefined || answer.ServerSideEncryption === wanted) return;
  throw new UnmetRequest(
    `the service was asked to encrypt with ${wanted}, and answered ${answer.ServerSideEncryption ?? 'without encryption'}`,
    'This S3 service does not support the requested `drop.s3.encryption`: choose another kind or another service, or leave it out.',
  );
}

/** At least one part: an upload without parts cannot be completed. */
function planParts(sizeBytes: number, wantedBytes: number): readonly Part[] {
  const partBytes = Math.max(wantedBytes, Math.ceil(sizeBytes / MAX_PARTS));
  return Array.from({ length: Math.max(1, Math.ceil(sizeBytes / partBytes)) }, (_, index) => {
    const start = index * partBytes;
    return { number: index + 1, start, sizeBytes: Math.min(partBytes, sizeBytes - start) };
  });
}

/** @throws RangeError if the file ends before */
async function readPart(file: FileHandle, { start, sizeBytes }: Part): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafe(sizeBytes);
  for (let filled = 0; filled < sizeBytes; ) {
    const { bytesRead } = await file.read(bytes, filled, sizeBytes - filled, start + filled);
    if (bytesRead === 0) throw new RangeError(`the file ends at ${start + filled} bytes: it is shorter than expected`);
    filled += bytesRead;
  }
  return bytes;
}

/**
 * The tags that the whole object may have. If the service uses MD5s as tags, like Ceph and S3 without KMS, only the MD5
 * of the parts' MD5s is valid, since we sent the bytes. Otherwise the same computed from the parts' tags, or the tag in
 * the answer.
 */
function listETags(stored: readonly StoredPart[], answered: string | undefined): readonly (string | undefined)[] {
  const tags = stored.map(({ ETag }) => unquote(ETag) ?? '');
  const digests = Buffer.concat(tags.map((tag) => Buffer.from(tag, 'hex')));
  const whole = `${createHash('md5').update(digests).digest('hex')}-${tags.length}`;
  const composed = tags.every((tag) => MD5_TAG.test(tag)) ? whole : undefined;
  return stored.every(({ md5 }, index) => md5 === tags[index]) ? [composed] : [composed, answered];
}

function isWritten(found: HeadObjectCommandOutput, sizeBytes: number, etags: readonly (string | undefined)[]): boolean {
  const tag = unquote(found.ETag);
  return found.ContentLength === sizeBytes && !!tag && etags.some((etag) => unquote(etag) === tag);
}

/** Without quotes, and without the mark that a proxy puts before a tag when it compresses the body. */
function unquote(etag: string | undefined): string | undefined {
  return etag?.replace(/^W\//, '').replaceAll('"', '');
}
