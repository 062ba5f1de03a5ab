/**
 * Which key a job's requests carry: that of its entry point, or the one that the job names; and that each key has a budget
 * of its own. What a key may do is the service's: `service/serve-keys.test.ts`.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createOpeners, type SqlAccess } from '../../src/openers.ts';
import { makeFolder, REPO } from '../support/flowdrop.ts';
import { serveHttp } from '../support/http-server.ts';
import { createSilentLog } from '../support/log.ts';

/** Keys as they came over the socket. */
const seen: string[] = [];
const server = await serveHttp(async (request, response) => {
  seen.push(((await json(request)) as { api_key: string }).api_key);
  response.setHeader('content-type', 'application/json');
  response.end(
    '{"status":"SUCCESS","data":[],"meta":{"entitlement":"active","row_limit":1,"capped":false,"truncated":false,"lookback_days":15,"minimum_data_delay_minutes":15}}',
  );
});
let folder: Awaited<ReturnType<typeof makeFolder>>;

beforeAll(async () => {
  folder = await makeFolder();
});
afterAll(async () => {
  await server.close();
  await folder.remove();
});

/** Asks once. @returns the key of the request */
async function askWith(env: Readonly<Record<string, string>>, access: SqlAccess): Promise<string | undefined> {
  const { url } = server;
  const openers = createOpeners({
    env: { FLOWDROP_API_URL: url, FLOWDROP_PORTAL_URL: url, ...env },
    ...{ cwd: folder.path, packageDir: REPO, writeErr: () => undefined, interactive: false, debug: false },
  });
  try {
    await (await openers.openSource(access, createSilentLog(), 0)).ask('SELECT 1');
    return seen.at(-1);
  } finally {
    await openers.close();
  }
}

const MAIN = { FLOWDROP_API_KEY: 'cus_main_4711' };

test.each([
  ['the main entry point uses its own', MAIN, { api: 'historical', key: null }, 'cus_main_4711'],
  ['the portal uses that of the main entry point', MAIN, { api: 'portal', key: null }, 'cus_main_4711'],
  [
    'the portal uses its own, where one is set',
    { ...MAIN, FLOWDROP_PORTAL_KEY: 'apikey_portal' },
    { api: 'portal', key: null },
    'apikey_portal',
  ],
  [
    'a job that names one uses it at either entry point',
    { ...MAIN, FLOWDROP_PORTAL_KEY: 'apikey_portal', FLOWDROP_KEY_DESK_2: 'cus_desk_4711' },
    { api: 'portal', key: 'desk-2' },
    'cus_desk_4711',
  ],
] as const)('keys: %s', async (_title, env, access, expected) => {
  expect(await askWith(env, access)).toBe(expected);
});

test('each key has a budget of its own in the state folder', async () => {
  const env = { ...MAIN, FLOWDROP_KEY_DESK: 'cus_desk_4711', FLOWDROP_STATE_DIR: 'budgets' };
  await askWith(env, { api: 'historical', key: null });
  await askWith(env, { api: 'portal', key: null });
  await askWith(env, { api: 'historical', key: 'desk' });
  expect(await readdir(join(folder.path, 'budgets', 'pace'))).toHaveLength(2);
});

test('a key that is named and not set is asked for by its setting, and is no secret', async () => {
  await expect(askWith(MAIN, { api: 'historical', key: 'desk' })).rejects.toMatchObject({
    code: 'SETTING_MISSING',
    message: 'FLOWDROP_KEY_DESK is not set',
    hint: expect.stringContaining('source.key: desk'),
  });
});

test('every key is masked in messages', () => {
  const env = { ...MAIN, FLOWDROP_PORTAL_KEY: 'apikey_portal_1', FLOWDROP_KEY_DESK: 'cus_desk_4711' };
  const openers = createOpeners({
    ...{ env, cwd: folder.path, packageDir: REPO, writeErr: () => undefined, interactive: false, debug: false },
  });
  expect(openers.redact('cus_main_4711 apikey_portal_1 cus_desk_4711')).toBe('[secret] [secret] [secret]');
});
