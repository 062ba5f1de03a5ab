/**
 * Writes large S3 objects in parts, from a local file or from another object. Invariant: the object appears only with
 * the last request, the service verifies every part's MD5, and the whole is compared with the sent parts. A failed or
 * stopped upload leaves no parts behind, for which S3 would keep charging; parts that cannot be removed because the
 * network is down are removed at the next occasion. A killed process leaves its parts: see `s3-leftovers.ts`.
 */
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { assertNotAborted } from '../core/errors.ts';
import { readFrom } from './local-file.ts';
import { confirmWritten, headObject, isWritten, type ObjectAddress, OtherStored } from './s3-confirm.ts';
import { readS3Failure, UnmetRequest } from './s3-fault.ts';
import { countBytes, listETags, planParts, type StoredPart, sendAll, type UploadPart } from './s3-parts.ts';
import { assertEncrypted, type WriteSettings } from './s3-write-settings.ts';

/** Properties of the new object other than its bytes. */
export interface ObjectHead extends WriteSettings {
  readonly ContentType?: string;
  readonly Metadata?: Record<string, string>;
}

/** The object to copy: its address in the form of the header, and its version. */
export interface CopySource {
  readonly address: string;
  readonly etag: string | undefined;
  readonly sizeBytes: number;
}

interface Upload extends ObjectAddress {
  readonly UploadId: string;
}

export class MultipartUploader {
  readonly #client: S3Client;
  readonly #unfinished = new Set<Upload>();

  constructor(client: S3Client) {
    this.#client = client;
  }

  /** @param partBytes target size of a part. On abort, parts in flight are finished first: see `#run`. */
  async upload(
    target: ObjectAddress,
    head: ObjectHead,
    path: string,
    partBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const send = async (upload: Upload, part: UploadPart) => await this.#sendPart(upload, part, file);
      await this.#run(target, head, planParts(size, partBytes), send, signal);
    } catch (error) {
      throw await this.#removeDamaged(target, error);
    } finally {
      await file.close();
    }
  }

  /** Copies inside the service, any size, even if it cannot copy an encrypted object in one request (Ceph). */
  async copy(target: ObjectAddress, head: ObjectHead, source: CopySource, partBytes: number): Promise<void> {
    const parts = planParts(source.sizeBytes, partBytes);
    const send = async (upload: Upload, part: UploadPart) =>
      await this.#copyPart(upload, part, source, parts.length === 1);
    await this.#run(target, head, parts, send, undefined);
  }

  /** Removes the parts of failed uploads. If a removal fails, the next call retries it. */
  async removeUnfinished(): Promise<void> {
    for (const upload of [...this.#unfinished]) {
      if (await this.#isRemoved(upload)) this.#unfinished.delete(upload);
    }
  }

  async #run(
    target: ObjectAddress,
    head: ObjectHead,
    parts: readonly UploadPart[],
    send: (upload: Upload, part: UploadPart) => Promise<StoredPart>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    assertNotAborted(signal);
    const created = await this.#client.send(new CreateMultipartUploadCommand({ ...target, ...head }));
    const upload = { ...target, UploadId: created.UploadId ?? '' };
    try {
      assertEncrypted(head, created);
      const stored = await sendAll(parts, async (part) => await send(upload, part), signal);
      await this.#complete(upload, stored, countBytes(parts));
    } catch (error) {
      // No part is in flight any more: S3 may keep a part that arrives after its upload was aborted.
      this.#unfinished.add(upload);
      await this.removeUnfinished();
      assertNotAborted(signal);
      throw error;
    }
  }

  async #sendPart(upload: Upload, part: UploadPart, file: FileHandle): Promise<StoredPart> {
    const bytes = await readFrom(file, part.start, part.sizeBytes);
    const md5 = createHash('md5').update(bytes).digest();
    const { ETag } = await this.#client.send(
      new UploadPartCommand({
        ...upload,
        PartNumber: part.number,
        Body: bytes,
        ContentLength: bytes.length,
        ContentMD5: md5.toString('base64'),
      }),
    );
    return { completed: { PartNumber: part.number, ETag }, md5 };
  }

  async #copyPart(upload: Upload, part: UploadPart, source: CopySource, isWhole: boolean): Promise<StoredPart> {
    const { CopyPartResult } = await this.#client.send(
      new UploadPartCopyCommand({
        ...upload,
        PartNumber: part.number,
        CopySource: source.address,
        // An empty object has no range.
        ...(isWhole ? {} : { CopySourceRange: `bytes=${part.start}-${part.start + part.sizeBytes - 1}` }),
        CopySourceIfMatch: source.etag,
      }),
    );
    return { completed: { PartNumber: part.number, ETag: CopyPartResult?.ETag }, md5: undefined };
  }

  /** @throws NotKept if the service has no such object */
  async #complete(upload: Upload, stored: readonly StoredPart[], sizeBytes: number): Promise<void> {
    const { Bucket, Key, UploadId } = upload;
    const MultipartUpload = { Parts: stored.map(({ completed }) => completed) };
    let answered: string | undefined;
    try {
      const answer = await this.#client.send(
        new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload }),
      );
      answered = answer.ETag;
    } catch (error) {
      // Perhaps only the answer was lost: then the object exists, and its tag shows that it is ours.
      const found = await headObject(this.#client, { Bucket, Key });
      if (found && isWritten(found, { sizeBytes, etags: listETags(stored, undefined) })) return;
      throw error;
    }
    await confirmWritten(this.#client, { Bucket, Key }, { sizeBytes, etags: listETags(stored, answered) });
  }

  /** Removes a damaged object that an upload stored. Not for copies: that object may be another worker's. */
  async #removeDamaged({ Bucket, Key }: ObjectAddress, error: unknown): Promise<unknown> {
    if (!(error instanceof OtherStored)) return error;
    await this.#client.send(new DeleteObjectCommand({ Bucket, Key }));
    return new UnmetRequest(`${error.message}; the object was removed`, error.hint);
  }

  async #isRemoved({ Bucket, Key, UploadId }: Upload): Promise<boolean> {
    try {
      await this.#client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }));
      return true;
    } catch (error) {
      // The caller must see the upload's own failure; this one only postpones the cleanup.
      return readS3Failure(error).name === 'NoSuchUpload';
    }
  }
}
