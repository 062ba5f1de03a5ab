/**
 * Maps errors of S3 and the network to our faults; the only such mapper. Invariant: messages keep the service's own
 * code, but never contain requests, and so never credentials.
 */
import { describeError } from '../core/errors.ts';
import { RAISE_FILES_HINT } from '../core/machine.ts';
import { attempt } from './store.ts';

interface S3Failure {
  /** The error's name at the service or the SDK, e.g. `NoSuchBucket`, or a system error's code, e.g. `ECONNREFUSED`. */
  readonly name: string;
  /** 0 if there was no answer. */
  readonly httpStatus: number;
  /** Requests that the SDK sent before it gave up. */
  readonly attempts: number;
  readonly message: string;
}

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

export function readS3Failure(error: unknown): S3Failure {
  const metadata = readField(error, '$metadata');
  const code = readField(error, 'code');
  const name = typeof code === 'string' ? code : error instanceof Error ? error.name : 'Error';
  return {
    name,
    httpStatus: Number(readField(metadata, 'httpStatusCode') ?? 0),
    attempts: Number(readField(metadata, 'attempts') ?? 1),
    message: describeError(error),
  };
}

/** Whether the service says that there is no such object. A missing bucket is a failure, not an absence. */
export function isAbsent(error: unknown): boolean {
  const { name, httpStatus } = readS3Failure(error);
  return name === 'NoSuchKey' || (name === 'NotFound' && httpStatus === 404);
}

/** Whether the same request may succeed a moment later: no answer, an unreadable one, a stall, or a service in trouble. */
export function isTransient(error: unknown): boolean {
  const { name, httpStatus } = readS3Failure(error);
  if (LOCAL_CODES.some((code) => code === name)) return false;
  return name === 'RequestTimeout' || [0, 200, 429].includes(httpStatus) || (httpStatus >= 500 && httpStatus !== 501);
}

export async function ifPresent<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isAbsent(error)) return undefined;
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

function readField(value: unknown, field: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  const fields: Readonly<Record<string, unknown>> = { ...value };
  return fields[field];
}
