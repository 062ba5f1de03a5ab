/**
 * Events as programs receive them: `flowdrop run`, `backfill` and `alert` in processes of their own, against the real
 * service, a real mail server and a real HTTP receiver that fails, sleeps, or kills the run.
 */
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { CloudEvent } from '../../src/alert/outbox.ts';
import { describeUnsealed } from '../../src/ledger/condition-file.ts';
import { answerWith, WEBHOOK_SECRET } from '../mail/webhook-receiver.ts';
import { readJson, startService, type TestService } from '../support/flowdrop.ts';
import { AS_OF, useToldWorker } from './told-worker.ts';

const DATES = ['2026-11-19', '2026-11-20'] as const;
/** Long enough to be a secret. */
const HOOK_PATH = '/events/token-4711-4711';
const SEALED = DATES.map((date) => `trades/${date}/r1/drop.sealed`);
const REPORTED = expect.stringMatching(/^trades\/2026-11-20\/r1\/nightly\/flow-[0-9a-f]{8}\/report\.sent$/) as string;

/** Called when the mail server has a message. */
let onMail = () => {};
const worker = useToldWorker(
  (url) => ({ FLOWDROP_EVENTS_URL: `${url}${HOOK_PATH}`, FLOWDROP_EVENTS_SECRET: WEBHOOK_SECRET }),
  {
    onRcptTo: (_address, _session, done) => {
      onMail();
      done(null);
    },
  },
);
const { kill, posts, run, runKilled, writeJob } = worker;
/** The same dates with other rows. */
let changed: TestService;
beforeAll(async () => {
  changed = await startService(['--generate', '2', '--generate-rows', '310', '--as-of', AS_OF]);
});
afterAll(async () => await changed.stop());
beforeEach(async () => await writeJob('reports: [{template: flow, to: [desk@example.com]}]'));
afterEach(() => {
  onMail = () => {};
});

const events = () => posts().map(({ body }) => JSON.parse(body) as CloudEvent);
const ids = () => events().map(({ id }) => id);
const readOwed = async () =>
  (JSON.parse((await run(['--json', 'status', 'nightly'])).stdout) as { readonly owed_events: unknown }[])[0]
    ?.owed_events;
const conditionFile = () => join(worker.cwd, 'drops', '_flowdrop', 'trades', 'condition.json');

describe('events', () => {
  it('of sealed dates and of the sent report are posted once, in order, as CloudEvents with the facts of the manifest', async () => {
    const { code, stderr } = await run(['run', 'nightly']);
    expect(code, stderr).toBe(0);
    expect(ids()).toEqual([...SEALED, REPORTED]);
    expect(posts().every(({ isSigned, path }) => isSigned && path === HOOK_PATH)).toBe(true);
    for (const { headers, body } of posts()) {
      expect(headers['content-type']).toBe('application/cloudevents+json; charset=utf-8');
      expect(headers['idempotency-key']).toBe((JSON.parse(body) as CloudEvent).id);
      expect(body).not.toMatch(/desk@example\.com|token-4711|webhook-secret/);
    }
    const [first, , report] = events();
    const store = await readJson<{ id: string }>(join(worker.cwd, 'drops'), '_flowdrop/store.json');
    const manifest = await readJson<{ sealed_at: string; rows: number; files: { size: number }[] }>(
      join(worker.cwd, 'drops'),
      '_flowdrop/trades/session=2026-11-19/manifest.json',
    );
    const object = first?.data['object'];
    const bytes = await readFile(fileURLToPath(String(object)));
    expect(first).toEqual({
      ...{ specversion: '1.0', id: SEALED[0], type: 'drop.sealed', subject: DATES[0] },
      source: `urn:flowdrop:${store.id}:trades`,
      time: manifest.sealed_at,
      datacontenttype: 'application/json',
      data: {
        ...{ job: 'nightly', dataset: 'trades', date: DATES[0], revision: 1, condition: 'available' },
        ...{ rows: manifest.rows, supersedes: null, size: bytes.length, object },
        sha256: createHash('sha256').update(bytes).digest('hex'),
      },
    });
    expect(report?.data).toMatchObject({ report: 'flow', recipients: 1, date: DATES[1], revision: 1 });
    await run(['run', 'nightly']);
    await run(['alert', 'nightly']);
    expect(ids()).toHaveLength(3);
  });

  it('of a restated date and of a lost one are posted once; the job chooses which', async () => {
    await writeJob('events: [drop.restated, date.lost]');
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(ids()).toEqual([]);
    const again = ['backfill', 'nightly', '--all', '--from', DATES[1], '--to', DATES[1]];
    // Revision 2 is already replaced when there is somebody to post it to.
    expect((await run(again, { ...changed.env, FLOWDROP_EVENTS_URL: '' })).code).toBe(0);
    const { code, stderr } = await run(again);
    expect(code, stderr).toBe(0);
    expect(events()).toMatchObject([
      { id: 'trades/2026-11-20/r2/drop.restated', type: 'drop.restated', data: { revision: 2, supersedes: 1 } },
      { id: 'trades/2026-11-20/r3/drop.restated', type: 'drop.restated', data: { revision: 3, supersedes: 2 } },
    ]);
    for (const { data } of events()) {
      const bytes = await readFile(fileURLToPath(String(data['object'])));
      expect(data['sha256']).toBe(createHash('sha256').update(bytes).digest('hex'));
    }
    // A date that another worker has seen before it expired.
    const known = await readJson<object[]>(conditionFile());
    await writeFile(conditionFile(), JSON.stringify([describeUnsealed('2026-11-05', 'pending'), ...known]));
    for (const _ of [1, 2]) await run(['run', 'nightly', '--no-report']);
    expect(events().slice(2)).toMatchObject([
      { id: 'trades/2026-11-05/r0/date.lost', type: 'date.lost', data: { condition: 'expired', date: '2026-11-05' } },
    ]);
  });

  it('of what was sealed while the job wanted none are not posted', async () => {
    await writeJob('events: []');
    expect((await run(['run', 'nightly'])).code).toBe(0);
    await writeJob('');
    for (const _ of [1, 2]) await run(['run', 'nightly']);
    expect(ids()).toEqual([]);
    await run(['backfill', 'nightly', '--all', '--from', DATES[0], '--to', DATES[0]], changed.env);
    expect(ids()).toEqual(['trades/2026-11-19/r2/drop.restated']);
    // A report by hand is an event like that of a run.
    await writeJob('reports: [{template: flow, to: [desk@example.com]}]');
    expect((await run(['report', 'nightly'])).code).toBe(0);
    expect(ids().slice(1)).toEqual([REPORTED]);
  });

  it('are owed while the receiver is down, and arrive once it has slept, failed and recovered, with the same bytes', async () => {
    const { code, stderr } = await run(['run', 'nightly'], { FLOWDROP_EVENTS_URL: `http://127.0.0.1:1${HOOK_PATH}` });
    expect(code, stderr).toBe(0);
    // The others wait behind the first.
    expect(stderr.match(/event-unsent/g)).toHaveLength(1);
    expect(stderr).not.toContain('token-4711');
    const status = await run(['status', 'nightly']);
    expect(status.stdout).toMatch(/^not posted: 3 events, the oldest \d+ (?:s|min|h|days) ago: .*127\.0\.0\.1:1/m);
    expect(status.stdout).toContain('`flowdrop alert nightly`');
    expect(status.stdout).not.toContain('token-4711');
    worker.receiver.answers.push((response) => setTimeout(() => response.destroy(), 500).unref(), answerWith(500));
    expect((await run(['alert', 'nightly'])).stdout).toBe('Posted events: 3\n');
    expect(ids()).toEqual([SEALED[0], SEALED[0], ...SEALED, REPORTED]);
    expect(new Set(posts().map(({ body }) => body)).size).toBe(3);
    await run(['alert', 'nightly']);
    expect(posts()).toHaveLength(5);
  });

  it('that the receiver refuses do not hold back the others', async () => {
    worker.receiver.answers.push(answerWith(422, {}, `${HOOK_PATH} ${WEBHOOK_SECRET}`));
    const { stderr } = await run(['run', 'nightly']);
    expect(stderr).toContain('HTTP 422');
    for (const secret of [HOOK_PATH, WEBHOOK_SECRET]) expect(stderr).not.toContain(secret);
    expect(ids()).toEqual([...SEALED, REPORTED]);
    await run(['run', 'nightly']);
    expect(ids().slice(3)).toEqual([SEALED[0]]);
  });

  it('of a run that was killed between the seal and the event are posted by the next one', async () => {
    onMail = kill;
    await runKilled(['run', 'nightly']);
    onMail = () => {};
    expect(ids()).toEqual([]);
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(ids()).toEqual([...SEALED, REPORTED]);
  });

  it('that left a run before it was killed are repeated under the same id', async () => {
    worker.receiver.answers.push(kill);
    await runKilled(['run', 'nightly']);
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(ids()).toEqual([SEALED[0], ...SEALED, REPORTED]);
    expect(posts()[1]?.body).toBe(posts()[0]?.body);
  });

  it('of two machines on one store have the same ids and sources', async () => {
    const second = join(worker.cwd, 'second-state');
    const runs = [run(['run', 'nightly']), run(['run', 'nightly'], { FLOWDROP_STATE_DIR: second })];
    for (const { code, stderr } of await Promise.all(runs)) expect(code, stderr).toBe(0);
    await run(['run', 'nightly']);
    const seen = events();
    expect(new Set(seen.map(({ id }) => id)).size).toBe(3);
    expect(new Set(seen.map(({ source }) => source)).size).toBe(1);
    expect(seen.map(({ id }) => id)).toEqual(expect.arrayContaining([...SEALED, REPORTED]));
  });
});

describe('the summary of a report', () => {
  /** Job file with a report that is posted there, in its own words. */
  const writePosted = async (post: string, rest = '') =>
    await writeJob(
      `reports: [{template: flow, to: [desk@example.com], subject: "Desk {date}", post: "${post}"}]\n${rest}`,
    );
  const POSTED = expect.stringMatching(/^trades\/2026-11-20\/r1\/nightly\/flow-[0-9a-f]{8}\/report\.posted$/) as string;
  const PUBLIC = { FLOWDROP_PUBLIC_URL: 'https://flow.example.com' };
  const NO_EVENTS_URL = { FLOWDROP_EVENTS_URL: '' };

  it('is posted once to its own address, with its numbers, link and picture, and not what was mailed before', async () => {
    // Mailed before anybody wanted its summary.
    expect((await run(['run', 'nightly'], NO_EVENTS_URL)).code).toBe(0);
    await writePosted(`${worker.receiver.url}/desk`);
    const again = ['backfill', 'nightly', '--all', '--from', DATES[1], '--to', DATES[1]];
    expect((await run(again, { ...changed.env, ...NO_EVENTS_URL })).code).toBe(0);
    const { code, stderr } = await run(['report', 'nightly'], { ...PUBLIC, ...NO_EVENTS_URL });
    expect(code, stderr).toBe(0);
    expect(posts().map(({ path, isSigned }) => [path, isSigned])).toEqual([['/desk', true]]);
    const [event] = events();
    const { numbers, picture, ...data } = event?.data ?? {};
    expect(event).toMatchObject({ type: 'report.posted', subject: DATES[1] });
    expect(event?.id).toMatch(/^trades\/2026-11-20\/r2\/nightly\/flow-[0-9a-f]{8}\/report\.posted$/);
    expect(data).toEqual({
      ...{ job: 'nightly', dataset: 'trades', date: DATES[1], revision: 2, condition: 'available', report: 'flow' },
      subject: 'Correction: Desk 2026-11-20',
      text: expect.stringMatching(
        /^Correction: Desk 2026-11-20\n[\s\S]*per 1% move, partial: traded contracts only; [+−]\$[\d.]+[KMB]? after expiration\.$/,
      ),
      link: expect.stringMatching(/^https:\/\/flow\.example\.com\/reports\/nightly\/2026-11-20\/flow-[0-9a-f]{8}\/2$/),
      page: expect.stringMatching(/^file:\/\/\/.*\/_flowdrop\/reports\/nightly\/.*\/report\.html$/),
    });
    expect(numbers).toMatchObject({ trades: { premium: { label: 'Premium', text: expect.stringMatching(/^\$/) } } });
    const { base64 } = picture as { readonly base64: string };
    expect(Buffer.from(base64, 'base64').subarray(1, 4).toString()).toBe('PNG');
    expect(base64.length).toBeLessThan(24_001);
    expect(posts()[0]?.body).not.toMatch(/desk@example\.com|webhook-secret/);
    await run(['alert', 'nightly'], NO_EVENTS_URL);
    expect(posts()).toHaveLength(1);
  });

  it('is owed while its receiver is down, hangs up or fails, beside events that get through, and arrives with the same bytes', async () => {
    await writePosted(`http://127.0.0.1:1/desk`);
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(ids()).toEqual([...SEALED, REPORTED]);
    expect(await readOwed()).toMatchObject({ count: 1, reason: expect.stringContaining('127.0.0.1:1') });
    await writePosted(`${worker.receiver.url}/desk`);
    worker.receiver.answers.push((response) => response.destroy(), answerWith(500));
    expect((await run(['alert', 'nightly'])).stdout).toContain('Posted events: 1');
    expect(ids().slice(3)).toEqual([POSTED, POSTED, POSTED]);
    const [, , , ...summaries] = posts();
    expect(new Set(summaries.map(({ body }) => body)).size).toBe(1);
    expect(await readOwed()).toBeNull();
  });

  it('is owed if it is refused, or if the run is killed while it posts; one that nobody wants any more is dropped', async () => {
    await writePosted('events', 'events: []');
    worker.receiver.answers.push(answerWith(422));
    expect((await run(['run', 'nightly'])).code).toBe(0);
    expect(ids()).toEqual([POSTED]);
    worker.receiver.answers.push(kill);
    await runKilled(['alert', 'nightly']);
    worker.receiver.answers.push(answerWith(422));
    expect((await run(['alert', 'nightly'])).stdout).toMatch(/^Not posted: 1: .*HTTP 422/m);
    expect(new Set(posts().map(({ body }) => body)).size).toBe(1);
    expect(posts()).toHaveLength(3);
    expect(await readOwed()).toMatchObject({ count: 1, reason: expect.stringContaining('HTTP 422') });
    await writeJob('events: []\nreports: [{template: flow, to: [desk@example.com]}]');
    expect(await readOwed()).toBeNull();
  });
});
