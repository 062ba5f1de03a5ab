/**
 * Secrets in what runs leave behind, failing ones and their archive: real servers repeat what they were sent, and everything that can be read
 * afterwards is searched for every secret, as it is, percent-encoded and in base64.
 */
import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createRedactor, isSecretKey, maskByKey } from '../../src/core/redact.ts';
import { buildReply, type SmtpReceiver, startSmtpReceiver } from '../mail/smtp-receiver.ts';
import { answerWith, startWebhookReceiver, type WebhookReceiver } from '../mail/webhook-receiver.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, listFiles, startService } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { pickNewest } from '../support/store-keys.ts';

const SECRETS = {
  key: 'cus_api+key/0815=',
  smtp: 'smtp pa:ss/w@rd',
  aws: 'aws/secret+access/key0123456789',
  session: 'session+token/0123456789==',
  redis: 'redis&pass#word',
  hook: '/services/T0000/B0000/token-4711-4711',
  hookSecret: 'webhook-secret-0815',
  clickhouse: "clickhouse'pass word",
} as const;

/** Every way in which the servers below repeat a secret, and `Authorization` headers carry one. */
function listForms(secret: string): readonly string[] {
  const percent = encodeURIComponent(secret);
  const base64 = (value: string) => Buffer.from(value).toString('base64');
  const lower = percent.replace(/%../g, (code) => code.toLowerCase());
  return [secret, percent, lower, base64(secret), base64(secret).replace(/=+$/, '')];
}

let api: Awaited<ReturnType<typeof serveHttp>>;
let smtp: SmtpReceiver;
let receiver: WebhookReceiver;
/** What every HTTP server here answers: all that it was sent, and all that it could know. */
beforeAll(async () => {
  const parrot = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request);
    // Of the address of Redis only those runs know that have one.
    const { redis: _, ...known } = SECRETS;
    const said = [...Object.values(known).flatMap(listForms), JSON.stringify(request.headers), request.url, body];
    const isS3 = request.url?.startsWith('/bucket') ?? false;
    const status = isS3 ? 400 : 401;
    const xml = `<?xml version="1.0"?><Error><Code>InvalidToken</Code><Message>${said.join(' ').replace(/[<>&]/g, '')}</Message></Error>`;
    response.writeHead(status, { 'content-type': isS3 ? 'application/xml' : 'application/json' });
    response.end(isS3 ? xml : JSON.stringify({ error: { code: 'UNAUTHORIZED', message: said.join(' ') }, said }));
  };
  api = await serveHttp(parrot);
  [smtp, receiver] = await Promise.all([
    startSmtpReceiver({
      authOptional: false,
      onAuth: ({ username, password }, _session, done) => {
        const plain = Buffer.from(`\0${username}\0${password}`).toString('base64');
        done(buildReply(535, `AUTH PLAIN ${plain} ${password} ${Buffer.from(password ?? '').toString('base64')}`));
      },
    }),
    startWebhookReceiver(),
  ]);
});
afterAll(async () => {
  await Promise.all([api.close(), smtp.close(), receiver.close()]);
});

const { folder } = useCleanups();
let cwd: string;
beforeEach(async () => {
  cwd = await folder();
  await mkdir(join(cwd, 'jobs'));
});

const writeJob = async (source: string, to: string) =>
  await writeFile(
    join(cwd, 'jobs', 'nightly.yaml'),
    `name: nightly\nsource: ${source}\ndrop: {to: "${to}", dataset: trades}\nalerts: {to: [ops@example.com]}\n`,
  );

const clickhouseUrl = () => `http://me:${encodeURIComponent(SECRETS.clickhouse)}@127.0.0.1:${new URL(api.url).port}/db`;

/** Runs it with every secret set, and gives all that it has left behind. */
async function leave(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const posts = receiver.posts.length;
  const mails = smtp.messages.length;
  // The first post is refused by an answer that repeats the address and the secret.
  receiver.answers.push(answerWith(403, {}, `${SECRETS.hook} ${SECRETS.hookSecret}`));
  const { code, stdout, stderr } = await flowdrop(args, {
    cwd,
    env: {
      FLOWDROP_API_URL: api.url,
      FLOWDROP_API_KEY: SECRETS.key,
      FLOWDROP_CLOCK: 'source',
      FLOWDROP_SMTP_URL: `smtp://me:${encodeURIComponent(SECRETS.smtp)}@127.0.0.1:${smtp.port}?tls=none`,
      FLOWDROP_MAIL_RETRY_SECONDS: '0',
      FLOWDROP_ALERT_WEBHOOK_URL: `${receiver.url}${SECRETS.hook}`,
      FLOWDROP_ALERT_WEBHOOK_SECRET: SECRETS.hookSecret,
      FLOWDROP_CLICKHOUSE_URL: clickhouseUrl(),
      FLOWDROP_LOG_LEVEL: 'debug',
      AWS_ENDPOINT_URL_S3: api.url,
      AWS_REGION: 'us-east-1',
      FLOWDROP_S3_PATH_STYLE: 'true',
      AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE',
      AWS_SECRET_ACCESS_KEY: SECRETS.aws,
      AWS_SESSION_TOKEN: SECRETS.session,
      ...env,
    },
  });
  const files = (await listFiles(cwd)).filter((name) => !name.includes('engine'));
  const texts = await Promise.all(files.map((name) => readFile(join(cwd, name), 'utf8')));
  const bodies = receiver.posts.slice(posts).map(({ body }) => body);
  const mailed = smtp.messages.slice(mails).map(({ source }) => source.toString());
  return { code, stdout, stderr, files, all: [stdout, stderr, ...texts, ...bodies, ...mailed].join('\n') };
}

function findLeaks(all: string): readonly string[] {
  return Object.entries(SECRETS).flatMap(([name, secret]) =>
    listForms(secret).some((form) => all.includes(form)) ? [name] : [],
  );
}

describe('what a failing command leaves behind has no secret', () => {
  const redisUrl = `redis://:${encodeURIComponent(SECRETS.redis)}@127.0.0.1:1/0`;
  it.each([
    ['a key that is refused by an answer that repeats it', '--json run', {}, 'drops', 'UNAUTHORIZED'],
    ['a store that answers with the headers that it got', '--json run', {}, 's3://bucket/x', 'STORE_FAILED'],
    ['a Redis that cannot be reached', 'run', { FLOWDROP_REDIS_URL: redisUrl }, 'drops', 'PACE_REDIS_FAILED'],
    [
      'an address of Redis that is none',
      '--json run',
      { FLOWDROP_REDIS_URL: `redis//:${SECRETS.redis}@127.0.0.1` },
      'drops',
      'SETTING_INVALID',
    ],
    [
      'a secret file that cannot be read',
      'run',
      { FLOWDROP_API_KEY: '', FLOWDROP_API_KEY_FILE: 'nowhere' },
      'drops',
      'SETTING_INVALID',
    ],
    ['a mail server that repeats the login', 'doctor', {}, 'drops', '535'],
  ] as const)('after %s', async (_what, command, env, to, says) => {
    await writeJob('{api: historical}', to);
    const { all, code } = await leave(['--debug', ...command.split(' '), 'nightly'], env);
    expect(code).not.toBe(0);
    expect(all).toContain(says);
    if (command !== 'doctor') expect(all).toContain('alert-unsent');
    expect(findLeaks(all)).toEqual([]);
  });

  const SERVE = ['serve', '--port', '0', '--portal-port', '0'];
  it.each([
    ['of a job', ['run', 'nightly'], false],
    ['of a service', SERVE, false],
    ['of a service, whose address is a flag', SERVE, true],
  ] as const)('after a ClickHouse server %s that repeats the login', async (_what, args, isFlag) => {
    await writeJob('{api: clickhouse, table: trades}', 'drops');
    const flag = isFlag ? ['--clickhouse-url', clickhouseUrl()] : [];
    const env: Record<string, string> = isFlag ? { FLOWDROP_CLICKHOUSE_URL: '' } : {};
    const { all, code } = await leave(['--debug', '--json', ...args, ...flag], env);
    expect(code).not.toBe(0);
    expect(all).toContain('UNAUTHORIZED');
    expect(findLeaks(all)).toEqual([]);
  });

  it('after a crash with --debug: a folder lies where a file of the state should be', async () => {
    await writeJob('{api: historical}', 'drops');
    const state = join(cwd, '.flowdrop');
    await mkdir(join(state, 'nightly', 'alerts.json'), { recursive: true });
    const { all, stderr } = await leave(['--debug', 'run', 'nightly']);
    expect(stderr).toMatch(/\n {4}at /);
    expect(findLeaks(all)).toEqual([]);
  });
});

describe('what a run leaves in the archive has no secret', () => {
  it.each([
    ['mails that were written', { FLOWDROP_SMTP_URL: '' }, 0, 'written'],
    ['a mail server that repeats the login', {}, 1, '535'],
  ] as const)('after %s', async (_what, env, code, says) => {
    const service = await startService([
      ...['--generate', '1', '--generate-rows', '300', '--as-of', '2026-11-20T23:00:00Z'],
      ...['--key', SECRETS.key],
    ]);
    try {
      await writeJob('{api: historical}', 'drops');
      await appendFile(join(cwd, 'jobs', 'nightly.yaml'), 'reports: [{template: flow, to: [desk@example.com]}]\n');
      const url = { ...service.env, FLOWDROP_API_KEY: SECRETS.key };
      const left = await leave(['--debug', '--json', 'run', 'nightly'], { ...url, ...env });
      expect(left.code, left.stderr).toBe(code);
      const archived = left.files.filter((name) => name.startsWith(join('drops', '_flowdrop', 'reports')));
      const names = archived.map((name) => name.split('/').at(-1));
      expect(names).toEqual(expect.arrayContaining(['report.html', 'report.eml', 'report.json']));
      const [receipt = ''] = pickNewest(archived);
      expect(await readFile(join(cwd, receipt), 'utf8')).toContain(says);
      expect(left.files.some((name) => name.endsWith('manifest.json'))).toBe(true);
      expect(findLeaks(left.all)).toEqual([]);
    } finally {
      await service.stop();
    }
  });
});

describe('a line of the log', () => {
  it('carries the id of the run, which the block of the failure names', async () => {
    await writeJob('{api: historical}', 's3://bucket/x');
    const { stderr, stdout } = await leave(['--json', 'run', 'nightly'], { FLOWDROP_RUN_ID: 'tick-4711' });
    const lines = stderr.split('\n').filter((line) => line.startsWith('{'));
    expect(lines.length).toBeGreaterThan(1);
    expect(new Set(lines.map((line) => JSON.parse(line).run))).toEqual(new Set(['tick-4711']));
    expect(stderr).toContain('\n  run: tick-4711\n');
    expect(JSON.parse(stdout)).toMatchObject({ run_id: 'tick-4711' });
  });
});

describe('masking', () => {
  it.each(Object.values(SECRETS))('finds %s in every form, also inside a login', (secret) => {
    const redact = createRedactor([secret]);
    for (const form of listForms(secret)) expect(redact(`a ${form} b`)).toMatch(/^a \[secret\]=* b$/);
    for (const user of ['', 'a', 'ab', 'abc']) {
      const masked = redact(Buffer.from(`${user}:${secret}`).toString('base64'));
      // What is left beside the mask is the user, and at most the last two characters.
      const kept = masked.split('[secret]').map((part) => Buffer.from(part, 'base64').toString('latin1'));
      expect(masked).toContain('[secret]');
      expect(kept.at(-1)?.length).toBeLessThanOrEqual(2);
    }
  });

  it.each([
    ['https://me:hidden@host/x', 'https://[secret]@host/x'],
    ['https://host/x?X-Amz-Signature=abc123&x=1', 'https://host/x?X-Amz-Signature=[secret]&x=1'],
    ['got ?api_key=abc&b=2', 'got ?api_key=[secret]&b=2'],
    ['{"authorization":"Bearer abc.def"}', '{"authorization":"[secret]"}'],
    ['Set-Cookie: sid=4711; Path=/', 'Set-Cookie: [secret]'],
    ['sent AUTH PLAIN AG1lAHB3ZA== and', 'sent AUTH PLAIN [secret] and'],
    ['Write smtp://user:password@host:587', 'Write smtp://user:password@host:587'],
    ['the mail to a@example.com was refused', 'the mail to a@example.com was refused'],
  ])('of %s leaves %s', (text, masked) => {
    expect(maskByKey(text)).toBe(masked);
  });

  it('takes fields for secret by their name, and no others', () => {
    const secret = [
      'authorization',
      'api_key',
      'apiKey',
      'X-Api-Key',
      'smtpPassword',
      'clientSecret',
      'token',
      'cookie',
    ];
    const more = ['set-cookie', 'X-Amz-Security-Token', 'secretAccessKey', 'AWS_SESSION_TOKEN'];
    expect([...secret, ...more].filter((key) => !isSecretKey(key))).toEqual([]);
    const plain = ['key', 'keys', 'tokens', 'rows', 'date', 'target', 'x-amz-request-id', 'author', 'monkey'];
    expect(plain.filter(isSecretKey)).toEqual([]);
  });
});
