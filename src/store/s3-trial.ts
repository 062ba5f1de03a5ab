/**
 * Tests uploads in parts, for `flowdrop doctor`: one upload is aborted, one is completed, both of a few bytes. The
 * store itself sends small objects whole, so missing rights for parts would only show with the first large one.
 */
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { createS3Client, type S3Options } from './s3-client.ts';
import { attemptS3 } from './s3-fault.ts';
import { S3_LIMITS } from './s3-limits.ts';
import { assertEncrypted, buildWriteSettings } from './s3-write-settings.ts';

/** Leaves an object at `key`; a failure leaves none, and no parts if it may remove them. @throws StoreFault */
export async function tryS3Upload(options: S3Options, key: string, signal?: AbortSignal): Promise<void> {
  const { bucket, prefix, objects = {} } = options;
  const client = createS3Client(options, S3_LIMITS.requestTimeoutMs);
  const address = { Bucket: bucket, Key: prefix === '' ? key : `${prefix}/${key}` };
  const sending = signal === undefined ? {} : { abortSignal: signal };
  const settings = buildWriteSettings(objects, key);
  const act = async <T>(operation: string, request: () => Promise<T>) =>
    await attemptS3(operation, `s3://${bucket}/${address.Key}`, signal, request);

  /** Begins an upload. One small part will do: the last part of an upload may be of any size. */
  const begin = async () => {
    const created = await act('begin upload of', () =>
      client.send(new CreateMultipartUploadCommand({ ...address, ...settings }), sending),
    );
    return { created, upload: { ...address, UploadId: created.UploadId ?? '' } };
  };
  const abort = async (upload: Awaited<ReturnType<typeof begin>>['upload']) =>
    // Without the signal: the upload is removed even if the operator has stopped the command.
    await attemptS3('abort upload of', `s3://${bucket}/${address.Key}`, undefined, () =>
      client.send(new AbortMultipartUploadCommand(upload)),
    );

  try {
    const first = await begin();
    await abort(first.upload);
    const { created, upload } = await begin();
    try {
      await act('upload', async () => assertEncrypted(settings, created));
      const Body = Buffer.from('flowdrop doctor');
      const { ETag } = await act('upload part of', () =>
        client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body, ContentLength: Body.length }), sending),
      );
      const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
      await act('complete upload of', () =>
        client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }), sending),
      );
    } catch (error) {
      // The caller must see the original failure; the abort above has already tested the right to abort.
      await abort(upload).catch(() => undefined);
      throw error;
    }
  } finally {
    client.destroy();
  }
}
