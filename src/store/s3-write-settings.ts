/**
 * How a job wants its objects written (`drop.s3`), as the parameters of S3's writing requests. Invariant: every request
 * that makes an object carries them, copies too, because S3 inherits neither encryption nor ACL from the source.
 * Encryption, tags and ACL are for every object. The storage class is for drops only: cheaper classes bill small objects
 * as 128 KiB, and objects that are removed soon, like those being sealed, for a month.
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
    // The SDK's types list the classes and ACLs of today; the job file's shape says what may come here.
    StorageClass: isDropFileKey(key) ? (storageClass as WriteSettings['StorageClass']) : undefined,
    Tagging: tags && formatTags(tags),
    ACL: acl as WriteSettings['ACL'],
  };
}

/**
 * Some services take the header and write the object in the clear. S3 names the encryption in its answer.
 * @throws UnmetRequest when the answer does not name the encryption that was asked for
 */
export function assertEncrypted(
  asked: WriteSettings,
  answer: { readonly ServerSideEncryption?: string | undefined },
): void {
  const { ServerSideEncryption: wanted } = asked;
  if (wanted === undefined || answer.ServerSideEncryption === wanted) return;
  throw new UnmetRequest(
    `the service was asked to encrypt with ${wanted}, and answered ${answer.ServerSideEncryption ?? 'without encryption'}`,
    'This S3 service does not do what `drop.s3.encryption` asks for: choose another kind, another service, or leave it out.',
  );
}

/** As the header wants it: like the query of an address, with blanks as %20. */
function formatTags(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map((tag) => tag.map(encodeURIComponent).join('='))
    .join('&');
}
