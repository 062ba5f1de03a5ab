/**
 * The S3 client with everything bounded: time to connect, time without a byte, number of attempts. Credentials, and
 * whatever is not given here, come from the SDK's own chain (`AWS_*` variables, profile, instance role). Bodies need no
 * checksum of ours: the SDK signs the SHA-256 of each, and a server refuses one that was damaged on the way.
 */
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
  return new S3Client({
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
}
