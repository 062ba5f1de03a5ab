/**
 * `docs/events.md`, and `deploy/relay`: the relay runs as a reader runs it, between our own webhook and a real HTTP
 * receiver that stands for Airflow, Dagster, Slack or Teams. What runs post, and when: `events.slow.test.ts`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { buildDropEvent, buildLossEvent, buildReportEvent } from '../../src/alert/events.ts';
import { type CloudEvent, cloudEventSchema } from '../../src/alert/outbox.ts';
import { MAX_PICTURE_BYTES } from '../../src/alert/report-post.ts';
import { systemClock } from '../../src/core/clock.ts';
import { EVENT_TYPES } from '../../src/job/shape.ts';
import { signManifest } from '../../src/ledger/manifest.ts';
import { createWebhook } from '../../src/mail/webhook.ts';
import { answerWith, startWebhookReceiver, WEBHOOK_SECRET, type WebhookReceiver } from '../mail/webhook-receiver.ts';
import { REPO } from '../support/flowdrop.ts';
import { createDraft } from '../support/manifest.ts';
import { listBlocks, listCodes, listRows, readPage } from '../support/pages.ts';
import { findFreePort } from '../support/server-process.ts';

const PAGE = 'docs/events.md';

const block = (info: string) => listBlocks(PAGE).find((one) => one.info === `${info} check`)?.text ?? '';
const example = JSON.parse(block('json event')) as CloudEvent;
const { data } = example;
const manifest = signManifest({
  ...createDraft({ date: '2026-11-20', rows: Number(data['rows']), sealed_at: example.time }),
  ...{ revision: 1, supersedes: null },
  files: [{ filename: 'trades.parquet', size: Number(data['size']), hash: `sha256:${data['sha256']}` }],
});
const origin = {
  ...{ storeId: '0b0f3a52-6f6e-4a6b-9c58-3f0f7f7f2a11', storeUrl: 's3://quant-drops/options' },
  ...{ job: 'nightly', dataset: 'trades' },
};

let target: WebhookReceiver;
beforeAll(async () => {
  target = await startWebhookReceiver();
});
afterAll(async () => await target.close());

let relay: ChildProcess | undefined;
afterEach(() => {
  relay?.kill();
  target.answers.length = 0;
});

async function startRelay(tool: string, token = ''): Promise<string> {
  const port = await findFreePort();
  const at = { AIRFLOW_URL: target.url, DAGSTER_URL: target.url, SLACK_WEBHOOK_URL: `${target.url}/slack` };
  const bot = { SLACK_API_URL: `${target.url}/api`, SLACK_BOT_TOKEN: token, SLACK_CHANNEL_ID: 'C123' };
  relay = spawn(process.execPath, [join(REPO, 'deploy/relay/relay.mjs'), tool], {
    stdio: 'ignore',
    env: {
      ...{ FLOWDROP_EVENTS_SECRET: WEBHOOK_SECRET, RELAY_PORT: String(port), AIRFLOW_TOKEN: 'airflow-token' },
      ...{ ...at, ...bot, TEAMS_WORKFLOW_URL: `${target.url}/teams` },
    },
  });
  const url = `http://127.0.0.1:${port}/`;
  await expect
    .poll(
      async () =>
        await fetch(url).then(
          ({ status }) => status,
          () => 0,
        ),
      { timeout: 10_000 },
    )
    .toBe(413);
  return url;
}

const open = (url: string, secret = WEBHOOK_SECRET) => createWebhook({ use: 'event', url, secret }, systemClock);

describe('the page of events', () => {
  it('shows the document as it is built', () => {
    expect(buildDropEvent(origin, manifest, false)).toEqual(example);
    expect(cloudEventSchema.parse(example)).toEqual(example);
  });

  it('lists exactly the events that there are', () => {
    const listed = listRows(readPage(PAGE)).map(([cell = '']) => listCodes(cell)[0]);
    expect(listed.filter((name) => !name?.startsWith('FLOWDROP_'))).toEqual([...EVENT_TYPES]);
  });
});

describe('the relay', () => {
  it.each([
    [
      'airflow',
      '/api/v2/dags/options_flow/dagRuns',
      { dag_run_id: 'trades.2026-11-20.r1.drop.sealed', logical_date: null, conf: example.data },
    ],
    [
      'dagster',
      '/report_asset_materialization/trades',
      {
        ...{ partition: '2026-11-20', data_version: example.data['sha256'] },
        metadata: { rows: 7_012_345, revision: 1, object: example.data['object'] },
      },
    ],
    ['slack', '/slack', { text: 'drop.sealed: trades 2026-11-20 is available, 7,012,345 rows' }],
    [
      'teams',
      '/teams',
      {
        type: 'message',
        attachments: [
          {
            content: {
              body: [{ inlines: [{ text: 'drop.sealed: trades 2026-11-20 is available, 7,012,345 rows' }] }],
              actions: [],
            },
          },
        ],
      },
    ],
  ])('posts on what %s understands, once', async (tool, path, body) => {
    const url = await startRelay(tool);
    const before = target.posts.length;
    for (const _ of [1, 2]) await open(url).post(example);
    const posts = target.posts.slice(before);
    expect(posts.map((post) => post.path)).toEqual([path]);
    expect(JSON.parse(posts[0]?.body ?? '')).toMatchObject(body);
    // No rows: an event of another shape.
    await open(url).post(buildLossEvent(origin, '2026-11-06', '2026-11-21T05:00:01.000Z'));
    expect(target.posts.slice(before + 1).every((post) => post.body.includes('trades 2026-11-06 is expired'))).toBe(
      true,
    );
  });

  const summary = {
    ...{ subject: 'Flow 2026-11-20', text: 'Flow 2026-11-20\n<!channel> puts & [calls](http://evil.example)' },
    ...{ numbers: {}, link: 'https://flow.example.com/reports/a', page: 's3://quant-drops/report.html' },
    picture: { type: 'image/png', alt: 'Premium', base64: Buffer.alloc(MAX_PICTURE_BYTES, 7).toString('base64') },
  };
  const sentReport = {
    ...{ id: 'flow-1a2b3c4d', template: 'flow' as const, recipients: 1, time: example.time, isCorrection: false },
  };
  const posted = buildReportEvent(origin, manifest, sentReport, summary);

  it('posts the summary of a report to Slack: text with a link, or the picture with it as three calls', async () => {
    const text =
      'Flow 2026-11-20\n&lt;!channel&gt; puts &amp; [calls](http://evil.example)\n<https://flow.example.com/reports/a|Full report>';
    let before = target.posts.length;
    await open(await startRelay('slack')).post(posted);
    expect(JSON.parse(target.posts[before]?.body ?? '')).toEqual({ text });
    relay?.kill();
    before = target.posts.length;
    const upload = { ok: true, upload_url: `${target.url}/upload/1`, file_id: 'F1' };
    const ok = (answer: object) => answerWith(200, {}, JSON.stringify(answer));
    // The first time, the bot is not in the channel: the event stays owed, and is posted again.
    target.answers.push(ok(upload), answerWith(200), ok({ ok: false, error: 'not_in_channel' }));
    target.answers.push(ok(upload), answerWith(200), ok({ ok: true }));
    await open(await startRelay('slack', 'xoxb-bot')).post(posted);
    expect(target.posts).toHaveLength(before + 6);
    const [ask, bytes, share] = target.posts.slice(before + 3);
    expect([ask, bytes, share].map((post) => post?.path)).toEqual([
      ...['/api/files.getUploadURLExternal', '/upload/1', '/api/files.completeUploadExternal'],
    ]);
    expect(Object.fromEntries(new URLSearchParams(ask?.body))).toEqual({
      ...{ filename: 'flow.png', length: String(MAX_PICTURE_BYTES), alt_txt: 'Premium' },
    });
    expect([ask, bytes, share].map((post) => post?.headers.authorization)).toEqual([
      ...['Bearer xoxb-bot', undefined, 'Bearer xoxb-bot'],
    ]);
    expect(bytes?.body).toHaveLength(MAX_PICTURE_BYTES);
    expect(JSON.parse(share?.body ?? '')).toMatchObject({
      ...{ files: [{ id: 'F1' }], channel_id: 'C123', initial_comment: text },
    });
  });

  it('posts the summary of a report to Teams as a card that is small enough, without Markdown', async () => {
    const before = target.posts.length;
    await open(await startRelay('teams')).post(posted);
    const body = target.posts[before]?.body ?? '';
    // The limit of a message to Teams.
    expect(body.length).toBeLessThan(28_000);
    const card = JSON.parse(body).attachments[0].content;
    expect(card.body.map((block: { type: string }) => block.type)).toEqual(['RichTextBlock', 'RichTextBlock', 'Image']);
    expect(card.body[2].url).toBe(`data:image/png;base64,${summary.picture.base64}`);
    expect(card.actions).toMatchObject([{ url: summary.link }]);
  });

  it('refuses another secret, and leaves an event owed that cannot be posted on; 409 is done', async () => {
    const url = await startRelay('airflow');
    const before = target.posts.length;
    await expect(open(url, 'another').post(example)).rejects.toMatchObject({ code: 'WEBHOOK_REFUSED' });
    expect(target.posts).toHaveLength(before);
    target.answers.push(answerWith(503), answerWith(409));
    // The second try of the same post.
    await open(url).post(example);
    expect(target.posts.length - before).toBe(2);
    expect(target.posts.at(-1)?.headers.authorization).toBe('Bearer airflow-token');
  });
});
