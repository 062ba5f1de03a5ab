/** Presigned links: how long they last, and who signs them. The rest is in `test/contract/store.external.test.ts`. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { Store } from '../../src/store/store.ts';
import { startS3 } from '../support/s3-server.ts';
import { useS3Stores } from '../support/s3-stores.ts';

const { server } = await startS3();
const HOUR_MS = 3_600_000;

// Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
describe.skipIf(server === undefined)('a presigned link', () => {
  const s3 = useS3Stores(server, 'link');
  const linkBy = async (store: Store, seconds: number) => {
    const link = await store.link('day.parquet', seconds);
    if (link === undefined) throw new Error('an S3 store has links');
    return { ...link, url: new URL(link.url) };
  };
  const ask = async (url: URL) => {
    const answer = await fetch(url);
    return { status: answer.status, body: await answer.text() };
  };

  beforeEach(async () => {
    await (await s3.open()).put('day.parquet', { bytes: Buffer.from('the day') });
  });
  afterEach(() => void vi.unstubAllEnvs());

  test('says when it ends, to the second, and has no secret key in it', async () => {
    const clock = { now: () => Date.parse('2026-11-19T22:31:07.900Z'), sleep: systemClock.sleep };
    const fixed = await s3.open({}, { clock });
    const { url, expiresAt } = await linkBy(fixed, 7 * 86_400);
    expect(expiresAt.toISOString()).toBe('2026-11-26T22:31:07.000Z');
    expect(url.searchParams.get('X-Amz-Date')).toBe('20261119T223107Z');
    expect(url.searchParams.get('X-Amz-Expires')).toBe('604800');
    expect(url.href).not.toContain(server?.secretAccessKey);
  });

  test('is refused by the service once it has ended', async () => {
    const clock = { now: () => systemClock.now() - HOUR_MS, sleep: systemClock.sleep };
    const anHourAgo = await s3.open({}, { clock });
    const live = await linkBy(anHourAgo, 7200);
    const ended = await linkBy(anHourAgo, 60);
    expect(await ask(live.url)).toEqual({ status: 200, body: 'the day' });
    const refused = await ask(ended.url);
    expect(refused.status).toBe(403);
    expect(refused.body).not.toContain('the day');
  });

  test('ends with the session that signed it, where that says when it ends', async () => {
    const end = new Date(Math.floor(systemClock.now() / 1000) * 1000 + HOUR_MS);
    vi.stubEnv('AWS_SESSION_TOKEN', 'session');
    vi.stubEnv('AWS_CREDENTIAL_EXPIRATION', end.toISOString());
    const session = await s3.open();
    const { expiresAt, url } = await linkBy(session, 7 * 86_400);
    const shorter = await linkBy(session, 60);
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
    const poor = await s3.open();
    await expect(poor.link('day.parquet', 60)).rejects.toMatchObject({
      code: 'STORE_FAILED',
      hint: expect.stringContaining('AWS_ACCESS_KEY_ID'),
    });
  });
});
