/**
 * The S3 client with limits on everything: time to connect, time without a byte, number of attempts. Credentials, and all
 * settings that are not given here, come from the SDK's own chain (`AWS_*` variables, profile, instance role). A status
 * of 200 is no proof: an answer without the members that every complete answer has (an error or a page in the body, an
 * empty body) counts as a failed request, which the SDK retries. The CRC32 that the SDK would add is left out: not every
 * service verifies it, and some refuse it. All verify the Content-MD5 that we send with every body; the SDK also signs
 * the SHA-256 of bytes, but not of files. A body is limited in time, counted, and its connection always closed.
 *
 * Also maps errors of S3 and the network to our faults; the only such mapper. Invariant: messages keep the service's own
 * code, but never contain requests, and so never credentials.
 */
import { createReadStream } from 'node:fs';
import { addAbortSignal, Readable } from 'node:stream';
import {
  type CopyObjectCommandOutput,
  GetObjectCommand,
  type PutObjectCommandInput,
  type PutObjectCommandOutput,
  S3Client,
} from '@aws-sdk/client-s3';
import { systemClock } from '../core/clock.ts';
import { describeError, isFault } from '../core/errors.ts';
import { RAISE_FILES_HINT } from '../core/machine.ts';
import { isDropFileKey } from './object-key.ts';
import { attempt, type ObjectOptions, type S3Access } from './store.ts';

export interface S3Options {
  readonly bucket: string;
  /** Put before every key, with a `/` between; empty for the bucket itself. */
  readonly prefix: string;
  /** Address of an S3-compatible service; default: `AWS_ENDPOINT_URL_S3`, then AWS itself. */
  readonly endpoint?: string | undefined;
  /** Puts the bucket in the path instead of the host name, as most S3-compatible services need; default false. */
  readonly pathStyle?: boolean | undefined;
  /** Default: `AWS_REGION`, then the profile's region. */
  readonly region?: string | undefined;
  /** How objects are written; default: the bucket's settings. */
  readonly objects?: ObjectOptions | undefined;
}

export interface ObjectAddress {
  readonly Bucket: string;
  readonly Key: string;
}

/** From the request to the head of the answer, without the time that a body takes: a service under load. */
export const REQUEST_TIMEOUT_MS = 120_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** The first try and three retries: enough for a restart of a gateway, short enough to report within minutes. */
const MAX_ATTEMPTS = 4;
/** Credentials may come from a cloud service, which answers at once or not at all. */
const ACCESS_TIMEOUT_MS = 10_000;
/** A slower body counts as stalled. */
export const MIN_BYTES_PER_SECOND = 64 * 1024;
const MIN_BODY_TIMEOUT_MS = 60_000;
/** The SDK retries requests, but not bodies that break off. */
const MAX_READS = 3;

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

/** Of a file that is sent again: the SDK repeats only what it has in memory. */
const RETRY_WAIT_MS = 100;
/** Requests whose answer has the tag of what was written. */
const WRITES: readonly string[] = ['PutObjectCommand', 'CopyObjectCommand'];

export function createS3Client({ endpoint, pathStyle, region }: S3Options, requestTimeoutMs: number): S3Client {
  const client = new S3Client({
    maxAttempts: MAX_ATTEMPTS,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    retryMode: 'standard',
    // It warns of every file that it cannot send again; `s3.ts` does.
    logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: requestTimeoutMs,
      // Without it, an answer whose body stops after the head would block forever.
      socketTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
    },
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(pathStyle === undefined ? {} : { forcePathStyle: pathStyle }),
    ...(region === undefined ? {} : { region }),
  });
  client.middlewareStack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        if (!WRITES.includes(commandName)) return await next(args);
        try {
          const result = await next(args);
          // One of the two.
          const { ETag, CopyObjectResult } = result.output as PutObjectCommandOutput & CopyObjectCommandOutput;
          if (ETag || CopyObjectResult?.ETag) return result;
        } catch (error) {
          const { httpStatus } = readS3Failure(error);
          // With a status of 2xx, the SDK could not read the body.
          if (httpStatus < 200 || httpStatus > 299) throw error;
        }
        const what = `the answer to ${commandName.replace(/Command$/, '')} does not confirm it`;
        // The SDK retries errors with `$retryable`.
        const retried = { $retryable: { throttling: false }, $metadata: { httpStatusCode: 200 } };
        throw Object.assign(new UnmetRequest(what, UNMET_HINT), retried);
      },
    { step: 'deserialize', name: 'flowdropCheckAnswers', priority: 'high' },
  );
  return client;
}

function ignore(): void {}

/**
 * Encryption, tags and ACL apply to every object. The storage class applies only to drops: cheaper classes bill small
 * objects as 128 KiB, and short-lived objects, like those being sealed, for a month.
 * @param key of the object, below the store's root
 */
export function buildWriteSettings(options: ObjectOptions, key: string) {
  const { encryption, kmsKey, storageClass, tags, acl } = options;
  const pairs = tags && Object.entries(tags).map((tag) => tag.map(encodeURIComponent).join('='));
  return {
    ServerSideEncryption: encryption && ALGORITHMS[encryption],
    SSEKMSKeyId: kmsKey,
    // The SDK's types list today's classes and ACLs; the schema of the job file decides which values are allowed.
    StorageClass: isDropFileKey(key) ? (storageClass as PutObjectCommandInput['StorageClass']) : undefined,
    Tagging: pairs?.join('&'),
    ACL: acl as PutObjectCommandInput['ACL'],
    ContentType: CONTENT_TYPES[key.slice(key.lastIndexOf('.') + 1)],
  };
}

export async function sendFile(
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

/** Passes the body and its length to `use`, again if it breaks off; `undefined` if there is no such object. */
export async function readBody<T>(
  client: S3Client,
  address: ObjectAddress,
  signal: AbortSignal | undefined,
  use: (body: Readable, sizeBytes: number) => Promise<T>,
): Promise<T | undefined> {
  for (let reads = 1; ; reads += 1) {
    const stop = new AbortController();
    const signals = signal === undefined ? [stop.signal] : [stop.signal, signal];
    try {
      const sending = client.send(new GetObjectCommand(address), { abortSignal: AbortSignal.any(signals) });
      const found = await ifPresent(sending);
      if (found === undefined) return undefined;
      const { Body, ContentLength } = found;
      if (!(Body instanceof Readable) || ContentLength === undefined)
        throw new TypeError('the answer has no body or no length');
      const timeoutMs = Math.max(MIN_BODY_TIMEOUT_MS, Math.ceil((ContentLength / MIN_BYTES_PER_SECOND) * 1000));
      const timed = AbortSignal.any([...signals, AbortSignal.timeout(timeoutMs)]);
      return await use(addAbortSignal(timed, Body), ContentLength);
    } catch (error) {
      // Not after the service answered or the local disk failed: a retry would not bring the whole body.
      const isBroken = readS3Failure(error).httpStatus === 0 && isTransient(error) && !isFault(error);
      if (signal?.aborted || reads === MAX_READS || !isBroken) throw error;
    } finally {
      // Closes the connection of a body that was not read to its end.
      stop.abort();
    }
  }
}

/**
 * The address and credentials of a store, for the engine. They are read once; temporary credentials are not renewed.
 * @throws StoreFault if there are no credentials or no region
 */
export async function readS3Access(options: S3Options): Promise<S3Access> {
  const { bucket, prefix } = options;
  const client = createS3Client(options, ACCESS_TIMEOUT_MS);
  try {
    return await attemptS3('open', `s3://${bucket}`, undefined, async () => {
      const { accessKeyId, secretAccessKey, sessionToken } = await client.config.credentials();
      const bucketUrl = await readBucketUrl(client, bucket);
      return { kind: 's3', bucketUrl, bucket, prefix, accessKeyId, secretAccessKey, sessionToken };
    });
  } finally {
    client.destroy();
  }
}

async function readBucketUrl({ config }: S3Client, bucket: string): Promise<string> {
  const configured = config.endpoint ? await config.endpoint() : await config.serviceConfiguredEndpoint?.();
  const endpoint = typeof configured === 'string' ? configured : configured && formatEndpoint(configured);
  const { url } = config.endpointProvider({
    Bucket: bucket,
    Region: await config.region(),
    // The engine recognises a bucket in the host name only for Amazon's own hosts.
    ForcePathStyle: config.forcePathStyle === true || endpoint !== undefined,
    ...(endpoint === undefined ? {} : { Endpoint: endpoint }),
  });
  return url.href.replace(/\/$/, '');
}

type Endpoint = Awaited<ReturnType<NonNullable<S3Client['config']['endpoint']>>>;

function formatEndpoint({ protocol, hostname, port, path }: Endpoint): string {
  return `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${path}`;
}

type S3Failure = ReturnType<typeof readS3Failure>;

/** The service answered, but did not do what was requested. */
export class UnmetRequest extends TypeError {
  override readonly name = 'UnmetRequest';
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

export const UNMET_HINT =
  'The service has a problem, or something else answers for it: start the same command again later.';
const DAMAGED_HINT =
  'The bytes were damaged in transit: start the same command again, and check any proxy on the way to the endpoint.';
const NOT_IMPLEMENTED_HINT =
  'This S3 service lacks a function that was asked for: If-None-Match, a setting of drop.s3, or the ' +
  'checksums of answers, without which it works with AWS_RESPONSE_CHECKSUM_VALIDATION=WHEN_REQUIRED. ' +
  '`flowdrop doctor` tries each.';
const LOCAL_HINT = 'The problem is the local file: check the path, its permissions and the free space on its disk.';
/** By name, then by HTTP status. */
const HINTS: Readonly<Record<string, string>> = {
  NoSuchBucket: 'Create the bucket, or correct drop.to.',
  InvalidAccessKeyId: 'Unknown access key: check the AWS credentials and AWS_ENDPOINT_URL_S3.',
  SignatureDoesNotMatch: 'The secret key is wrong: check AWS_SECRET_ACCESS_KEY, or the profile.',
  ExpiredToken: 'The session has expired: log in again, or use credentials that renew themselves.',
  RequestTimeout:
    'The body did not arrive in time: check the network to the endpoint, then start the same command again.',
  RequestTimeTooSkewed: 'The clock of this machine is wrong: set it by NTP.',
  PermanentRedirect: 'The bucket is in another region: set AWS_REGION.',
  AuthorizationHeaderMalformed: 'The bucket is in another region: set AWS_REGION.',
  CredentialsProviderError: 'Give AWS credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role.',
  ECONNREFUSED: 'The endpoint refused the connection: check AWS_ENDPOINT_URL_S3, and whether the service is running.',
  ENOTFOUND: 'The endpoint name has no address: check AWS_ENDPOINT_URL_S3; FLOWDROP_S3_PATH_STYLE=true may be needed.',
  EAI_AGAIN: 'The name of the endpoint cannot be resolved now: check the DNS of this machine.',
  EIO: LOCAL_HINT,
  ESTALE: LOCAL_HINT,
  EMFILE: RAISE_FILES_HINT,
  BadDigest: DAMAGED_HINT,
  XAmzContentSHA256Mismatch: DAMAGED_HINT,
  EntityTooLarge: 'S3 takes objects up to 5 GiB: split the job by symbols (`where`).',
  InvalidArgument: 'The service refuses a setting: check drop.s3.storage_class, encryption, kms_key, tags and acl.',
  InvalidStorageClass: 'The service has no such storage class: correct drop.s3.storage_class.',
  InvalidObjectState:
    'The object is in an archive class and cannot be read at once: choose another drop.s3.storage_class.',
  NotImplemented: NOT_IMPLEMENTED_HINT,
  '501': NOT_IMPLEMENTED_HINT,
  '400': 'The service did not understand the request: check AWS_REGION and FLOWDROP_S3_PATH_STYLE.',
  '403':
    'The credentials lack a permission: s3:GetObject, s3:PutObject, s3:DeleteObject on the ' +
    'prefix, and s3:ListBucket on the bucket, without which a missing object looks forbidden; with drop.s3 also ' +
    's3:PutObjectTagging, s3:PutObjectAcl, kms:GenerateDataKey and kms:Decrypt.',
};
const REGION_HINT = 'Set AWS_REGION; S3-compatible services mostly take us-east-1.';
const NETWORK_HINT = 'Check whether the endpoint is reachable from here, then start the same command again.';
const LATER_HINT = 'The service has a problem or limits the request rate: start the same command again later.';
const LOCAL_CODES = ['ENOSPC', 'EDQUOT', 'EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR', 'EISDIR', 'EEXIST'] as const;

export function readS3Failure(error: unknown) {
  const { $metadata: metadata, code } = { ...(error as object | undefined) } as Readonly<Record<string, unknown>>;
  const { httpStatusCode, attempts } = { ...(metadata as object | undefined) } as Readonly<Record<string, unknown>>;
  return {
    /** The error's name at the service or the SDK, e.g. `NoSuchBucket`, or a system error's code, e.g. `ECONNREFUSED`. */
    name: typeof code === 'string' ? code : error instanceof Error ? error.name : 'Error',
    /** 0 if there was no answer. */
    httpStatus: Number(httpStatusCode ?? 0),
    /** Requests that the SDK sent before it gave up. */
    attempts: Number(attempts ?? 1),
    message: describeError(error),
  };
}

/** Whether the same request may succeed a moment later: no answer, an unreadable one, a stall, or a service in trouble. */
function isTransient(error: unknown): boolean {
  const { name, httpStatus } = readS3Failure(error);
  if (LOCAL_CODES.some((code) => code === name)) return false;
  return name === 'RequestTimeout' || [0, 200, 429].includes(httpStatus) || (httpStatus >= 500 && httpStatus !== 501);
}

export async function ifPresent<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    const { name, httpStatus } = readS3Failure(error);
    // A missing bucket is a failure, not an absence.
    if (name === 'NoSuchKey' || (name === 'NotFound' && httpStatus === 404)) return undefined;
    throw error;
  }
}

export async function attemptS3<T>(
  operation: string,
  target: string,
  signal: AbortSignal | undefined,
  act: () => Promise<T>,
): Promise<T> {
  const explain = (error: unknown) => {
    const failure = readS3Failure(error);
    const hint = error instanceof UnmetRequest ? error.hint : hintFor(failure);
    // A new error, because the SDK's error contains the request with its session token.
    return { cause: new Error(formatFailure(failure)), hint };
  };
  return await attempt(operation, target, signal, explain, act);
}

function formatFailure({ name, httpStatus, message }: S3Failure): string {
  // The answer to a HEAD has no body with details.
  if (httpStatus === 403 && message === 'UnknownError') return 'AccessDenied (HTTP 403)';
  const named = message.startsWith(name) ? message : `${name}: ${message}`;
  return httpStatus === 0 ? named : `${named} (HTTP ${httpStatus})`;
}

function hintFor({ name, httpStatus, message }: S3Failure): string {
  if (LOCAL_CODES.some((code) => code === name)) return LOCAL_HINT;
  if (/region is missing/i.test(message)) return REGION_HINT;
  const hint = HINTS[name] ?? HINTS[String(httpStatus)];
  if (hint !== undefined) return hint;
  return httpStatus >= 500 || httpStatus === 429 ? LATER_HINT : NETWORK_HINT;
}
