/**
 * The webhook against a real HTTP server: what is sent and how it is signed, what is tried again and what is not, and that
 * nothing secret is told. When it is called, and with which document: `test/alert/alerts.slow.test.ts`.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isFault } from '../../src/core/errors.ts';
import { createWebhook } from '../../src/mail/webhook.ts';
import { createFakeClock, FAKE_START, type FakeClock } from '../support/fake-clock.ts';
import { findFreePort } from '../support/server-process.ts';
import { answerWith, startWebhookReceiver, WEBHOOK_SECRET, type WebhookReceiver } from './webhook-receiver.ts';

const DOCUMENT = { id: '0123456789abcdef', version: 1 };
const PATH = '/services/T000/B000/secret-token?thread=9';
/** Tries in all. */
const TRIES = 4;

let receiver: WebhookReceiver;
beforeAll(async () => {
  receiver = await startWebhookReceiver();
});
afterAll(async () => await receiver.close());

let clock: FakeClock;
let before: number;
beforeEach(() => {
  clock = createFakeClock();
  before = receiver.posts.length;
});
const posts = () => receiver.posts.slice(before);

const open = (changes: { readonly url?: string; readonly secret?: string; readonly timeoutMs?: number } = {}) =>
  createWebhook({ use: 'alert', url: `${receiver.url}${PATH}`, secret: WEBHOOK_SECRET, ...changes }, clock);

async function fails(action: Promise<unknown>, code = 'WEBHOOK_FAILED') {
  const error = await action.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!isFault(error)) throw new Error(`no fault but ${String(error)}`);
  expect(error.code).toBe(code);
  return { message: error.message, hint: error.hint ?? '' };
}

describe('a post to the webhook', () => {
  it('is one JSON document, signed with its time', async () => {
    const document = { ...DOCUMENT, text: 'größe ▲' };
    await open().post(document);
    expect(posts()).toHaveLength(1);
    const [post] = posts();
    expect(post).toMatchObject({ path: PATH, isSigned: true });
    expect(JSON.parse(post?.body ?? '')).toEqual(document);
    expect(post?.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(post?.headers['x-flowdrop-timestamp']).toBe(String(FAKE_START / 1000));
  });

  it('with another secret is not taken for one of ours', async () => {
    await open({ secret: 'another' }).post(DOCUMENT);
    expect(posts()[0]?.isSigned).toBe(false);
  });

  it('has no signature without a secret', async () => {
    await createWebhook({ use: 'alert', url: receiver.url }, clock).post(DOCUMENT);
    expect(posts()[0]?.headers).not.toHaveProperty('x-flowdrop-signature');
  });

  it.each([500, 503, 408, 429])(
    'that is answered %d is tried again, later each time, signed anew and under the same key',
    async (status) => {
      receiver.answers.push(answerWith(status), answerWith(status), answerWith(status));
      await open().post(DOCUMENT);
      expect(posts()).toHaveLength(TRIES);
      expect(posts().every(({ isSigned }) => isSigned)).toBe(true);
      expect(posts().map(({ headers }) => headers['idempotency-key'])).toEqual(Array(TRIES).fill(DOCUMENT.id));
      expect(new Set(posts().map(({ headers }) => headers['x-flowdrop-timestamp'])).size).toBeGreaterThan(1);
      expect(clock.slept).toHaveLength(TRIES - 1);
      for (const [at, longest] of [1000, 2000, 4000].entries()) {
        expect(clock.slept[at]).toBeGreaterThanOrEqual(longest / 2);
        expect(clock.slept[at]).toBeLessThanOrEqual(longest);
      }
    },
  );

  it('waits as long as the server says, up to half a minute', async () => {
    receiver.answers.push(answerWith(429, { 'retry-after': '7' }), answerWith(429, { 'retry-after': '86400' }));
    await open().post(DOCUMENT);
    expect(clock.slept).toEqual([7000, 30_000]);
  });

  it('is given up after a bounded number of tries, with the answer in the error', async () => {
    receiver.answers.push(...Array.from({ length: TRIES }, () => answerWith(502, {}, 'upstream is down')));
    const { message, hint } = await fails(open().post(DOCUMENT));
    expect(posts()).toHaveLength(TRIES);
    expect(message).toContain(`(${TRIES} tries): HTTP 502: "upstream is down"`);
    expect(hint).toContain('next run');
  });

  it.each([400, 401, 404, 410])('that is answered %d is not tried again', async (status) => {
    receiver.answers.push(answerWith(status, {}, 'no'));
    expect((await fails(open().post(DOCUMENT), 'WEBHOOK_REFUSED')).hint).toContain('FLOWDROP_ALERT_WEBHOOK_URL');
    expect(posts()).toHaveLength(1);
    expect(clock.slept).toEqual([]);
  });

  it('follows no redirect, so the document goes nowhere else', async () => {
    const elsewhere = await startWebhookReceiver();
    try {
      receiver.answers.push(answerWith(307, { location: `${elsewhere.url}/collect` }));
      expect((await fails(open().post(DOCUMENT), 'WEBHOOK_REFUSED')).hint).toContain('Redirects are not followed');
      expect(elsewhere.posts).toEqual([]);
      expect(posts()).toHaveLength(1);
    } finally {
      await elsewhere.close();
    }
  });

  it('to a server that never answers ends by its time-out', async () => {
    receiver.answers.push(...Array.from({ length: TRIES }, () => () => {}));
    expect((await fails(open({ timeoutMs: 50 }).post(DOCUMENT))).message).toContain('no answer in time');
    expect(posts()).toHaveLength(TRIES);
  });

  it('whose refusal never comes to its end is judged by what has come', async () => {
    receiver.answers.push((response) => void response.writeHead(400).write('x'.repeat(5000)));
    const { message } = await fails(open().post(DOCUMENT), 'WEBHOOK_REFUSED');
    expect(message).toContain('HTTP 400: "xxx');
    expect(message.length).toBeLessThan(400);
  });

  it('whose connection breaks is tried again', async () => {
    receiver.answers.push((response) => void response.socket?.destroy());
    await open().post(DOCUMENT);
    expect(posts()).toHaveLength(2);
  });

  it('to a closed port fails, and tells host and port only', async () => {
    const port = await findFreePort();
    const { message } = await fails(open({ url: `http://127.0.0.1:${port}${PATH}` }).post(DOCUMENT));
    expect(message).toContain(`http://127.0.0.1:${port} did not accept the alert`);
    expect(message).not.toContain('secret-token');
    expect(clock.slept).toHaveLength(TRIES - 1);
  });

  it('shows neither the path nor the secret, even when the server repeats them', async () => {
    receiver.answers.push(answerWith(403, {}, `bad ${PATH} ${WEBHOOK_SECRET}`));
    const { message } = await fails(open().post(DOCUMENT), 'WEBHOOK_REFUSED');
    expect(message).toContain('bad [secret] [secret]');
    expect(open().url).toBe(receiver.url);
  });

  it('stops when the run is stopped', async () => {
    const controller = new AbortController();
    receiver.answers.push((response) => {
      controller.abort();
      answerWith(503)(response);
    });
    await expect(open().post(DOCUMENT, controller.signal)).rejects.toMatchObject({ code: 'INTERRUPTED' });
    expect(posts()).toHaveLength(1);
  });
});
