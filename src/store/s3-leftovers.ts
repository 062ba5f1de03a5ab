/**
 * Removes the parts that killed processes left in the bucket, for which S3 keeps charging. Invariant: it removes only
 * old uploads to keys of the layout: others are not ours, and a younger one may be another worker's. Errors here never
 * fail a write.
 */
import {
  AbortMultipartUploadCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  type S3Client,
} from '@aws-sdk/client-s3';
import type { Clock } from '../core/clock.ts';
import { describeError } from '../core/errors.ts';
import { isWrittenInParts } from './key-kind.ts';

/** None of our uploads takes a day, and a clock that is wrong by hours, here or there, does no harm. */
const MAX_AGE_MS = 24 * 60 * 60 * 1000;

/** A page has a thousand uploads; more pages wait for the next run. */
const MAX_PAGES = 100;

interface UploadsPlace {
  readonly Bucket: string;
  /** The store's root: empty, or ends with `/`. */
  readonly Prefix: string;
  /** Uploads per page; default: S3's own limit. */
  readonly MaxUploads?: number;
}

/**
 * Lists all uploads of the store, page by page, and removes our old ones.
 * @param note called for each removal and each failure, e.g. without the right `s3:ListBucketMultipartUploads`
 */
export async function removeLeftovers(
  client: S3Client,
  place: UploadsPlace,
  clock: Clock,
  note: (text: string) => void,
): Promise<void> {
  try {
    let next: { readonly KeyMarker?: string; readonly UploadIdMarker?: string } | undefined = {};
    for (let pages = 0; next !== undefined && pages < MAX_PAGES; pages += 1) {
      const page: ListMultipartUploadsCommandOutput = await client.send(
        new ListMultipartUploadsCommand({ ...place, ...next }),
      );
      for (const { Key = '', UploadId, Initiated } of page.Uploads ?? []) {
        if (Initiated === undefined || clock.now() - Initiated.getTime() < MAX_AGE_MS) continue;
        if (!isWrittenInParts(Key.slice(place.Prefix.length))) continue;
        await client.send(new AbortMultipartUploadCommand({ Bucket: place.Bucket, Key, UploadId }));
        note(`store: removed the parts of an unfinished upload of ${Initiated.toISOString()} to ${Key}`);
      }
      next = readNextPage(page);
    }
  } catch (error) {
    // Ignorable: the object is written, and the next run, or a lifecycle rule of the bucket, removes the parts.
    note(`store: parts of unfinished uploads below ${place.Prefix} could not be listed: ${describeError(error)}`);
  }
}

/** Start of the next page; `undefined` after the last. */
function readNextPage({ IsTruncated, NextKeyMarker, NextUploadIdMarker }: ListMultipartUploadsCommandOutput) {
  if (IsTruncated !== true || !NextKeyMarker) return undefined;
  return { KeyMarker: NextKeyMarker, ...(NextUploadIdMarker ? { UploadIdMarker: NextUploadIdMarker } : {}) };
}
