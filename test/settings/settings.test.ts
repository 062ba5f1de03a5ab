/** What is said of the settings: all that the code reads are known, misspelt ones are told, and no secret is shown. */
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { listSecrets } from '../../src/settings/setting-list.ts';
import { readCalendar, readStatusSettings, reportSettings } from '../../src/settings/settings.ts';
import { useCleanups } from '../support/cleanups.ts';
import { REPO } from '../support/flowdrop.ts';

const { folder } = useCleanups();
let cwd: string;
beforeAll(async () => {
  cwd = await folder();
});

describe('the report of the settings', () => {
  it('knows every one that the code reads', () => {
    const sources = ['settings/settings.ts', 'settings/setting-list.ts', 'openers.ts']
      .map((file) => readFileSync(join(REPO, 'src', file), 'utf8'))
      .join();
    const read = new Set([...sources.matchAll(/FLOWDROP_[A-Z0-9_]+/g)].map(([name]) => name));
    expect(read.size).toBeGreaterThan(12);
    expect(reportSettings(Object.fromEntries([...read].map((name) => [name, ''])), cwd)).toEqual({
      set: [],
      unknown: [],
      faults: [],
    });
  });

  it('shows what is no secret, and of a secret only that it is there', async () => {
    await writeFile(join(cwd, 'key'), 'cus_secret_4711');
    const report = reportSettings(
      {
        FLOWDROP_API_URL: 'https://user:hidden@api.example.com',
        FLOWDROP_STATE_DIR: '/var/lib/flowdrop',
        FLOWDROP_API_KEY_FILE: 'key',
        FLOWDROP_SMTP_URL: 'smtps://user:hidden@mail.example.com',
        AWS_SECRET_ACCESS_KEY: 'hidden',
      },
      cwd,
    );
    expect(report.set).toEqual([
      'FLOWDROP_API_URL',
      'FLOWDROP_API_KEY (from a file)',
      'FLOWDROP_STATE_DIR=/var/lib/flowdrop',
      'FLOWDROP_SMTP_URL',
      'AWS_SECRET_ACCESS_KEY',
    ]);
    expect(JSON.stringify(report)).not.toMatch(/hidden|cus_secret/);
  });

  it.each([
    ['FLOWDROP_API_KEYFILE', 'FLOWDROP_API_KEY_FILE'],
    ['FLOWDROP_STATEDIR', 'FLOWDROP_STATE_DIR'],
    ['FLOWDROP_BANANA', undefined],
  ])('takes %s for %s', (name, meant) => {
    expect(reportSettings({ [name]: 'x' }, cwd).unknown).toEqual([{ name, meant }]);
  });

  it('has a fault for each value that means nothing', () => {
    const env = {
      FLOWDROP_REDIS_URL_FILE: 'nowhere',
      FLOWDROP_SNAPSHOTS_PER_SECOND: '-1',
      FLOWDROP_S3_PATH_STYLE: 'maybe',
      FLOWDROP_LOG_LEVEL: 'loud',
      FLOWDROP_LOG_FORMAT: 'xml',
    };
    const { faults } = reportSettings(env, cwd);
    expect(faults.map(({ message }) => message.split(' ')[0])).toEqual(Object.keys(env));
  });
});

it('a calendar that cannot be read is a fault of the settings', async () => {
  await expect(readCalendar({ FLOWDROP_CALENDAR_FILE: 'nowhere.yaml' }, cwd)).rejects.toMatchObject({
    code: 'SETTING_INVALID',
    kind: 'usage',
    message: expect.stringContaining('nowhere.yaml'),
  });
});

describe('the settings of the status page', () => {
  const token = 'a-token-of-24-characters';

  it.each([
    [undefined, undefined, '127.0.0.1', 8686],
    ['localhost:80', undefined, 'localhost', 80],
    ['[::1]:8686', undefined, '::1', 8686],
    [':8686', token, '', 8686],
    ['[::]:8686', token, '::', 8686],
    ['10.0.0.7:1', token, '10.0.0.7', 1],
  ])('of the address %s and the token %s are "%s" and %i', (address, shown, host, port) => {
    const env = { FLOWDROP_STATUS_ADDRESS: address, FLOWDROP_STATUS_TOKEN: shown };
    expect(readStatusSettings(env, cwd)?.address).toEqual({ host, port });
  });

  it('are none when it is off, whatever the token', () => {
    expect(readStatusSettings({ FLOWDROP_STATUS_ADDRESS: 'off', FLOWDROP_STATUS_TOKEN: 'x' }, cwd)).toBeUndefined();
  });

  it.each([
    [{ FLOWDROP_STATUS_ADDRESS: '8686' }, 'SETTING_INVALID'],
    [{ FLOWDROP_STATUS_ADDRESS: 'localhost:70000' }, 'SETTING_INVALID'],
    [{ FLOWDROP_STATUS_ADDRESS: 'http://localhost:80' }, 'SETTING_INVALID'],
    [{ FLOWDROP_STATUS_ADDRESS: ':8686' }, 'SETTING_MISSING'],
    [{ FLOWDROP_STATUS_ADDRESS: 'example.com:8686' }, 'SETTING_MISSING'],
    [{ FLOWDROP_STATUS_TOKEN: 'short-secret' }, 'SETTING_INVALID'],
    [{ FLOWDROP_STATUS_ACTIONS: 'maybe' }, 'SETTING_INVALID'],
    [{ FLOWDROP_STATUS_TOKEN: 'a secret with some spaces' }, 'SETTING_INVALID'],
  ])('of %j are refused without the token in the message', (env, code) => {
    const { faults } = reportSettings(env, cwd);
    expect(faults.map((fault) => fault.code)).toEqual([code]);
    expect(JSON.stringify(faults.map(({ message, hint }) => [message, hint]))).not.toMatch(/short-secret|a secret/);
  });

  it('have a token that is masked, from its variable or its file', async () => {
    await writeFile(join(cwd, 'token'), `${token}\n`);
    const env = { FLOWDROP_STATUS_TOKEN_FILE: 'token' };
    expect(readStatusSettings(env, cwd)?.token).toBe(token);
    expect(listSecrets(env, cwd)).toContain(token);
  });
});
