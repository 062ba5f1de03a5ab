/**
 * Parts that a killed process left in the bucket, which S3 goes on charging for. Invariant: only uploads to keys that
 * the layout has, and that began long ago, are removed: others are not ours, and a younger one may be another worker's.
 * Nothing fails for it.
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

/** No upload of ours takes a day; and a clock that is wrong by hours, here or there, does no harm. */
const MAX_AGE_MS = 24 * 60 * 60 * 1000;

/** A page is a thousand uploads: what is beyond them is for the next time. */
const MAX_PAGES = 100;

interface UploadsPlace {
  readonly Bucket: string;
  /** The store's: empty, or ends with `/`. */
  readonly Prefix: string;
  /** Of one page; S3's own number when left out. */
  readonly MaxUploads?: number;
}

/**
 * Lists all uploads of the store, page by page, and removes the old ones of ours.
 * @param note is told what was removed and what could not be, e.g. for want of `s3:ListBucketMultipartUploads`
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
    note(`store: parts of unfinished uploads below ${place.Prefix} were not looked for: ${describeError(error)}`);
  }
}

/** Where the next page begins; `undefined` after the last. */
function readNextPage({ IsTruncated, NextKeyMarker, NextUploadIdMarker }: ListMultipartUploadsCommandOutput) {
  if (IsTruncated !== true || !NextKeyMarker) return undefined;
  return { KeyMarker: NextKeyMarker, ...(NextUploadIdMarker ? { UploadIdMarker: NextUploadIdMarker } : {}) };
}
