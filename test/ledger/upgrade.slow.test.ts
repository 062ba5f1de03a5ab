/**
 * `flowdrop upgrade` from outside: an archive in the first layout of three datasets with history, killed again and again,
 * ends byte for byte in the present layout, on both stores; and what every other command says of such an archive. The
 * archive is one of the present layout whose objects got their old names.
 */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { upgradeKey } from '../../src/ledger/upgrade-store.ts';
import { flowdrop, listFiles, makeFolder, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createRandom } from '../support/random.ts';

const KILLS = 20;

/** The name that an object had in the first layout. */
function oldName(key: string): string {
  return key
    .replace(/^_flowdrop\/(sealing|reports|alerts)\//, '_$1/')
    .replace(/^_flowdrop\/([^/]+)\/history\//, '$1/_history/')
    .replace(/^_flowdrop\/([^/]+)\/(session=|condition\.json)/, '$1/$2')
    .replace('session=', 'date=');
}

let service: TestService;
let cwd: string;
let remove: () => Promise<void>;
beforeAll(async () => {
  service = await startService(['--generate', '3', '--generate-rows', '400']);
}, 120_000);
afterAll(async () => {
  await service.stop();
});
beforeEach(async () => {
  ({ path: cwd, remove } = await makeFolder());
  return remove;
});

const root = () => join(cwd, 'drops');
const hash = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

async function readAll(): Promise<Readonly<Record<string, string>>> {
  // What the first layout did not have.
  const isOther = (name: string) => /^_flowdrop\/(store\.json|tmp\/|[^/]+\/fields\/)/.test(name);
  const names = (await listFiles(root())).filter((name) => !isOther(name));
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, hash(await readFile(join(root(), name)))] as const)),
  );
}

/** Three sealed sessions of a job with a mailed report. @returns the job file */
async function sealArchive(): Promise<string> {
  const job = await writeJob(cwd, {});
  const run = await flowdrop(['run', job], { cwd, env: service.env });
  expect(run.code, run.stderr).toBe(0);
  return job;
}

/** As the first layout had it, with the identity of that version; without one, as of an earlier one. */
async function makeOld({ hasIdentity = true } = {}): Promise<void> {
  for (const name of Object.keys(await readAll())) {
    const to = join(root(), oldName(name));
    await mkdir(dirname(to), { recursive: true });
    await rename(join(root(), name), to);
  }
  const identity = join(root(), '_flowdrop', 'store.json');
  const { id } = JSON.parse(await readFile(identity, 'utf8')) as { id: string };
  await rm(join(root(), '_flowdrop'), { recursive: true });
  if (!hasIdentity) return;
  await mkdir(dirname(identity), { recursive: true });
  await writeFile(identity, `${JSON.stringify({ format: 1, id })}\n`);
}

describe('an archive in the first layout', () => {
  it.each([true, false])(
    'is named as such by every command that reads or writes it (identity: %s)',
    async (hasIdentity) => {
      const job = await sealArchive();
      await makeOld({ hasIdentity });
      if (!hasIdentity) await rm(join(cwd, '.flowdrop'), { recursive: true });
      const before = await readAll();
      for (const words of [
        ['run', job],
        ['backfill', job],
        ['status', job],
        ['verify', job],
        ['query', '--job', job, 'SELECT count() FROM RawOptionTrades'],
      ]) {
        const { code, stderr, stdout } = await flowdrop(words, { cwd, env: service.env });
        expect(code, `${words[0]}: ${stderr}`).not.toBe(0);
        expect(stderr + stdout, words[0]).toContain(`flowdrop upgrade ${root()}`);
      }
      expect(await readAll()).toEqual(before);
    },
  );

  it('of three datasets with history is moved whole, however often the upgrade is killed', async () => {
    const job = await sealArchive();
    // Two more datasets, and a history of each, out of the bytes of the first.
    for (const [name, bytes] of Object.entries(await readAll()).map(([key]) => [key, key] as const)) {
      const content = await readFile(join(root(), bytes));
      const places = [
        ...['chains', 'flow'].map((dataset) => name.replaceAll('trades', dataset)),
        ...['trades', 'chains', 'flow'].flatMap((dataset) =>
          Array.from({ length: 30 }, (_, at) => at + 1).map((revision) =>
            name
              .replace(
                /^(_flowdrop\/)?trades\/session=([^/]+)\//,
                `_flowdrop/${dataset}/history/session=$2/rev=${revision}/`,
              )
              .replace(/trades\.parquet$/, `${dataset}.parquet`),
          ),
        ),
      ];
      for (const place of places) {
        if (!/session=|condition/.test(place) || place === name) continue;
        await mkdir(dirname(join(root(), place)), { recursive: true });
        await writeFile(join(root(), place), content);
      }
    }
    const expected = await readAll();
    await makeOld();
    await writeFile(join(root(), 'notes.txt'), 'of somebody');
    // Another tool's table lies beside ours, in folders of the same form.
    await mkdir(join(root(), 'other', 'date=2026-11-19'), { recursive: true });
    await writeFile(join(root(), 'other', 'date=2026-11-19', 'part-0.parquet'), 'of somebody');
    expect(Object.keys(await readAll()).length).toBeGreaterThan(60);
    const random = createRandom(16);
    let kills = 0;
    for (let attempt = 0; attempt < KILLS; attempt += 1) {
      const done = await flowdrop(['upgrade', 'drops'], {
        cwd,
        // It starts in half a second, and copies and removes for a second or two.
        onStart: (child) => void sleep(350 + random() * 1500).then(() => child.kill('SIGKILL')),
      });
      if (done.code === null) kills += 1;
      // Whenever it is killed, each object is under one of its names, with its bytes.
      const now = await readAll();
      for (const [key, digest] of Object.entries(expected))
        expect([now[key], now[oldName(key)]], key).toContain(digest);
    }
    expect(kills).toBeGreaterThan(0);
    const last = await flowdrop(['--json', 'upgrade', 'drops'], { cwd });
    expect(last.code, last.stderr).toBe(0);
    expect(JSON.parse(last.stdout)).toMatchObject({ datasets: ['chains', 'flow', 'trades'], dates: 9, foreign: 2 });
    const { 'notes.txt': notes, 'other/date=2026-11-19/part-0.parquet': other, ...after } = await readAll();
    expect(after).toEqual(expected);
    expect([notes, other]).toEqual([hash(Buffer.from('of somebody')), hash(Buffer.from('of somebody'))]);
    await rm(join(root(), '_flowdrop', 'trades', 'history'), { recursive: true });
    const verified = await flowdrop(['verify', job], { cwd, env: service.env });
    expect(verified.code, verified.stdout + verified.stderr).toBe(0);
    // Nothing is exported or mailed again.
    const again = await flowdrop(['--json', 'run', job], { cwd, env: service.env });
    expect(again.code, again.stderr).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ dates: [] });
    const present = await flowdrop(['upgrade', 'drops'], { cwd });
    expect(present.stdout).toContain('nothing to do');
  }, 240_000);

  it('keeps each name apart: no two old names become one', () => {
    const old = [
      'trades/date=2026-11-19/trades.parquet',
      'trades/date=2026-11-19/manifest.json',
      'trades/condition.json',
    ];
    expect(new Set(old.map(upgradeKey)).size).toBe(old.length);
    for (const key of ['trades/notes.txt', 'x', '_flowdrop/store.json', 'trades/session=2026-11-19/trades.parquet'])
      expect(upgradeKey(key)).toBeUndefined();
  });
});
