/**
 * The parts of a multipart upload: how an object is cut, how its parts are sent, and which tag the whole object has.
 * `s3-multipart.ts` does the actual sending.
 */
import { createHash } from 'node:crypto';
import type { CompletedPart } from '@aws-sdk/client-s3';
import { assertNotAborted } from '../core/errors.ts';

export interface UploadPart {
  /** Starts at 1. */
  readonly number: number;
  readonly start: number;
  readonly sizeBytes: number;
}

/** A part stored in the service: its tag there, and the MD5 of its bytes if they came from this machine. */
export interface StoredPart {
  readonly completed: CompletedPart;
  readonly md5: Buffer | undefined;
}

/** S3's limit: larger objects get larger parts. */
const MAX_PARTS = 10_000;
const MD5_TAG = /^[0-9a-f]{32}$/;
/** Parts in flight, so 32 MiB of memory for a file; more parts do not use a line better. */
const IN_FLIGHT = 4;

/** At least one part: an upload without parts cannot be completed. */
export function planParts(sizeBytes: number, wantedBytes: number): readonly UploadPart[] {
  const partBytes = Math.max(wantedBytes, Math.ceil(sizeBytes / MAX_PARTS));
  return Array.from({ length: Math.max(1, Math.ceil(sizeBytes / partBytes)) }, (_, index) => {
    const start = index * partBytes;
    return { number: index + 1, start, sizeBytes: Math.min(partBytes, sizeBytes - start) };
  });
}

/** Sends the parts, a few at a time. After a failure or an abort no new part starts, and those in flight finish. */
export async function sendAll(
  parts: readonly UploadPart[],
  send: (part: UploadPart) => Promise<StoredPart>,
  signal: AbortSignal | undefined,
): Promise<readonly StoredPart[]> {
  const stored: StoredPart[] = [];
  const waiting = [...parts];
  let hasFailed = false;
  const work = async () => {
    for (let part = waiting.shift(); part !== undefined && !hasFailed; part = waiting.shift()) {
      try {
        assertNotAborted(signal);
        stored[part.number - 1] = await send(part);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: IN_FLIGHT }, work));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return stored;
}

/**
 * The tags that the whole object may have. If the service uses MD5s as tags, like Ceph and S3 without KMS, only the MD5
 * of the parts' MD5s is valid, since we sent the bytes. Otherwise the same computed from the parts' tags, or the tag in
 * the answer.
 */
export function listETags(
  stored: readonly StoredPart[],
  answered: string | undefined,
): readonly (string | undefined)[] {
  const tags = stored.map(({ completed }) => unquote(completed.ETag) ?? '');
  const composed = tags.every((tag) => MD5_TAG.test(tag)) ? composeETag(tags) : undefined;
  const isOurs = stored.every(({ md5 }, index) => md5 !== undefined && md5.toString('hex') === tags[index]);
  return isOurs ? [composed] : [composed, answered];
}

function composeETag(tags: readonly string[]): string {
  const digests = Buffer.concat(tags.map((tag) => Buffer.from(tag, 'hex')));
  return `${createHash('md5').update(digests).digest('hex')}-${tags.length}`;
}

/** Without quotes, and without the mark that a proxy puts before a tag when it compresses the body. */
export function unquote(etag: string | undefined): string | undefined {
  return etag?.replace(/^W\//, '').replaceAll('"', '');
}

export function countBytes(parts: readonly UploadPart[]): number {
  return parts.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
