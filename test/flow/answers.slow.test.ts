/**
 * What an answer leads to, seen from the outside: whole runs through the fault proxy, one for each action of the design's
 * table that concerns more than one request. Which verdict an answer gets is tested in `test/source`.
 */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { dropKey, manifestKey } from '../../src/ledger/layout.ts';
import type { Manifest } from '../../src/ledger/manifest.ts';
import { buildEntry, describeEntry, hashKey } from '../../src/service/access/key-file.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { isPage } from '../support/engine-source.ts';
import type { Fault, SeenRequest } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import {
  type Finished,
  flowdrop,
  listFiles,
  readManifest,
  startService,
  type TestService,
} from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const DATE = '2026-11-20';
const TRIAL_KEY = 'cus_trial_4711';
const ROW_LIMIT = 200;
/** Fewer than the row limit, and no divisor of it. */
const TRIAL_ROW_LIMIT = 30;
const SERVE = ['--generate', '1', '--generate-rows', '3000', '--as-of', '2026-11-20T23:00:00Z'];

let service: TestService;
let proxy: FaultProxy;
let cwd: string;
/** The whole session, as a run without faults brought it home. */
let truth: string;
const { folder, keep } = useCleanups();

beforeAll(async () => {
  const keys = join(await folder(), 'keys.yaml');
  const trial = { name: 'trial', historical: 'trialing', realtime: false } as const;
  await writeFile(keys, stringify({ keys: [describeEntry(buildEntry(hashKey(TRIAL_KEY), trial))] }));
  const limits = ['--row-limit', String(ROW_LIMIT), '--trial-row-limit', String(TRIAL_ROW_LIMIT), '--key-file', keys];
  service = await keep(startService([...SERVE, ...limits]));
  cwd = await folder();
  expect(await run()).toMatchObject({ code: 0 });
  truth = dropPath();
});
beforeEach(async () => {
  cwd = await folder();
  proxy = await startFaultProxy(service.url);
  return () => proxy.close();
});

/** One run of a job in the test's own folder. @param env beside that of the service */
async function run(env: Readonly<Record<string, string>> = {}, api: 'historical' | 'portal' = 'historical') {
  const job = await writeJob(cwd, { api, reports: '' });
  return await flowdrop(['--json', 'run', job], { cwd, env: { ...service.env, ...env } });
}
const runThroughProxy = async () => await run({ FLOWDROP_API_URL: proxy.url });

const dropPath = () => join(cwd, 'drops', dropKey('trades', DATE));
const listSealed = async () =>
  (await listFiles(join(cwd, 'drops'))).filter((name) => name === manifestKey('trades', DATE));

/** The drop is whole: row for row what a run without faults sealed, and proved by the recount. */
async function expectWhole(done: Finished): Promise<Manifest> {
  expect(done.code, done.stderr).toBe(0);
  const [difference] = await queryDuckDb(`
    SELECT count(*)::INTEGER AS n FROM (
      (FROM '${truth}' EXCEPT ALL FROM '${dropPath()}') UNION ALL (FROM '${dropPath()}' EXCEPT ALL FROM '${truth}'))`);
  expect(difference).toEqual({ n: 0 });
  const manifest = await readManifest(join(cwd, 'drops'), DATE);
  expect(manifest).toMatchObject({ condition: 'available', rows: 3000, source_rows: 3000 });
  // The service's own guard lets the hashes through.
  expect(manifest.recount).toMatchObject({ proved: 'ids and values', value_hash: expect.stringMatching(/^\d+$/) });
  return manifest;
}

/** The so-many-th request for rows of a plan, or each. */
function page(number?: number): (request: SeenRequest) => boolean {
  let pages = 0;
  return ({ sql }) => {
    if (!isPage(sql)) return false;
    pages += 1;
    return number === undefined || pages === number;
  };
}

const answer = (status: number, rest: Partial<Extract<Fault, { kind: 'status' }>> = {}): Fault => ({
  kind: 'status',
  status,
  body: 'api',
  ...rest,
});

/** Each statement that was answered, as often as it was. */
const sentSince = (at: number) => service.requests.slice(at).map(({ sql }) => sql ?? '');

describe('a page that is cut short', () => {
  it.each([
    ['as `truncated` says', { meta: { truncated: true }, rows: 10 }],
    ['as `truncated` says, with every row that was counted', { meta: { truncated: true } }],
    ['without a word, by fewer rows than were counted', { rows: 10 }],
  ])('%s, is no answer: nothing of it is sealed, and all rows are', async (_, envelope) => {
    proxy.follow([{ on: page(2), fault: { kind: 'envelope', ...envelope } }]);
    const before = service.requests.length;
    const manifest = await expectWhole(await runThroughProxy());
    expect(proxy.injected).toHaveLength(1);
    expect(manifest.windows.map(({ rows }) => rows)).not.toContain(10);
    const pages = sentSince(before).filter(isPage);
    // What `truncated` was said of is not asked again unchanged.
    if ('meta' in envelope) expect(new Set(pages).size).toBe(pages.length);
  });

  it('by the entry point that sends no `meta`, which gives as many rows as it allows, is narrowed until it is whole', async () => {
    const before = service.requests.length;
    await expectWhole(await run({}, 'portal'));
    const asked = service.requests.slice(before).filter(({ sql }) => isPage(sql ?? ''));
    expect(asked.filter(({ rows }) => rows === ROW_LIMIT).length).toBeGreaterThan(0);
    expect(asked.every(({ endpoint }) => endpoint === 'portal')).toBe(true);
  });
});

it('a count of a window that has no number fails its date', async () => {
  const noRow: Fault = { kind: 'envelope', rows: 0 };
  const portal = await startFaultProxy(service.portalUrl, [{ on: /^SELECT count\(\) AS rows/, fault: noRow }]);
  const done = await run({ FLOWDROP_PORTAL_URL: portal.url }, 'portal').finally(() => portal.close());
  expect(done.code, done.stderr).toBe(1);
  expect(JSON.parse(done.stdout)).toMatchObject({ dates: [{ date: DATE, error: { code: 'INVALID_ANSWER' } }] });
});

it('a trialing key, whose answers are capped, brings a complete and available day home in smaller pages', async () => {
  const before = service.requests.length;
  const manifest = await expectWhole(await run({ FLOWDROP_API_KEY: TRIAL_KEY }));
  expect(manifest.row_limit).toBe(TRIAL_ROW_LIMIT);
  expect(Math.max(...manifest.windows.map(({ rows }) => rows))).toBeLessThanOrEqual(TRIAL_ROW_LIMIT);
  expect(service.requests.length - before).toBeGreaterThanOrEqual(3000 / TRIAL_ROW_LIMIT);
});

const wrong = [
  [400, 'INVALID_REQUEST', undefined],
  [400, 'INVALID_SQL', undefined],
  [422, 'INVALID_QUERY', 'UNKNOWN_IDENTIFIER'],
] as const;
it.each(wrong)(
  'a query that is wrong by a %i %s stops the job: exit 2, with code, reason and the next command',
  async (status, code, reason) => {
    proxy.follow([{ on: page(), fault: answer(status, { code, ...(reason ? { reason } : {}) }) }]);
    const done = await runThroughProxy();
    expect(done.code).toBe(2);
    for (const part of [String(status), code, reason ?? '', 'check --live']) expect(done.stderr).toContain(part);
    expect(done.stderr).not.toContain('SELECT id, symbol');
    // Those in flight at that moment, and no more.
    expect(proxy.injected.length).toBeLessThanOrEqual(4);
    expect(await listSealed()).toEqual([]);
  },
);

it.each([401, 403])('a key that is refused with %i stops everything, and is not tried again', async (status) => {
  proxy.follow([{ on: () => true, fault: answer(status) }]);
  const done = await runThroughProxy();
  expect(done.code).toBe(2);
  expect(done.stderr).toContain(String(status));
  expect(proxy.requests).toBe(1);
});

it('a key that becomes one of a trial in mid-run is named, where its answers never agree with the counts', async () => {
  const meta = { entitlement: 'trialing', capped: true, truncated: false };
  proxy.follow([{ on: page(), fault: { kind: 'envelope', meta, rows: 10 } }]);
  const done = await runThroughProxy();
  expect(done.code).toBe(1);
  expect(JSON.parse(done.stdout)).toMatchObject({ dates: [{ date: DATE, error: { code: 'KEY_CAPPED' } }] });
});

it.each([
  [403, answer(403)],
  [307, { kind: 'redirect', status: 307, location: '/elsewhere' }],
] as const)(
  'a key or an address that is refused with %i in mid-run fails the run, which had started',
  async (status, fault) => {
    proxy.follow([{ on: page(2), fault }]);
    const done = await runThroughProxy();
    expect(done.code).toBe(1);
    expect(done.stderr).toContain(`the API answered HTTP ${status}`);
  },
);

it('a long Retry-After is told with its length', async () => {
  proxy.follow([{ on: page(1), fault: answer(429, { retryAfter: { seconds: 5, as: 'number' } }) }]);
  const done = await runThroughProxy();
  expect(done.code, done.stderr).toBe(0);
  expect(done.stderr).toMatch(/retry after try 1 of 5, in 5.0 s, as the API asks: the API answered HTTP 429/);
});

/** Answers the first page that is asked for with this, however often. @returns what was sent for pages, in order */
function failFirstPage(fault: Fault): readonly string[] {
  const sent: string[] = [];
  proxy.follow([
    {
      on: ({ sql }) => {
        if (isPage(sql)) sent.push(sql);
        return isPage(sql) && sql === sent[0];
      },
      fault,
    },
  ]);
  return sent;
}

it('a window that is too broad is split, and its query never sent again', async () => {
  const sent = failFirstPage(answer(422));
  await expectWhole(await runThroughProxy());
  expect(proxy.injected).toHaveLength(1);
  expect(new Set(sent).size).toBe(sent.length);
});

it('a window that runs out of time is asked once more, and then split', async () => {
  const sent = failFirstPage(answer(504));
  await expectWhole(await runThroughProxy());
  expect(proxy.injected).toHaveLength(2);
  expect(sent.length - new Set(sent).size).toBe(1);
});

it('a window that fails for good fails alone: the others are staged, and the next run asks for it only', async () => {
  const sent = failFirstPage(answer(500));
  const failed = await runThroughProxy();
  expect(failed.code).toBe(1);
  expect(proxy.injected).toHaveLength(5);
  expect(await listSealed()).toEqual([]);
  await proxy.heal();
  const before = service.requests.length;
  await expectWhole(await runThroughProxy());
  expect(sentSince(before).filter(isPage)).toEqual([sent[0]]);
});
