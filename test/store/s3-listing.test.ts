/**
 * Listings that cannot be: what is not listed counts as absent, and what lies under a prefix is removed, so a listing that
 * has other keys, breaks off, or goes round in a circle is an error. What a real service lists is in `test/contract/store.external.test.ts`.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openS3Store } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { serveHttp } from '../support/http-server.ts';

let server: Awaited<ReturnType<typeof serveHttp>>;
let store: Store;
/** What is answered to every request for a listing. */
let answer = '';
let requests = 0;

beforeAll(async () => {
  process.env['AWS_ACCESS_KEY_ID'] ??= 'key';
  process.env['AWS_SECRET_ACCESS_KEY'] ??= 'secret';
  server = await serveHttp((_request, response) => {
    requests += 1;
    response.writeHead(200, { 'content-type': 'application/xml' });
    response.end(`<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${answer}</ListBucketResult>`);
  });
  const place = { bucket: 'bucket', prefix: 'root', pathStyle: true, region: 'us-east-1' };
  store = await openS3Store({ ...place, endpoint: server.url });
});

afterAll(async () => {
  await store.close();
  await server.close();
});

const list = async (): Promise<readonly string[]> => {
  requests = 0;
  const keys: string[] = [];
  for await (const { key } of store.list('a/')) keys.push(key);
  return keys;
};
const entry = (key: string) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`;
const END = '<IsTruncated>false</IsTruncated>';

it('of what was asked for is a listing', async () => {
  answer = entry('root/a/session=2026-11-19') + END;
  expect(await list()).toEqual(['a/session=2026-11-19']);
});

it.each([
  ['other keys of the store', entry('root/a/1') + entry('root/b/1') + END],
  ['keys of somebody else', entry('others/secret') + END],
  ['keys in another writing', entry('root%2Fa%2Fdate%3D2026-11-19') + END],
  ['a break', `${entry('root/a/1')}<IsTruncated>true</IsTruncated>`],
  ['no end', '<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>'],
])('with %s is none', async (_name, body) => {
  answer = body;
  await expect(list()).rejects.toMatchObject({ name: 'StoreFault', code: 'STORE_FAILED', hint: expect.any(String) });
  expect(requests).toBeLessThanOrEqual(2);
});
