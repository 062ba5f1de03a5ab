/**
 * The S3 client with limits on everything: time to connect, time without a byte, number of attempts. An incomplete
 * answer counts as a failed attempt. Credentials, and all settings that are not given here, come from the SDK's own
 * chain (`AWS_*` variables, profile, instance role). The CRC32 that the SDK would add is left out: not every service
 * verifies it, and some refuse it. All verify the SHA-256 that it signs and the Content-MD5 that we send with every body.
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
  /** Puts the bucket in the path instead of the host name, as most S3-compatible services need; default false. */
  readonly pathStyle?: boolean | undefined;
  /** Default: `AWS_REGION`, then the profile's region. */
  readonly region?: string | undefined;
  /** How objects are written; default: the bucket's settings. */
  readonly objects?: ObjectOptions | undefined;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** The first try and three retries: enough for a restart of a gateway, short enough to report within minutes. */
const MAX_ATTEMPTS = 4;

export function createS3Client({ endpoint, pathStyle, region }: S3Options, requestTimeoutMs: number): S3Client {
  const client = new S3Client({
    maxAttempts: MAX_ATTEMPTS,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    retryMode: 'standard',
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
  checkAnswers(client);
  return client;
}
