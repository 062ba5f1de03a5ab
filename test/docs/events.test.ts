/**
 * `docs/events.md`: its relay and its examples run as a reader runs them, between our own webhook and a real HTTP
 * receiver that stands for Airflow, Dagster, Slack or Teams. What runs post, and when: `events.slow.test.ts`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { buildDropEvent, buildLossEvent, type CloudEvent, cloudEventSchema } from '../../src/alert/cloud-event.ts';
import { systemClock } from '../../src/core/clock.ts';
import { EVENT_TYPES } from '../../src/job/job.ts';
import { signManifest } from '../../src/ledger/manifest.ts';
import { createWebhook } from '../../src/mail/webhook.ts';
import { answerWith, startWebhookReceiver, WEBHOOK_SECRET, type WebhookReceiver } from '../mail/webhook-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createDraft } from '../support/manifest.ts';
import { listBlocks, listCodes, listRows, readPage } from '../support/pages.ts';

const PAGE = 'docs/events.md';
const { folder } = useCleanups();
const block = (info: string) => listBlocks(PAGE).find((one) => one.info === `${info} check`)?.text ?? '';
const example = JSON.parse(block('json event')) as CloudEvent;
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

async function startRelay(info: string): Promise<string> {
  const cwd = await folder();
  await writeFile(join(cwd, 'relay.mjs'), block('js relay'));
  await writeFile(join(cwd, 'forward.mjs'), block(info));
  const port = await freePort();
  const at = { AIRFLOW_URL: target.url, DAGSTER_URL: target.url, SLACK_WEBHOOK_URL: `${target.url}/slack` };
  relay = spawn(process.execPath, [join(cwd, 'relay.mjs')], {
    stdio: 'ignore',
    env: {
      ...{ FLOWDROP_EVENTS_SECRET: WEBHOOK_SECRET, RELAY_PORT: String(port), AIRFLOW_TOKEN: 'airflow-token' },
      ...{ ...at, TEAMS_WORKFLOW_URL: `${target.url}/teams` },
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

async function freePort(): Promise<number> {
  const held = await startWebhookReceiver();
  const port = Number(new URL(held.url).port);
  await held.close();
  return port;
}

const open = (url: string, secret = WEBHOOK_SECRET) => createWebhook({ use: 'event', url, secret }, systemClock);

describe('the page of events', () => {
  it('shows the document as it is built', () => {
    const { data } = example;
    const manifest = signManifest({
      ...createDraft({ date: '2026-11-20', rows: Number(data['rows']), sealed_at: example.time }),
      ...{ revision: 1, supersedes: null },
      files: [{ filename: 'trades.parquet', size: Number(data['size']), hash: `sha256:${data['sha256']}` }],
    });
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
      'js airflow',
      '/api/v2/dags/options_flow/dagRuns',
      { dag_run_id: 'trades.2026-11-20.r1.drop.sealed', logical_date: null, conf: example.data },
    ],
    [
      'js dagster',
      '/report_asset_materialization/trades',
      {
        ...{ partition: '2026-11-20', data_version: example.data['sha256'] },
        metadata: { rows: 7_012_345, revision: 1, object: example.data['object'] },
      },
    ],
    ['js slack', '/slack', { text: 'drop.sealed: trades 2026-11-20 is available, 7,012,345 rows' }],
    [
      'js teams',
      '/teams',
      {
        type: 'message',
        attachments: [{ content: { body: [{ text: 'drop.sealed: trades 2026-11-20 is available, 7,012,345 rows' }] } }],
      },
    ],
  ])('posts on what %s understands, once', async (info, path, body) => {
    const url = await startRelay(info);
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

  it('refuses another secret, and leaves an event owed that cannot be posted on; 409 is done', async () => {
    const url = await startRelay('js airflow');
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
