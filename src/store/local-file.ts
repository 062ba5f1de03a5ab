/** Reading local files: whole, in pieces, as streams. Writing them whole: `whole-file.ts`. */
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { assertSmall } from './store-fault.ts';

/** Bytes per read when copying a file: large enough that the number of system calls does not matter. */
const COPY_CHUNK_BYTES = 1 << 20;

/** @throws Fault `OBJECT_TOO_LARGE`, without reading anything */
export async function readSmall(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r');
  try {
    assertSmall(path, (await file.stat()).size);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/** @throws RangeError if the file ends before */
export async function readFrom(file: FileHandle, offset: number, length: number): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafe(length);
  for (let filled = 0; filled < length; ) {
    const { bytesRead } = await file.read(bytes, filled, length - filled, offset + filled);
    if (bytesRead === 0) throw new RangeError(`the file ends at ${offset + filled} bytes: it is shorter than expected`);
    filled += bytesRead;
  }
  return bytes;
}

export function readLocal(path: string, signal?: AbortSignal): Readable {
  return createReadStream(path, { highWaterMark: COPY_CHUNK_BYTES, signal });
}
