/**
 * The version before and then this one, over the same store and state folder: built from its commit, it seals, mails and is
 * killed in the middle of a date; this one goes on from there. Then the way back: the version before reads what this one
 * wrote.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Manifest } from '../../src/ledger/manifest.ts';
import {
  type Finished,
  flowdrop,
  listFiles,
  makeFolder,
  REPO,
  readJson,
  startService,
  type TestService,
} from '../support/flowdrop.ts';

/** The last landing: nothing was released before. A release moves it. */
const BEFORE = 'aeac67b';
const DATES = ['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19'];
const ROWS = 400;
const JOB = `name: nightly
source:
  api: historical
drop:
  to: drops
  dataset: trades
  table: iceberg
checks:
  - check: unique-id
  - check: baseline
reports:
  - template: flow
    to: [desk@example.com]
`;
const BUILD_MS = 300_000;

const run = promisify(execFile);
/** A clone without history cannot build an older version. */
const hasHistory = await run('git', ['cat-file', '-e', `${BEFORE}^{commit}`], { cwd: REPO }).then(
  () => true,
  () => false,
);
if (!hasHistory) console.warn(`SKIPPED: this clone lacks ${BEFORE}, the version before (git fetch --unshallow)`);

let folder: string;
let cwd: string;
let remove: () => Promise<void>;
let service: TestService;

beforeAll(async () => {
  if (!hasHistory) return;
  ({ path: folder, remove } = await makeFolder());
  cwd = join(folder, 'work');
  await run('mkdir', ['-p', join(folder, 'before'), join(cwd, 'jobs')]);
  await run('sh', ['-c', `git archive ${BEFORE} | tar -x -C '${join(folder, 'before')}'`], { cwd: REPO });
  // Its packages are those of this version: none that it uses has changed since.
  await symlink(join(REPO, 'node_modules'), join(folder, 'before', 'node_modules'));
  await run('npm', ['run', 'build'], { cwd: join(folder, 'before') });
  await writeFile(join(cwd, 'jobs', 'nightly.yaml'), JOB);
  service = await startService([
    ...['--generate', String(DATES.length), '--generate-rows', String(ROWS), '--row-limit', '50'],
    ...['--as-of', '2026-11-19T23:30:00Z'],
  ]);
}, BUILD_MS);
afterAll(async () => {
  await service?.stop();
  await remove?.();
});

type Version = 'before' | 'now';

async function act(version: Version, args: readonly string[], onStart?: () => Promise<boolean>): Promise<Finished> {
  const main = version === 'now' ? {} : { main: join(folder, 'before', 'dist', 'main.js') };
  return await flowdrop([...args], {
    cwd,
    env: service.env,
    ...main,
    onStart: (child) => {
      void onStart?.().then((isKilled) => isKilled && child.kill('SIGKILL'));
    },
  });
}

async function expectFine(version: Version, ...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await act(version, args);
  expect([version, args.join(' '), code, code === 0 ? '' : stdout + stderr]).toEqual([version, args.join(' '), 0, '']);
  return stdout;
}

const readManifest = async (date: string) =>
  await readJson<Manifest>(cwd, 'drops', '_flowdrop', 'trades', `session=${date}`, 'manifest.json');
const isSealed = (date: string) =>
  existsSync(join(cwd, 'drops', '_flowdrop', 'trades', `session=${date}`, 'manifest.json'));
const listMails = async () => (await listFiles(join(cwd, 'out', 'mail'))).filter((name) => name.endsWith('.eml'));

// Skipped only where the clone has no history, which is said above.
it.skipIf(!hasHistory)(
  'goes on where the version before was killed, and back',
  async () => {
    await expectFine('before', 'backfill', 'nightly', '--from', '2026-11-16', '--to', '2026-11-17');
    const sealedBefore = await Promise.all(DATES.slice(0, 2).map(readManifest));
    const pages = () => service.requests.filter(({ rows }) => rows === 50).length;
    const asked = pages();
    const killed = await act('before', ['run', 'nightly'], async () => {
      const end = Date.now() + 30_000;
      while (pages() < asked + 4 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 5));
      return true;
    });
    expect(killed.code).toBeNull();
    expect(DATES.every(isSealed)).toBe(false);

    await expectFine('now', 'check');
    await expectFine('now', 'status', 'nightly');
    await expectFine('now', 'run', 'nightly');
    expect(DATES.filter(isSealed)).toEqual(DATES);
    for (const date of DATES) expect(await readManifest(date)).toMatchObject({ revision: 1, rows: ROWS });
    // What was sealed is left as it was, and was compared with the source by its counts.
    expect(await Promise.all(DATES.slice(0, 2).map(readManifest))).toEqual(sealedBefore);
    expect(await expectFine('now', 'status', '--json')).not.toMatch(/"result": ?"differs"/);
    await expectFine('now', 'verify', 'nightly', '--deep');
    const mails = await listMails();
    expect(mails.length).toBeGreaterThan(0);
    expect(new Set(mails).size).toBe(mails.length);
    const rows = JSON.parse(
      await expectFine('now', 'query', 'SELECT date, count() AS n FROM trades GROUP BY date ORDER BY date'),
    );
    expect(rows).toEqual(DATES.map((date) => ({ date, n: ROWS })));
    for (const date of DATES) await expectFine('now', 'drop', 'nightly', date);
    // The run that was killed is on record.
    expect(await expectFine('now', 'runs', 'nightly', '--json')).toMatch(/died/);
    await expectFine('now', 'run', 'nightly');
    expect(await listMails()).toEqual(mails);

    await expectFine('before', 'status', 'nightly');
    await expectFine('before', 'run', 'nightly');
    await expectFine('before', 'verify', 'nightly');
    expect(await listMails()).toEqual(mails);
    await expectFine('now', 'run', 'nightly');
    await expectFine('now', 'verify', 'nightly');
    for (const date of DATES) expect(await readManifest(date)).toMatchObject({ revision: 1 });
  },
  300_000,
);
