/**
 * Writes S3 objects, each in one request: bytes, a local file, or a copy of another object. Invariants:
 * - the object appears whole. The service verifies the MD5 of every body. Then the object is looked at before the writer
 *   continues: a HEAD is the cheapest reliable way, its size and tag are those of the stored object
 * - every request that creates an object carries the job's settings (`drop.s3`), copies too, because S3 inherits neither
 *   encryption nor ACL from the source
 * Not in parts: they need more rights, and a killed worker leaves some, for which S3 keeps charging. So an object has at
 * most 5 GiB, more than ten times a session of 12 million trades.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import {
  CopyObjectCommand,
  type CopyObjectCommandInput,
  DeleteObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  PutObjectCommand,
  type PutObjectCommandInput,
  type PutObjectCommandOutput,
  type S3Client,
} from '@aws-sdk/client-s3';
import { systemClock } from '../core/clock.ts';
import { isDropFileKey } from './object-key.ts';
import { MAX_ATTEMPTS, MIN_BYTES_PER_SECOND, type ObjectAddress } from './s3-client.ts';
import { isAbsent, isTransient, readS3Failure, UnmetRequest } from './s3-fault.ts';
import type { ObjectBody, ObjectOptions } from './store.ts';

/** The SDK retries broken connections, but not answers that are not HTTP. */
const MAX_HEADS = 3;
/** Of a file that is sent again: the SDK repeats only what it has in memory. */
const RETRY_WAIT_MS = 100;
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

/** The parameters that PutObject and CopyObject have in common. */
type WriteSettings = Pick<
  PutObjectCommandInput & CopyObjectCommandInput,
  'ServerSideEncryption' | 'SSEKMSKeyId' | 'StorageClass' | 'Tagging' | 'ACL' | 'ContentType'
>;

/** Address and properties of the new object. */
export interface WriteTarget extends ObjectAddress, WriteSettings {
  /** Write it only if there is none: an object that exists is an error with the status 412. */
  readonly IfNoneMatch?: '*';
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

/** @param requestTimeoutMs of a request whose body takes no time */
export async function putObject(
  client: S3Client,
  target: WriteTarget,
  body: ObjectBody,
  requestTimeoutMs: number,
  signal?: AbortSignal,
): Promise<void> {
  const sizeBytes = 'bytes' in body ? body.bytes.byteLength : (await stat(body.path)).size;
  const hash = createHash('md5');
  if ('bytes' in body) hash.update(body.bytes);
  else for await (const chunk of createReadStream(body.path, { signal })) hash.update(chunk);
  const md5 = hash.digest();
  const input = { ...target, ContentLength: sizeBytes, ContentMD5: md5.toString('base64') };
  const options = {
    requestTimeout: requestTimeoutMs + Math.ceil((sizeBytes / MIN_BYTES_PER_SECOND) * 1000),
    ...(signal === undefined ? {} : { abortSignal: signal }),
  };
  const send = async () => {
    if ('bytes' in body) return await client.send(new PutObjectCommand({ ...input, Body: body.bytes }), options);
    return await sendFile(
      body.path,
      (Body, abortSignal) => client.send(new PutObjectCommand({ ...input, Body }), { ...options, abortSignal }),
      signal,
    );
  };
  await writeKept(async () => {
    const answer = await send();
    const unmet = checkEncryption(target, answer.ServerSideEncryption);
    if (unmet) {
      await client.send(new DeleteObjectCommand({ Bucket: target.Bucket, Key: target.Key }));
      throw unmet;
    }
    return (await findKept(client, target, sizeBytes, [answer.ETag, md5.toString('hex')])) !== undefined;
  });
}

async function sendFile(
  path: string,
  send: (body: ReturnType<typeof createReadStream>, signal: AbortSignal) => Promise<PutObjectCommandOutput>,
  signal: AbortSignal | undefined,
): Promise<PutObjectCommandOutput> {
  for (let tries = 1; ; tries += 1) {
    const body = createReadStream(path);
    // The SDK only pipes the body: it neither hears that reading failed, nor ends the request then.
    const unreadable = new Promise<never>((_, reject) => body.on('error', reject));
    const stop = new AbortController();
    const stopped = AbortSignal.any(signal === undefined ? [stop.signal] : [stop.signal, signal]);
    try {
      return await Promise.race([send(body, stopped), unreadable]);
    } catch (error) {
      if (signal?.aborted || tries === MAX_ATTEMPTS || !isTransient(error)) throw error;
    } finally {
      stop.abort();
      body.destroy();
    }
    await systemClock.sleep(RETRY_WAIT_MS * 2 ** tries * Math.random(), signal);
  }
}

/** @returns the size of the copy; `undefined` if the service cannot copy encrypted objects (Ceph answers 501) */
export async function copyObject(
  client: S3Client,
  from: ObjectAddress,
  target: WriteTarget,
): Promise<number | undefined> {
  const source = await client.send(new HeadObjectCommand(from));
  const { ContentLength = 0 } = source;
  const CopySource = [from.Bucket, ...from.Key.split('/')].map(encodeURIComponent).join('/');
  const tagging = target.Tagging === undefined ? {} : ({ TaggingDirective: 'REPLACE' } as const);
  try {
    await writeKept(async () => {
      // The content type is copied with the object: where that is replaced, Ceph forgets the tags.
      const answer = await client.send(new CopyObjectCommand({ ...target, ...tagging, CopySource }));
      const found = await findKept(client, target, ContentLength, [answer.CopyObjectResult?.ETag, source.ETag]);
      // MinIO names the encryption of a copy only when it is looked at. A copy stays: it may have replaced the only one.
      const unmet = found && checkEncryption(target, answer.ServerSideEncryption ?? found.ServerSideEncryption);
      if (unmet) throw unmet;
      return found !== undefined;
    });
    return ContentLength;
  } catch (error) {
    if (readS3Failure(error).httpStatus === 501) return undefined;
    throw error;
  }
}

/**
 * Writes once more if an acknowledged object is missing. Either another worker removed it as no longer needed, then the
 * second copy is superfluous; or the service lost it. A different object is left alone: it may be a later write of
 * another worker, which a second one would overwrite.
 * @param write returns whether the object is there
 */
async function writeKept(write: () => Promise<boolean>): Promise<void> {
  if ((await write()) || (await write())) return;
  throw new UnmetRequest(
    'the service confirmed the write, but there is no object',
    'Check whether something removes objects there (a lifecycle rule, another program), and whether the service works; then start the same command again.',
  );
}

/**
 * @param etags tags that an object with these bytes may have: the one in the answer, and the MD5 that we know. One
 * must match: with SSE-KMS a tag is not an MD5
 * @returns the object, `undefined` if there is none @throws UnmetRequest if it is another one
 */
async function findKept(
  client: S3Client,
  { Bucket, Key }: ObjectAddress,
  sizeBytes: number,
  etags: readonly (string | undefined)[],
): Promise<HeadObjectCommandOutput | undefined> {
  const found = await headObject(client, { Bucket, Key });
  if (found === undefined) return undefined;
  const tag = unquote(found.ETag);
  if (found.ContentLength === sizeBytes && tag && etags.some((etag) => unquote(etag) === tag)) return found;
  const sent = [...new Set(etags.map(unquote).filter(Boolean))].join(' or ') || '(unknown)';
  throw new UnmetRequest(
    `flowdrop sent ${sizeBytes} bytes with the tag ${sent}, stored are ${found.ContentLength ?? 0} with ${tag ?? 'none'}`,
    'Another worker may have replaced it meanwhile, or the service has damaged it: start the same command again, and check any proxy on the way.',
  );
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
 * Some services accept the header but write the object unencrypted.
 * @param named the encryption that the service names @returns the fault if that is not the requested one
 */
function checkEncryption({ ServerSideEncryption: wanted }: WriteTarget, named: string | undefined) {
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
