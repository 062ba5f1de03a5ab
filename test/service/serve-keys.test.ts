/**
 * A change of the key file as callers see it over HTTP, on a service that goes on. What the file may say, and how it is
 * looked at, is in `key-file.test.ts`; which product a key is let in to, in `contract/api.test.ts`.
 */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { hashKey } from '../../src/service/access/key-file.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { postJson, startTestService, type TestService } from './running-service.ts';

const [KEPT, CHANGED] = ['cus_kept', 'apikey_changed'];
const TRIAL_ROW_LIMIT = 5;

let file: string;
let remove: () => Promise<void>;
let service: TestService;

beforeAll(async () => {
  const folder = await makeFolder();
  remove = folder.remove;
  file = join(folder.path, 'keys.yaml');
  await writeKeys({ [KEPT]: 'active' });
  service = await startTestService({
    keys: [],
    keyFile: file,
    generateSessions: 1,
    generateRows: 100,
    trialRowLimit: TRIAL_ROW_LIMIT,
    concurrency: 1,
  });
});
afterAll(async () => {
  await service?.stop();
  await remove();
});

/** Exchanges the file by a rename, as an operator's tool does. */
async function writeKeys(keys: Readonly<Record<string, string>>): Promise<void> {
  const entries = Object.entries(keys).map(([key, entitlement]) => ({
    name: key.slice(key.indexOf('_') + 1),
    hash: `sha256:${hashKey(key).toString('hex')}`,
    entitlement,
  }));
  await writeFile(`${file}.new`, JSON.stringify({ keys: entries }));
  await rename(`${file}.new`, file);
}

const ask = (key: string, sql = 'SELECT 1 AS one') => service.send(HISTORICAL_PATH, postJson({ api_key: key, sql }));

/** Asks until the service has looked at the file, which it does once a second of its own clock. */
async function untilStatus(key: string, status: number): Promise<void> {
  const look = async () => {
    service.advance(1_000);
    expect((await ask(key)).status).toBe(status);
  };
  await vi.waitFor(look, { timeout: 10_000, interval: 10 });
}

test('a key that is added is let in, changed has its new rights, and removed is refused; others go on', async () => {
  expect([(await ask(KEPT)).status, (await ask(CHANGED)).status]).toEqual([200, 401]);

  await writeKeys({ [KEPT]: 'active', [CHANGED]: 'active' });
  await untilStatus(CHANGED, 200);
  expect((await ask(CHANGED)).body.meta).toMatchObject({ entitlement: 'active', capped: false });

  await writeKeys({ [KEPT]: 'active', [CHANGED]: 'none' });
  await untilStatus(CHANGED, 403);
  expect((await ask(CHANGED)).body.errorCode).toBe('SUBSCRIPTION_REQUIRED');

  await writeKeys({ [KEPT]: 'active', [CHANGED]: 'trialing' });
  await untilStatus(CHANGED, 200);
  const capped = await ask(CHANGED, 'SELECT id FROM RawOptionTradesMaxDateOnlyMV');
  expect(capped.body.data).toHaveLength(TRIAL_ROW_LIMIT);
  expect(capped.body.meta).toMatchObject({
    entitlement: 'trialing',
    capped: true,
    row_limit: TRIAL_ROW_LIMIT,
    truncated: true,
  });

  await writeKeys({ [KEPT]: 'active' });
  await untilStatus(CHANGED, 401);
  expect((await ask(CHANGED)).body.errorCode).toBe('UNAUTHORIZED');
  expect((await ask(KEPT)).body.meta).toMatchObject({ entitlement: 'active', capped: false });
});

test('wrong keys of one address are slowed down after ten, and a right key is not', async () => {
  await writeKeys({ [KEPT]: 'active' });
  await untilStatus(KEPT, 200);
  service.advance(60_000);
  const guess = async () => (await ask('cus_guessed')).status;
  const seen: number[] = [];
  for (let tries = 0; tries < 12; tries += 1) seen.push(await guess());
  expect(seen).toEqual([...Array.from({ length: 10 }, () => 401), 429, 429]);
  expect((await ask('cus_guessed')).headers.get('retry-after')).toBe('1');
  service.advance(1_000);
  expect([await guess(), await guess()]).toEqual([401, 429]);
  service.advance(1_000);
  expect((await ask(KEPT)).status).toBe(200);
});
