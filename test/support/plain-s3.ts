/**
 * The smallest S3 that flowdrop can use, in memory, for what a real server cannot be made to do: it may ignore
 * conditions, or refuse headers. No signature is checked.
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { serveHttp } from './http-server.ts';

export interface PlainS3 {
  /** Environment for a worker; its store is `s3://bucket/...`. */
  readonly env: Readonly<Record<string, string>>;
  /** Keys of the objects, with the bucket before them. */
  readonly keys: ReadonlyMap<string, Buffer>;
  /** Method and key of every request so far. */
  readonly asked: string[];
  close(): Promise<void>;
}

export interface PlainS3Options {
  /** Takes a conditional PUT for a plain one. */
  readonly ignoresConditions?: boolean;
  /** Answers 501 to requests with such a header. */
  readonly refusedHeader?: RegExp;
  /** Answers 501 to bodies without a signature. */
  readonly refusesUnsigned?: boolean;
  /** Answers 400 to larger objects. */
  readonly maxBytes?: number;
}

export async function startPlainS3({
  ignoresConditions,
  refusedHeader,
  refusesUnsigned,
  maxBytes = Number.POSITIVE_INFINITY,
}: PlainS3Options = {}): Promise<PlainS3> {
  const objects = new Map<string, Buffer>();
  const asked: string[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://s3');
    const key = decodeURIComponent(pathname).slice(1);
    const { headers, method } = request;
    const body = await buffer(request);
    asked.push(`${method} ${key}`);
    const send = (status: number, xml: string, more: Record<string, string> = {}) => {
      response.writeHead(status, { 'content-type': 'application/xml', ...more });
      response.end(method === 'HEAD' ? undefined : xml);
    };
    const fail = (status: number, code: string) =>
      send(status, `<Error><Code>${code}</Code><Message>${code}</Message></Error>`);
    if (Object.keys(headers).some((name) => refusedHeader?.test(name))) return fail(501, 'NotImplemented');
    if (refusesUnsigned && headers['x-amz-content-sha256'] === 'UNSIGNED-PAYLOAD') return fail(501, 'NotImplemented');
    if (body.length > maxBytes) return fail(400, 'EntityTooLarge');
    const found = objects.get(key);
    if (method === 'PUT') {
      if (found && headers['if-none-match'] === '*' && !ignoresConditions) return fail(412, 'PreconditionFailed');
      const source = headers['x-amz-copy-source'];
      const bytes = source === undefined ? body : objects.get(decodeURIComponent(String(source)).replace(/^\//, ''));
      if (bytes === undefined) return fail(404, 'NoSuchKey');
      objects.set(key, bytes);
      const etag = tagOf(bytes);
      return send(200, source === undefined ? '' : `<CopyObjectResult><ETag>${etag}</ETag></CopyObjectResult>`, {
        etag,
      });
    }
    if (method === 'DELETE') {
      objects.delete(key);
      return send(204, '');
    }
    if (searchParams.has('list-type')) return send(200, list(objects, key.replace(/\/$/, ''), searchParams));
    if (found === undefined) return fail(404, 'NoSuchKey');
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    const bytes = from === undefined ? found : found.subarray(Number(from), Number(to) + 1);
    response.writeHead(from === undefined ? 200 : 206, { etag: tagOf(found), 'content-length': bytes.length });
    response.end(method === 'HEAD' ? undefined : bytes);
  };
  const { url, close } = await serveHttp(answer);
  return {
    env: {
      AWS_ENDPOINT_URL_S3: url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      FLOWDROP_S3_PATH_STYLE: 'true',
    },
    keys: objects,
    asked,
    close,
  };
}

function tagOf(bytes: Buffer): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

function list(objects: ReadonlyMap<string, Buffer>, bucket: string, asked: URLSearchParams): string {
  const prefix = asked.get('prefix') ?? '';
  const keys = [...objects.keys()].map((key) => key.slice(bucket.length + 1)).sort();
  const below = keys.filter((key) => key.startsWith(prefix) && key > (asked.get('start-after') ?? ''));
  const folderOf = (key: string) => {
    const end = asked.get('delimiter') === '/' ? key.indexOf('/', prefix.length) : -1;
    return end < 0 ? undefined : key.slice(0, end + 1);
  };
  const folders = new Set(below.flatMap((key) => folderOf(key) ?? []));
  const entries = below.filter((key) => folderOf(key) === undefined);
  const listed = entries.map((key) => {
    const bytes = objects.get(`${bucket}/${key}`) ?? Buffer.from('');
    return `<Contents><Key>${key}</Key><LastModified>${new Date().toISOString()}</LastModified><ETag>${tagOf(bytes)}</ETag><Size>${bytes.length}</Size></Contents>`;
  });
  const common = [...folders].map((folder) => `<CommonPrefixes><Prefix>${folder}</Prefix></CommonPrefixes>`);
  return `<ListBucketResult><Name>${bucket}</Name><Prefix>${prefix}</Prefix><KeyCount>${listed.length + common.length}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>${listed.join('')}${common.join('')}</ListBucketResult>`;
}
