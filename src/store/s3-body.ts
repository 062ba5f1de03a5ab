/** Bodies of S3 objects: limited in time, counted, and their connection always closed. */
import { addAbortSignal, Readable } from 'node:stream';
import { GetObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type { ObjectAddress } from './s3-confirm.ts';
import { isAbsent, readS3Failure } from './s3-fault.ts';

/** A slower body counts as stalled. */
const MIN_BYTES_PER_SECOND = 64 * 1024;
const MIN_BODY_TIMEOUT_MS = 60_000;
/** Error names of a body that broke off, stalled or was too short; `RangeError` comes from our own byte count. */
const BROKEN_BODY = ['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'TimeoutError', 'ABORT_ERR', 'Error', 'RangeError'] as const;

/** The SDK retries requests, but not bodies that break off. */
const MAX_READS = 3;

/** Passes the body and its length to `use`, again if it breaks off; `undefined` if there is no such object. */
export async function readBody<T>(
  client: S3Client,
  address: ObjectAddress,
  signal: AbortSignal | undefined,
  use: (body: Readable, sizeBytes: number) => Promise<T>,
): Promise<T | undefined> {
  for (let reads = 1; ; reads += 1) {
    try {
      return await readOnce(client, address, signal, use);
    } catch (error) {
      if (signal?.aborted || reads === MAX_READS || !isBrokenBody(error)) throw error;
    }
  }
}

async function readOnce<T>(
  client: S3Client,
  address: ObjectAddress,
  signal: AbortSignal | undefined,
  use: (body: Readable, sizeBytes: number) => Promise<T>,
): Promise<T | undefined> {
  const stop = new AbortController();
  const signals = signal === undefined ? [stop.signal] : [stop.signal, signal];
  const abortSignal = AbortSignal.any(signals);
  const found = await ifPresent(client.send(new GetObjectCommand(address), { abortSignal }));
  if (found === undefined) return undefined;
  const { Body, ContentLength } = found;
  if (!(Body instanceof Readable) || ContentLength === undefined)
    throw new TypeError('the answer has no body or no length');
  const timeoutMs = Math.max(MIN_BODY_TIMEOUT_MS, Math.ceil((ContentLength / MIN_BYTES_PER_SECOND) * 1000));
  try {
    return await use(
      addAbortSignal(AbortSignal.any([...signals, AbortSignal.timeout(timeoutMs)]), Body),
      ContentLength,
    );
  } finally {
    // Closes the connection of a body that was not read to its end.
    stop.abort();
  }
}

/** Whether a retry may bring the whole body: not after the service answered or the local disk failed. */
function isBrokenBody(error: unknown): boolean {
  const { name, httpStatus } = readS3Failure(error);
  return httpStatus === 0 && BROKEN_BODY.some((broken) => broken === name);
}

export async function ifPresent<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}
