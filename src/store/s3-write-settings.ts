/**
 * A job's settings for its objects (`drop.s3`), as parameters of S3's write requests. Invariant: every request that
 * creates an object carries them, copies too, because S3 inherits neither encryption nor ACL from the source.
 * Encryption, tags and ACL apply to every object. The storage class applies only to drops: cheaper classes bill small
 * objects as 128 KiB, and short-lived objects, like those being sealed, for a month.
 */
import type { CopyObjectCommandInput, CreateMultipartUploadCommandInput } from '@aws-sdk/client-s3';
import { isDropFileKey } from './key-kind.ts';
import { UnmetRequest } from './s3-fault.ts';
import type { ObjectOptions } from './store.ts';

/** The parameters that PutObject, CopyObject and CreateMultipartUpload have in common. */
export type WriteSettings = Pick<
  CreateMultipartUploadCommandInput & CopyObjectCommandInput,
  'ServerSideEncryption' | 'SSEKMSKeyId' | 'StorageClass' | 'Tagging' | 'ACL'
>;

const ALGORITHMS = { 'sse-s3': 'AES256', 'sse-kms': 'aws:kms' } as const;

/** @param key of the object, below the store's root */
export function buildWriteSettings(options: ObjectOptions, key: string): WriteSettings {
  const { encryption, kmsKey, storageClass, tags, acl } = options;
  return {
    ServerSideEncryption: encryption && ALGORITHMS[encryption],
    SSEKMSKeyId: kmsKey,
    // The SDK's types list today's classes and ACLs; the schema of the job file decides which values are allowed.
    StorageClass: isDropFileKey(key) ? (storageClass as WriteSettings['StorageClass']) : undefined,
    Tagging: tags && formatTags(tags),
    ACL: acl as WriteSettings['ACL'],
  };
}

/**
 * Some services accept the header but write the object unencrypted. S3 names the encryption in its answer.
 * @throws UnmetRequest if the answer does not name the requested encryption
 */
export function assertEncrypted(
  asked: WriteSettings,
  answer: { readonly ServerSideEncryption?: string | undefined },
): void {
  const { ServerSideEncryption: wanted } = asked;
  if (wanted === undefined || answer.ServerSideEncryption === wanted) return;
  throw new UnmetRequest(
    `the service was asked to encrypt with ${wanted}, and answered ${answer.ServerSideEncryption ?? 'without encryption'}`,
    'This S3 service does not support the requested `drop.s3.encryption`: choose another kind or another service, or leave it out.',
  );
}

/** In the header's format: like the query of a URL, with spaces as %20. */
function formatTags(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map((tag) => tag.map(encodeURIComponent).join('='))
    .join('&');
}
