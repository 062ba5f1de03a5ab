/** What is said of the settings: all that the code reads are known, misspelt ones are told, and no secret is shown. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NO_OVERRIDE } from '../../src/calendar/session.ts';
import { listSecrets } from '../../src/settings/setting-list.ts';
import { readCalendar, readStatusSettings, reportSettings } from '../../src/settings/settings.ts';
import { REPO } from '../support/flowdrop.ts';

let cwd: string;
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'flowdrop-settings-'));
});
afterAll(async () => await rm(cwd, { recursive: true, force: true }));

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
    const { faults } = reportSettings(
      {
        FLOWDROP_REDIS_URL_FILE: 'nowhere',
        FLOWDROP_SNAPSHOTS_PER_SECOND: '-1',
        FLOWDROP_S3_PATH_STYLE: 'maybe',
        FLOWDROP_LOG_LEVEL: 'loud',
        FLOWDROP_LOG_FORMAT: 'xml',
      },
      cwd,
    );
    expect(faults.map(({ message }) => message.split(' ')[0])).toEqual([
      'FLOWDROP_REDIS_URL_FILE',
      'FLOWDROP_SNAPSHOTS_PER_SECOND',
      'FLOWDROP_S3_PATH_STYLE',
      'FLOWDROP_LOG_LEVEL',
      'FLOWDROP_LOG_FORMAT',
    ]);
  });
});

describe('the calendar', () => {
  it('is that of the rules where no file is named', async () => {
    expect(await readCalendar({}, cwd)).toBe(NO_OVERRIDE);
  });

  it('is read from the file, beside the working directory', async () => {
    await writeFile(join(cwd, 'calendar.yaml'), 'closed: [2027-01-15]\n');
    const { closed } = await readCalendar({ FLOWDROP_CALENDAR_FILE: 'calendar.yaml' }, cwd);
    expect([...closed]).toEqual(['2027-01-15']);
  });

  it('that cannot be read is a fault of the settings', async () => {
    await expect(readCalendar({ FLOWDROP_CALENDAR_FILE: 'nowhere.yaml' }, cwd)).rejects.toMatchObject({
      code: 'SETTING_INVALID',
      kind: 'usage',
      message: expect.stringContaining('nowhere.yaml'),
    });
  });
});

describe('the settings of the status page', () => {
  const token = 'a-token-of-24-characters';

  it.each([
    [{}, { host: '127.0.0.1', port: 8686 }],
    [{ FLOWDROP_STATUS_ADDRESS: 'localhost:80' }, { host: 'localhost', port: 80 }],
    [{ FLOWDROP_STATUS_ADDRESS: '[::1]:8686' }, { host: '::1', port: 8686 }],
    [
      { FLOWDROP_STATUS_ADDRESS: ':8686', FLOWDROP_STATUS_TOKEN: token },
      { host: '', port: 8686 },
    ],
    [
      { FLOWDROP_STATUS_ADDRESS: '[::]:8686', FLOWDROP_STATUS_TOKEN: token },
      { host: '::', port: 8686 },
    ],
    [
      { FLOWDROP_STATUS_ADDRESS: '10.0.0.7:1', FLOWDROP_STATUS_TOKEN: token },
      { host: '10.0.0.7', port: 1 },
    ],
  ])('of %j are an address', (env, address) => {
    expect(readStatusSettings(env, cwd)?.address).toEqual(address);
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
