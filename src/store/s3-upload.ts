/**
 * Large files to S3 in parts. Invariant: the object appears with the last request only, and a failed or stopped upload
 * leaves no parts behind, which S3 would go on charging for; what could not be removed because the network was down is
 * removed at the next occasion. A process that is killed leaves its parts: a lifecycle rule of the bucket
 * (`AbortIncompleteMultipartUpload`) is there for that.
 */
import { createReadStream } from 'node:fs';
import { AbortMultipartUploadCommand, type S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { assertNotAborted } from '../core/errors.ts';
import { readS3Failure } from './s3-fault.ts';

/** Up to this, one request: it needs half the round trips, and fits in memory so that the SDK can repeat it. */
export const SINGLE_PUT_MAX_BYTES = 16 * 1024 * 1024;
/** S3 allows 5 MiB at least; 8 MiB is repeated within a second or two when a connection breaks. */
const PART_BYTES = 8 * 1024 * 1024;
/** S3's limit: larger files get larger parts. */
const MAX_PARTS = 10_000;
/** Parts in flight, so 32 MiB of memory; more does not fill a line better. */
const PARTS_IN_FLIGHT = 4;

export interface UploadTarget {
  readonly bucket: string;
  readonly key: string;
  readonly contentType: string | undefined;
}

interface Unfinished {
  readonly bucket: string;
  readonly key: string;
  readonly uploadId: string;
}

export class PartUploader {
  readonly #client: S3Client;
  readonly #unfinished = new Set<Unfinished>();

  constructor(client: S3Client) {
    this.#client = client;
  }

  /** On abort, parts in flight are finished first: S3 may keep a part that arrives after the upload was aborted. */
  async upload(target: UploadTarget, path: string, sizeBytes: number, signal: AbortSignal | undefined): Promise<void> {
    const { bucket, key, contentType } = target;
    // Aborting through the stream makes `done` wait for the removal of the parts; its own `abort` would not.
    const body = createReadStream(path, signal === undefined ? {} : { signal });
    const upload = new Upload({
      client: this.#client,
      params: {
        Bucket: bucket,
        Key: key,
        Body: body,
        ...(contentType === undefined ? {} : { ContentType: contentType }),
      },
      partSize: Math.max(PART_BYTES, Math.ceil(sizeBytes / MAX_PARTS)),
      queueSize: PARTS_IN_FLIGHT,
      leavePartsOnError: false,
    });
    try {
      await upload.done();
    } catch (error) {
      const { uploadId } = upload;
      if (uploadId !== undefined) this.#unfinished.add({ bucket, key, uploadId });
      await this.removeUnfinished();
      assertNotAborted(signal);
      throw error;
    } finally {
      body.destroy();
    }
  }

  /** Removes the parts of uploads that failed. What still cannot be removed is kept for the next call. */
  async removeUnfinished(): Promise<void> {
    for (const unfinished of [...this.#unfinished]) {
      if (await this.#isRemoved(unfinished)) this.#unfinished.delete(unfinished);
    }
  }

  async #isRemoved({ bucket, key, uploadId }: Unfinished): Promise<boolean> {
    try {
      await this.#client.send(new AbortMultipartUploadCommand({ Bucket: bucket, Key: key, UploadId: uploadId }));
      return true;
    } catch (error) {
      // The upload's own failure is what the caller must see; this one only postpones the cleaning.
      return readS3Failure(error).name === 'NoSuchUpload';
    }
  }
}
