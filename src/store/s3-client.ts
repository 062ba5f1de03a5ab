/**
 * The S3 client with limits on everything: time to connect, time without a byte, number of attempts. Credentials, and all
 * settings that are not given here, come from the SDK's own chain (`AWS_*` variables, profile, instance role). A status
 * of 200 is no proof: an answer without the members that every complete answer has (an error or a page in the body, an
 * empty body) counts as a failed request, which the SDK retries. The CRC32 that the SDK would add is left out: not every
 * service verifies it, and some refuse it. All verify the Content-MD5 that we send with every body; the SDK also signs
 * the SHA-256 of bytes, but not of files. A body is limited in time, counted, and its connection always closed.
 */
import { addAbortSignal, Readable } from 'node:stream';
import {
  type CopyObjectCommandOutput,
  GetObjectCommand,
  type PutObjectCommandOutput,
  S3Client,
} from '@aws-sdk/client-s3';
import { isFault } from '../core/errors.ts';
import { attemptS3, ifPresent, isTransient, readS3Failure, UNMET_HINT, UnmetRequest } from './s3-fault.ts';
import type { ObjectOptions, S3Access } from './store.ts';

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
export const MAX_ATTEMPTS = 4;
/** Credentials may come from a cloud service, which answers at once or not at all. */
const ACCESS_TIMEOUT_MS = 10_000;
/** A slower body counts as stalled. */
export const MIN_BYTES_PER_SECOND = 64 * 1024;
const MIN_BODY_TIMEOUT_MS = 60_000;
/** The SDK retries requests, but not bodies that break off. */
const MAX_READS = 3;

/** Requests whose answer has the tag of what was written. */
const WRITES: readonly string[] = ['PutObjectCommand', 'CopyObjectCommand'];

export function createS3Client({ endpoint, pathStyle, region }: S3Options, requestTimeoutMs: number): S3Client {
  const client = new S3Client({
    maxAttempts: MAX_ATTEMPTS,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    retryMode: 'standard',
    // It warns of every file that it cannot send again; `s3-write.ts` does.
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
