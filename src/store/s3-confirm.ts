/**
 * Checks that the service did what was requested. A status of 200 is no proof, so there are two layers. An answer
 * without the members that every complete answer has (an error or a page in the body, an empty body) counts as a failed
 * request, which the SDK retries. And every written object is verified before the writer continues. A HEAD is the
 * cheapest reliable way: its size and tag are those of the stored object.
 */
import {
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  type ListObjectsV2CommandOutput,
  type S3Client,
  type ServiceOutputTypes,
} from '@aws-sdk/client-s3';
import { isAbsent, readS3Failure, UnmetRequest } from './s3-fault.ts';
import { unquote } from './s3-parts.ts';

export interface ObjectAddress {
  readonly Bucket: string;
  readonly Key: string;
}

/** Properties that identify the written object. */
interface WrittenObject {
  readonly sizeBytes: number;
  /**
   * Tags that an object with these bytes may have: the one in the answer, and the MD5 that we computed. One must match:
   * an answer may have an empty tag (Ceph, multipart), and with SSE-KMS a tag is not an MD5.
   */
  readonly etags: readonly (string | undefined)[];
}

/** The service accepted the object, but has none. Writing it again is safe: it overwrites nothing. */
export class NotKept extends UnmetRequest {}

/** The service accepted the object, but stores other bytes. */
export class OtherStored extends UnmetRequest {}

/** The SDK retries broken connections, but not answers that are not HTTP. */
const MAX_HEADS = 3;
const NOT_KEPT_HINT =
  'Check whether something removes objects there (a lifecycle rule, another program), and whether the service works; then start the same command again.';
const OTHER_HINT =
  'Another worker may have replaced it meanwhile, or the service has damaged it: start the same command again, and check any proxy on the way.';
const UNMET_HINT = 'The service has a problem, or something else answers for it: start the same command again later.';

/** The members that every complete answer to a write has; Ceph leaves the tag of a completed upload empty. */
const SIGNS: Readonly<Record<string, (answer: Readonly<Record<string, unknown>>) => unknown>> = {
  PutObjectCommand: ({ ETag }) => ETag,
  UploadPartCommand: ({ ETag }) => ETag,
  CopyObjectCommand: ({ CopyObjectResult }) => readTag(CopyObjectResult),
  UploadPartCopyCommand: ({ CopyPartResult }) => readTag(CopyPartResult),
  CreateMultipartUploadCommand: ({ UploadId }) => UploadId,
  CompleteMultipartUploadCommand: ({ ETag, Key, Location }) => ETag || Key || Location,
};

/** An incomplete answer with status 2xx. The SDK retries errors with `$retryable`. */
class EmptyAnswer extends UnmetRequest {
  readonly $retryable = { throttling: false };
  readonly $metadata: { readonly httpStatusCode: number; attempts?: number };

  constructor(command: string, httpStatusCode: number) {
    super(`the answer to ${command.replace(/Command$/, '')} does not confirm it`, UNMET_HINT);
    this.$metadata = { httpStatusCode };
  }
}

/** Makes the client fail, and retry, a write whose answer is incomplete. */
export function checkAnswers(client: S3Client): void {
  client.middlewareStack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        const sign = SIGNS[commandName];
        if (sign === undefined) return await next(args);
        try {
          const result = await next(args);
          // The SDK's own types have one answer per command; here any of them may arrive.
          if (sign(result.output as ServiceOutputTypes & Record<string, unknown>)) return result;
        } catch (error) {
          const { httpStatus } = readS3Failure(error);
          // With a status of 2xx, the SDK could not read the body.
          if (httpStatus < 200 || httpStatus > 299) throw error;
        }
        throw new EmptyAnswer(commandName, 200);
      },
    { step: 'deserialize', name: 'flowdropCheckAnswers', priority: 'high' },
  );
}

/** @throws NotKept if there is no object, OtherStored */
export async function confirmWritten(
  client: S3Client,
  { Bucket, Key }: ObjectAddress,
  { sizeBytes, etags }: WrittenObject,
): Promise<void> {
  const found = await headObject(client, { Bucket, Key });
  if (found === undefined) {
    throw new NotKept('the service confirmed the write, but there is no object', NOT_KEPT_HINT);
  }
  if (isWritten(found, { sizeBytes, etags })) return;
  const sent = [...new Set(etags.map(unquote).filter(Boolean))].join(' or ') || '(unknown)';
  throw new OtherStored(
    `flowdrop sent ${sizeBytes} bytes with the tag ${sent}, stored are ${found.ContentLength ?? 0} with ${unquote(found.ETag) ?? 'none'}`,
    OTHER_HINT,
  );
}

export function isWritten(found: HeadObjectCommandOutput, { sizeBytes, etags }: WrittenObject): boolean {
  const tag = unquote(found.ETag);
  return found.ContentLength === sizeBytes && !!tag && etags.some((etag) => unquote(etag) === tag);
}

/** Retried after an unreadable answer: a failure here would report a whole object as missing. */
export async function headObject(
  client: S3Client,
  address: ObjectAddress,
): Promise<HeadObjectCommandOutput | undefined> {
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
 * Retries once if an acknowledged object is missing. Either another worker removed it as no longer needed, then the
 * second copy is superfluous; or the service lost it. A different object is left alone: it may be a later write of
 * another worker, which a retry would overwrite.
 */
export async function writeKept<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof NotKept)) throw error;
    return await write();
  }
}

/**
 * Checks a page of a listing: objects that it omits count as absent, and objects under a prefix may be removed.
 * @param token the continuation token that requested the page @throws UnmetRequest
 */
export function assertListing(page: ListObjectsV2CommandOutput, prefix: string, token: string | undefined): void {
  const foreign = page.Contents?.find(({ Key = '' }) => !Key.startsWith(prefix));
  if (foreign !== undefined) {
    throw new UnmetRequest(`the listing of ${prefix} has ${foreign.Key ?? 'an object without a key'}`, UNMET_HINT);
  }
  const next = page.NextContinuationToken;
  if (page.IsTruncated === true && !next) throw new UnmetRequest('the listing is cut off', UNMET_HINT);
  if (next && next === token) throw new UnmetRequest('the listing repeats the same page', UNMET_HINT);
}

function readTag(result: unknown): unknown {
  return typeof result === 'object' && result !== null && 'ETag' in result ? result.ETag : undefined;
}
