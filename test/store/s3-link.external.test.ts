/**
 * Presigned links on a real S3 server: how long they last, and who signs them. That the bytes come is in
 * `test/contract/store.external.test.ts`, and which durations a job may ask for in `test/job/reports.test.ts`.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openS3Store, type S3Surroundings } from '../../src/store/s3.ts';
import type { Store } from '../../src/store/store.ts';
import { startS3, useS3Credentials } from '../support/s3-server.ts';

const { server } = await startS3();
const HOUR_MS = 3_600_000;

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(server === undefined)('a presigned link', () => {
  const prefix = `link/${randomUUID()}`;
  let store: Store;
  const open = (surroundings: S3Surroundings = {}) => {
    if (server === undefined) throw new Error('skipped');
    const { bucket, endpoint, pathStyle, region } = server;
    return openS3Store({ bucket, prefix, endpoint, pathStyle, region }, surroundings);
  };
  const linkTo = async (key: string, seconds: number, from: Store = store) => {
    const link = await from.link(key, seconds);
    if (link === undefined) throw new Error('an S3 store has links');
    return { ...link, url: new URL(link.url) };
  };
  const ask = async (url: URL) => {
    const answer = await fetch(url);
    return { status: answer.status, body: await answer.text() };
  };

  beforeAll(async () => {
    if (server === undefined) return;
    useS3Credentials(server);
    store = await open();
    await store.put('day.parquet', { bytes: Buffer.from('the day') });
  });

  afterAll(async () => {
    await store?.close();
  });

  afterEach(() => {
    vi.unstubAllEnvs();
  });

  test('says when it ends, to the second, and has no secret key in it', async () => {
    const clock = { now: () => Date.parse('2026-11-19T22:31:07.900Z'), sleep: systemClock.sleep };
    const fixed = await open({ clock });
    const { url, expiresAt } = await linkTo('day.parquet', 7 * 86_400, fixed);
    await fixed.close();
    expect(expiresAt.toISOString()).toBe('2026-11-26T22:31:07.000Z');
    expect(url.searchParams.get('X-Amz-Date')).toBe('20261119T223107Z');
    expect(url.searchParams.get('X-Amz-Expires')).toBe('604800');
    expect(url.href).not.toContain(server?.secretAccessKey);
  });

  test('is refused by the service once it has ended', async () => {
    const earlier = (ageMs: number) => ({ now: () => systemClock.now() - ageMs, sleep: systemClock.sleep });
    const anHourAgo = await open({ clock: earlier(HOUR_MS) });
    const live = await linkTo('day.parquet', 7200, anHourAgo);
    const ended = await linkTo('day.parquet', 60, anHourAgo);
    await anHourAgo.close();
    expect(await ask(live.url)).toEqual({ status: 200, body: 'the day' });
    const refused = await ask(ended.url);
    expect(refused.status).toBe(403);
    expect(refused.body).not.toContain('the day');
  });

  test('ends with the session that signed it, where that says when it ends', async () => {
    const end = new Date(Math.floor(systemClock.now() / 1000) * 1000 + HOUR_MS);
    vi.stubEnv('AWS_SESSION_TOKEN', 'session');
    vi.stubEnv('AWS_CREDENTIAL_EXPIRATION', end.toISOString());
    const session = await open();
    const { expiresAt, url } = await linkTo('day.parquet', 7 * 86_400, session);
    const shorter = await linkTo('day.parquet', 60, session);
    await session.close();
    expect(expiresAt).toEqual(end);
    expect(shorter.expiresAt.getTime()).toBeLessThan(end.getTime());
    expect(url.searchParams.get('X-Amz-Security-Token')).toBe('session');
  });

  test('without credentials is a fault that says what is missing', async () => {
    vi.stubEnv('AWS_ACCESS_KEY_ID', '');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', '');
    vi.stubEnv('AWS_CONFIG_FILE', '/nowhere');
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/nowhere');
    vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true');
    const poor = await open();
    await expect(poor.link('day.parquet', 60)).rejects.toMatchObject({
      code: 'STORE_FAILED',
      hint: expect.stringContaining('AWS_ACCESS_KEY_ID'),
    });
    await poor.close();
  });
});
