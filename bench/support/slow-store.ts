/**
 * A folder as an S3 bucket on loopback whose every answer comes after the latency of a store that is far away, and which
 * counts what readers ask of it. It only lists, heads and reads, as the engines' S3 clients do, and checks no signature:
 * it measures readers, it does not test them.
 */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { listFiles } from '../../test/support/flowdrop.ts';
import { serveHttp } from '../../test/support/http-server.ts';

export interface SlowStore {
  readonly endpoint: string;
  readonly bucket: string;
  /** Requests answered, and bytes of objects sent, since the start. */
  readonly requests: number;
  readonly bytes: number;
  close(): Promise<void>;
}

const BUCKET = 'year';
/** Nothing changes. */
const ETAG = '"0"';
/** As S3 answers. */
const LIST_PAGE = 1_000;

export async function startSlowStore(folder: string, latencyMs: number): Promise<SlowStore> {
  const counted = { requests: 0, bytes: 0 };
  const sizes = new Map<string, number>();
  for (const key of await listFiles(folder)) sizes.set(key, (await stat(join(folder, key))).size);
  const { url: endpoint, close } = await serveHttp(async (request, response) => {
    counted.requests += 1;
    await wait(latencyMs);
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://store');
    const key = decodeURIComponent(pathname).replace(/^\/+/, '').slice(BUCKET.length).replace(/^\//, '');
    if (key === '') {
      const body = listObjects(sizes, searchParams);
      response.writeHead(200, { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body) });
      response.end(body);
      return;
    }
    const size = sizes.get(key);
    if (size === undefined) {
      const body = '<Error><Code>NoSuchKey</Code><Message>There is no such key.</Message></Error>';
      response.writeHead(404, { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body) });
      response.end(request.method === 'HEAD' ? undefined : body);
      return;
    }
    const range = readRange(request.headers.range, size);
    const length = range.end - range.start + 1;
    const head = {
      'content-type': 'application/octet-stream',
      'content-length': length,
      'accept-ranges': 'bytes',
      etag: ETAG,
      'last-modified': new Date(0).toUTCString(),
    };
    const isPart = request.headers.range !== undefined;
    const parts = isPart ? { 'content-range': `bytes ${range.start}-${range.end}/${size}` } : {};
    response.writeHead(isPart ? 206 : 200, { ...head, ...parts });
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    const body = createReadStream(join(folder, key), { start: range.start, end: range.end });
    body.on('data', (chunk) => {
      counted.bytes += chunk.length;
    });
    await pipeline(body, response);
  });
  return {
    ...{ endpoint, bucket: BUCKET, close },
    get requests() {
      return counted.requests;
    },
    get bytes() {
      return counted.bytes;
    },
  };
}

/** Both ends included. */
function readRange(header: string | undefined, size: number): { readonly start: number; readonly end: number } {
  const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/.exec(header ?? '') ?? [];
  if (from === '' && to !== '') return { start: Math.max(0, size - Number(to)), end: size - 1 };
  return { start: Number(from), end: to === '' ? size - 1 : Math.min(size - 1, Number(to)) };
}

/** An answer to ListObjectsV2. Folders are listed as common prefixes where a delimiter is given. */
function listObjects(sizes: ReadonlyMap<string, number>, query: URLSearchParams): string {
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  const after = query.get('continuation-token') ?? query.get('start-after') ?? '';
  const found = new Map<string, number | undefined>();
  for (const [key, size] of sizes) {
    if (!key.startsWith(prefix)) continue;
    const cut = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    if (cut < 0) found.set(key, size);
    else found.set(key.slice(0, cut + 1), undefined);
  }
  const left = [...found].filter(([name]) => name > after);
  const page = left.slice(0, LIST_PAGE);
  const entries = page.map(([name, size]) =>
    size === undefined
      ? `<CommonPrefixes><Prefix>${name}</Prefix></CommonPrefixes>`
      : `<Contents><Key>${name}</Key><LastModified>1970-01-01T00:00:00.000Z</LastModified><ETag>${ETAG}</ETag><Size>${size}</Size><StorageClass>STANDARD</StorageClass></Contents>`,
  );
  const last = page.at(-1)?.[0] ?? '';
  const next = left.length > page.length ? `<NextContinuationToken>${last}</NextContinuationToken>` : '';
  return `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>${BUCKET}</Name><Prefix>${prefix}</Prefix><KeyCount>${page.length}</KeyCount><MaxKeys>${LIST_PAGE}</MaxKeys><IsTruncated>${next !== ''}</IsTruncated>${next}${entries.join('')}</ListBucketResult>`;
}
