/**
 * Whether the service did what it was asked to do. Two layers, because a status of 200 proves neither: an answer that lacks
 * what every whole answer of its kind has (an error or a page in the body, an empty body) counts as a failed request, which
 * the SDK repeats; and every object that was written is looked at before its writer goes on. A HEAD is the cheapest sure
 * way: size and tag there are those of the object that the service keeps.
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

/** What an object must be to be the one that was written. */
interface WrittenObject {
  readonly sizeBytes: number;
  /**
   * Tags that an object with these bytes may have: the one of the answer, and the MD5 that we know. One must fit: an answer
   * may have an empty tag (Ceph, multipart), and with SSE-KMS a tag is no MD5.
   */
  readonly etags: readonly (string | undefined)[];
}

/** The service took the object, and has none. It can be written again: nothing of anybody is lost by that. */
export class NotKept extends UnmetRequest {}

/** The service took the object, and has one of other bytes. */
export class OtherStored extends UnmetRequest {}

/** The SDK repeats what it knows to be a broken connection, not bytes that are no HTTP. */
const MAX_HEADS = 3;
const NOT_KEPT_HINT =
  'Look what removes objects there (a lifecycle rule, another program), and whether the service is sound; then start the same command again.';
const OTHER_HINT =
  'Another worker may have replaced it meanwhile, or the service has damaged it: start the same command again, and look at what is between here and there.';
const UNMET_HINT = 'The service is in trouble, or something else answers for it: start the same command again later.';

/** What every whole answer to a writing request has; Ceph leaves the tag of a completed upload empty. */
const SIGNS: Readonly<Record<string, (answer: Readonly<Record<string, unknown>>) => unknown>> = {
  PutObjectCommand: ({ ETag }) => ETag,
  UploadPartCommand: ({ ETag }) => ETag,
  CopyObjectCommand: ({ CopyObjectResult }) => readTag(CopyObjectResult),
  UploadPartCopyCommand: ({ CopyPartResult }) => readTag(CopyPartResult),
  CreateMultipartUploadCommand: ({ UploadId }) => UploadId,
  CompleteMultipartUploadCommand: ({ ETag, Key, Location }) => ETag || Key || Location,
};

/** An answer of 2xx that is none. The SDK repeats what carries `$retryable`. */
class EmptyAnswer extends UnmetRequest {
  readonly $retryable = { throttling: false };
  readonly $metadata: { readonly httpStatusCode: number; attempts?: number };

  constructor(command: string, httpStatusCode: number) {
    super(`the answer to ${command.replace(/Command$/, '')} does not say that it was done`, UNMET_HINT);
    this.$metadata = { httpStatusCode };
  }
}

/** Makes every client fail, and repeat, a writing request whose answer is not whole. */
export function checkAnswers(client: S3Client): void {
  client.middlewareStack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        const sign = SIGNS[commandName];
        if (sign === undefined) return await next(args);
        try {
          const result = await next(args);
          // The SDK's own types know one answer for each command; here any of them may come.
          if (sign(result.output as ServiceOutputTypes & Record<string, unknown>)) return result;
        } catch (error) {
          const { httpStatus } = readS3Failure(error);
          // A body that the SDK could not read.
          if (httpStatus < 200 || httpStatus > 299) throw error;
        }
        throw new EmptyAnswer(commandName, 200);
      },
    { step: 'deserialize', name: 'flowdropCheckAnswers', priority: 'high' },
  );
}

/** @throws NotKept when there is no object, OtherStored */
export async function confirmWritten(
  client: S3Client,
  { Bucket, Key }: ObjectAddress,
  { sizeBytes, etags }: WrittenObject,
): Promise<void> {
  const found = await headObject(client, { Bucket, Key });
  if (found === undefined) {
    throw new NotKept('the service said that it was written, and there is no object', NOT_KEPT_HINT);
  }
  if (isWritten(found, { sizeBytes, etags })) return;
  const sent = [...new Set(etags.map(unquote).filter(Boolean))].join(' or ') || '(unknown)';
  throw new OtherStored(
    `sent were ${sizeBytes} bytes with the tag ${sent}, stored are ${found.ContentLength ?? 0} with ${unquote(found.ETag) ?? 'none'}`,
    OTHER_HINT,
  );
}

export function isWritten(found: HeadObjectCommandOutput, { sizeBytes, etags }: WrittenObject): boolean {
  const tag = unquote(found.ETag);
  return found.ContentLength === sizeBytes && !!tag && etags.some((etag) => unquote(etag) === tag);
}

/** Asked again when the answer made no sense: a failure here would disown an object that is whole. */
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
 * Writes once more what was acknowledged and is not there: another worker may have removed it, being done with it, and then
 * the object is one too many; or the service has lost it. An object that is there but other is left alone: it may be a later
 * write of somebody else's, which a repetition would take back.
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
 * Whether a page of a listing can be one: what is not listed counts as absent, and what lies under a prefix is removed.
 * @param token that the page was asked for with @throws UnmetRequest
 */
export function assertListing(page: ListObjectsV2CommandOutput, prefix: string, token: string | undefined): void {
  const foreign = page.Contents?.find(({ Key = '' }) => !Key.startsWith(prefix));
  if (foreign !== undefined) {
    throw new UnmetRequest(`the listing of ${prefix} has ${foreign.Key ?? 'an object without a key'}`, UNMET_HINT);
  }
  const next = page.NextContinuationToken;
  if (page.IsTruncated === true && !next) throw new UnmetRequest('the listing breaks off', UNMET_HINT);
  if (next && next === token) throw new UnmetRequest('the listing comes back to where it was', UNMET_HINT);
}

function readTag(result: unknown): unknown {
  return typeof result === 'object' && result !== null && 'ETag' in result ? result.ETag : undefined;
}
