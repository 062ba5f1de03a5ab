/**
 * The S3 client with everything bounded: time to connect, time without a byte, number of attempts; an answer
 * that is none counts as a failed attempt. Credentials, and
 * whatever is not given here, come from the SDK's own chain (`AWS_*` variables, profile, instance role). The CRC32 that the
 * SDK adds is not verified by every service; the SHA-256 that it signs and the Content-MD5 that we send with every body are.
 */
import { S3Client } from '@aws-sdk/client-s3';
import { checkAnswers } from './s3-confirm.ts';
import type { ObjectOptions } from './store.ts';

export interface S3Options {
  readonly bucket: string;
  /** Put before every key, with a `/` between; empty for the bucket itself. */
  readonly prefix: string;
  /** Address of an S3-compatible service; default: `AWS_ENDPOINT_URL_S3`, then AWS itself. */
  readonly endpoint?: string | undefined;
  /** The bucket in the path instead of the host name, as most S3-compatible services need; default false. */
  readonly pathStyle?: boolean | undefined;
  /** Default: `AWS_REGION`, then the profile's. */
  readonly region?: string | undefined;
  /** How objects are written; default: as the bucket has it. */
  readonly objects?: ObjectOptions | undefined;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** The first try and three more: enough for a restart of a gateway, short enough to tell the operator within minutes. */
const MAX_ATTEMPTS = 4;

export function createS3Client({ endpoint, pathStyle, region }: S3Options, requestTimeoutMs: number): S3Client {
  const client = new S3Client({
    maxAttempts: MAX_ATTEMPTS,
    retryMode: 'standard',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: requestTimeoutMs,
      // Without it an answer whose body stops after its head would be waited for without end.
      socketTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
    },
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(pathStyle === undefined ? {} : { forcePathStyle: pathStyle }),
    ...(region === undefined ? {} : { region }),
  });
  checkAnswers(client);
  return client;
}
