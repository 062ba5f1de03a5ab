/**
 * The S3 client with everything bounded: time to connect, time without a byte, number of attempts. Credentials, and
 * whatever is not given here, come from the SDK's own chain (`AWS_*` variables, profile, instance role).
 */
import { createHash } from 'node:crypto';
import { S3Client } from '@aws-sdk/client-s3';

export interface S3Options {
  readonly bucket: string;
  /** Put before every key, with a `/` between; empty for the bucket itself. */
  readonly prefix: string;
  /** Address of an S3-compatible service; default: `AWS_ENDPOINT_URL_S3`, then AWS itself. */
  readonly endpoint?: string;
  /** The bucket in the path instead of the host name, as most S3-compatible services need; default false. */
  readonly pathStyle?: boolean;
  /** Default: `AWS_REGION`, then the profile's. */
  readonly region?: string;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** From the request to the head of the answer: one part of an upload over a slow line, or a service under load. */
const REQUEST_TIMEOUT_MS = 120_000;
/** The first try and three more: enough for a restart of a gateway, short enough to tell the operator within minutes. */
const MAX_ATTEMPTS = 4;

export function createS3Client({ endpoint, pathStyle, region }: S3Options): S3Client {
  const client = new S3Client({
    maxAttempts: MAX_ATTEMPTS,
    retryMode: 'standard',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      throwOnRequestTimeout: true,
    },
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(pathStyle === undefined ? {} : { forcePathStyle: pathStyle }),
    ...(region === undefined ? {} : { region }),
  });
  addContentMd5(client);
  return client;
}

/**
 * Sends the MD5 of every body. The SDK's CRC32 is verified by AWS, but ignored by Ceph and others; a wrong Content-MD5
 * is refused by all, so that a bit that flips on the way is noticed.
 */
function addContentMd5(client: S3Client): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const { request } = args;
      if (isUpload(request)) request.headers['content-md5'] = createHash('md5').update(request.body).digest('base64');
      return await next(args);
    },
    { step: 'build', name: 'contentMd5', override: true },
  );
}

function isUpload(request: unknown): request is { headers: Record<string, string>; body: Uint8Array } {
  if (typeof request !== 'object' || request === null) return false;
  return 'headers' in request && 'method' in request && request.method === 'PUT' && hasBytes(request);
}

function hasBytes(request: object): boolean {
  return 'body' in request && request.body instanceof Uint8Array;
}
