/**
 * `flowdrop verify --repair` as a user runs it: damage is named with its next step, repaired from the source, the drop
 * or the record, and stays repaired. What an audit finds is in `test/seal/audit.slow.test.ts`.
 */
import { copyFile, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, readJson, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const [FIRST, SECOND, THIRD] = ['2026-11-18', '2026-11-19', '2026-11-20'] as const;

let service: TestService;
let cwd: string;
let job: string;
const { cleanups, folder } = useCleanups();

const at = (date: string) => join(cwd, 'drops', 'trades', `session=${date}`, 'trades.parquet');
const recordAt = (...path: readonly string[]) => join(cwd, 'drops', '_flowdrop', 'trades', ...path);
const type = async (...args: readonly string[]) => await flowdrop(args, { cwd, env: service.env });
const verify = async (...args: readonly string[]) => await type('verify', job, ...args);
const historyAt = (date: string, revision: number, name: string) =>
  recordAt('history', `session=${date}`, `rev=${revision}`, name);

async function serve(asOf: string): Promise<void> {
  service = await startService(['--generate', '3', '--generate-rows', '400', '--as-of', asOf]);
  cleanups.push(service.stop);
}

/** Overwrites four bytes in the middle. */
async function overwrite(path: string): Promise<void> {
  const file = await open(path, 'r+');
  const { size } = await file.stat();
  await file.write(Buffer.from('oops'), 0, 4, Math.floor(size / 2));
  await file.close();
}

beforeEach(async () => {
  await serve('2026-11-20T23:00:00Z');
  cwd = await folder();
  job = await writeJob(cwd, { reports: '' });
  const run = await type('run', job);
  expect(run.code, run.stderr).toBe(0);
});

describe('damage to what is sealed', () => {
  it('of four overwritten bytes and a truncated file is named, repaired, green afterwards, and stays green', async () => {
    await overwrite(at(FIRST));
    await truncate(at(THIRD), 1_000);
    const found = await verify();
    expect(found.code).toBe(1);
    expect(found.stdout).toMatch(
      /^FAIL {2}2026-11-18 .*has the hash.*\n {2}-> flowdrop verify nightly --repair\nok {4}2026-11-19 .*\nFAIL {2}2026-11-20 .*has 1000 bytes.*\n {2}-> flowdrop verify nightly --repair\n3 dates, .* rows: 2 with findings\n$/,
    );
    const repaired = await verify('--repair');
    expect(repaired.code, repaired.stdout + repaired.stderr).toBe(0);
    expect(repaired.stdout).toMatch(/ok {4}2026-11-18 .*; repaired: sealed again as revision 2\n/);
    expect(repaired.stdout).toMatch(/nothing is wrong, 2 repaired, 2 with a lost revision\n$/);
    const lost = (date: string) =>
      `note  ${date}  revision 1 is lost (trades.parquet): missing or damaged when revision 2 replaced it\n`;
    expect(repaired.stdout).toContain(lost(FIRST));
    expect(await readJson(historyAt(FIRST, 1, 'lost.json'))).toEqual({
      files: ['trades.parquet'],
      reason: 'missing or damaged when revision 2 replaced it',
    });
    expect((await type('run', job)).code).toBe(0);
    const again = await verify('--deep');
    expect(again.code, again.stdout).toBe(0);
    for (const date of [FIRST, THIRD]) expect(again.stdout).toContain(lost(date));
  });

  it('of the same size beside the drop is repaired without the source, and so is a manifest that was edited', async () => {
    await overwrite(recordAt(`session=${FIRST}`, 'summary.parquet'));
    const manifest = recordAt(`session=${SECOND}`, 'manifest.json');
    await writeFile(manifest, (await readFile(manifest, 'utf8')).replace('SELECT', 'select'));
    expect((await verify()).stdout).toMatch(/FAIL {2}2026-11-18 .*summary[\s\S]*FAIL {2}2026-11-19 .*was edited/);
    const repaired = await verify('--repair');
    expect(repaired.code, repaired.stdout + repaired.stderr).toBe(0);
    expect(repaired.stdout).toMatch(/ok {4}2026-11-18 .*; repaired: its files beside the drop were rebuilt\n/);
    expect(repaired.stdout).toMatch(/note {2}2026-11-19 {2}revision 1 is lost: its manifest was edited/);
    expect((await verify()).code).toBe(0);
  });

  it('that the source no longer has is named with its reason, while the others are repaired', async () => {
    const old = '2026-11-04';
    await service.stop();
    await serve('2026-11-04T23:00:00Z');
    await rm(cwd, { recursive: true });
    cwd = await folder();
    job = await writeJob(cwd, { reports: '' });
    expect((await type('run', job)).code).toBe(0);
    await service.stop();
    await serve('2026-11-20T23:00:00Z');
    await type('run', job);
    await copyFile(at(old), join(cwd, 'backup'));
    for (const date of [old, THIRD]) await overwrite(at(date));
    const repaired = await verify('--repair');
    expect(repaired.code, repaired.stderr).toBe(1);
    expect(repaired.stdout).toMatch(
      /FAIL {2}2026-11-04 .*\n {2}-> not repaired: 2026-11-04 is outside the API's lookback.* Restore the objects from a backup/,
    );
    expect(repaired.stdout).toMatch(/ok {4}2026-11-20 .*; repaired: sealed again as revision 2\n/);
    await copyFile(join(cwd, 'backup'), at(old));
    expect((await verify('--date', old)).code).toBe(0);
    const manifest = recordAt(`session=${old}`, 'manifest.json');
    await writeFile(manifest, (await readFile(manifest, 'utf8')).replace('"rows": ', '"rows": 9'));
    const run = await type('run', job);
    expect(run.code, run.stderr).toBe(3);
    expect((await type('status', job)).stdout).toMatch(/damaged: 2026-11-04, .*manifest.json was edited/);
  });

  it('of manifests that were edited, cut off, or are of another date is repaired by a run, which keeps the rows', async () => {
    const manifest = (date: string) => recordAt(`session=${date}`, 'manifest.json');
    const text = await readFile(manifest(FIRST), 'utf8');
    await writeFile(manifest(FIRST), text.replace('"revision": 1', '"revision": 999999'));
    await copyFile(manifest(SECOND), manifest(THIRD));
    await truncate(manifest(SECOND), 100);
    const drop = await readFile(at(THIRD));
    const found = await verify();
    expect(found.code).toBe(1);
    expect(found.stdout).toMatch(/FAIL {2}2026-11-18 .*was edited/);
    expect(found.stdout).toMatch(/FAIL {2}2026-11-20 .*is the manifest of trades 2026-11-19 revision 1\n/);
    const run = await type('--json', 'run', job);
    expect(run.code, run.stderr).toBe(0);
    const dates = [FIRST, SECOND, THIRD].map((date) =>
      expect.objectContaining({ date, status: 'sealed', revision: 2 }),
    );
    expect(JSON.parse(run.stdout)).toMatchObject({ dates, damaged: {} });
    expect(await readFile(historyAt(THIRD, 1, 'trades.parquet'))).toEqual(drop);
    const again = await verify();
    expect(again.code, again.stdout).toBe(0);
    expect(again.stdout).toContain('note  2026-11-20  revision 1 is lost: its manifest was edited or damaged when');
  });
});

describe('damage to the history', () => {
  it('is recorded as lost, once, because nothing brings those bytes back', async () => {
    await truncate(at(FIRST), 1_000);
    expect((await verify('--repair')).code).toBe(0);
    await overwrite(at(FIRST));
    expect((await verify('--repair')).code).toBe(0);
    await rm(historyAt(FIRST, 1, 'manifest.json'));
    await overwrite(historyAt(FIRST, 2, 'summary.parquet'));
    const found = await verify();
    expect(found.code).toBe(1);
    expect(found.stdout).toMatch(/rev=1\/manifest.json is missing.*rev=2\/summary.parquet has the hash/);
    expect(found.stdout).toContain('  -> flowdrop verify nightly --repair\n');
    const repaired = await verify('--repair');
    expect(repaired.code, repaired.stdout).toBe(0);
    expect(repaired.stdout).toContain('repaired: revision 1 recorded as lost, revision 2 recorded as lost\n');
    const again = await verify();
    expect(again.code).toBe(0);
    expect(again.stdout).toContain('note  2026-11-18  revision 1 is lost: its manifest is missing in the history\n');
    expect(again.stdout).toMatch(/note {2}2026-11-18 {2}revision 2 is lost \(trades.parquet, summary.parquet\): /);
  });
});
