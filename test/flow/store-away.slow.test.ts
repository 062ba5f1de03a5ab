/**
 * A directory store that is unmounted, as its users see it: the directory is swapped by a rename, under a run and before
 * one. No command takes the bare mount point for the store. What each operation of a store does is tested in
 * `test/store/identity.external.test.ts`.
 */
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { RunResult } from '../../src/state/run-result.ts';
import { useCleanups } from '../support/cleanups.ts';
import { holdFrom } from '../support/fault-plan.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { type Finished, flowdrop, listFiles, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

const DATES = ['2026-11-19', '2026-11-20'] as const;
const CHANGED = /STORE_CHANGED/;

const { folder, keep } = useCleanups(afterEach);

/** @param sessions how many of `DATES` are over */
async function serve(sessions: 1 | 2): Promise<TestService> {
  const asOf = `${DATES[sessions - 1]}T23:00:00Z`;
  const service = await keep(startService(['--generate', String(sessions), '--generate-rows', '300', '--as-of', asOf]));
  return service;
}

async function openPlace(reports?: string) {
  const cwd = await folder();
  const job = await writeJob(cwd, { to: 'mount/drops', ...(reports === undefined ? {} : { reports }) });
  const mount = join(cwd, 'mount', 'drops');
  await mkdir(mount, { recursive: true });
  return {
    cwd,
    job,
    mount,
    /** As an unmount does: what was there is elsewhere, and its name is an empty directory. */
    async unmount() {
      await rename(mount, join(cwd, 'disk'));
      await mkdir(mount);
    },
    async remount() {
      await rm(mount, { recursive: true });
      await rename(join(cwd, 'disk'), mount);
    },
    listMails: async () => (await listFiles(join(cwd, 'out', 'mail'))).filter((name) => name.endsWith('.eml')),
    listSealed: async () =>
      (await listFiles(mount)).filter((name) => /^_flowdrop\/trades\/session=.*manifest\.json$/.test(name)),
  };
}

const sealedOf = ({ stdout }: Finished) =>
  (JSON.parse(stdout) as RunResult).dates.filter(({ status }) => status === 'sealed').map(({ date }) => date);

it.each(['the first', 'a later'])(
  '%s run whose store is unmounted under it seals nothing and mails nothing',
  async (which) => {
    const place = await openPlace();
    const { cwd, job } = place;
    if (which === 'a later') {
      const first = await serve(1);
      expect((await flowdrop(['run', job], { cwd, env: first.env })).code).toBe(0);
      await first.stop();
    }
    const before = await place.listMails();
    const service = await serve(2);
    const gate = await keep(startFaultProxy(service.url, holdFrom(1)));
    const running = flowdrop(['run', job], { cwd, env: { ...service.env, FLOWDROP_API_URL: gate.url } });
    await gate.untilHeld();
    await place.unmount();
    await gate.heal();
    const run = await running;
    expect(run.code, run.stderr).toBe(1);
    expect(run.stderr).toMatch(CHANGED);
    expect(await readdir(place.mount)).toEqual([]);
    expect(await place.listMails()).toEqual(before);
    await place.remount();
    const next = await flowdrop(['--json', 'run', job], { cwd, env: service.env, code: 0 });
    expect(sealedOf(next)).toEqual(which === 'a later' ? [DATES[1]] : DATES);
    expect(await place.listSealed()).toHaveLength(2);
  },
);

it('a bare mount point is no new store: every command says so, asks the API for nothing, and makes nothing there', async () => {
  const place = await openPlace('');
  const { cwd, job, mount } = place;
  const service = await serve(2);
  expect((await flowdrop(['run', job], { cwd, env: service.env })).code).toBe(0);
  await place.unmount();
  const asked = service.requests.length;
  for (const command of [
    ['run', job],
    ['verify', job],
    ['query', 'SELECT count() FROM RawOptionTrades', '--job', job],
  ]) {
    const ended = await flowdrop(command, { cwd, env: service.env });
    expect([command[0], ended.code]).toEqual([command[0], 1]);
    expect(ended.stderr).toMatch(CHANGED);
  }
  const status = await flowdrop(['status', job], { cwd, env: service.env });
  expect(status.code).toBe(1);
  expect(status.stderr).toContain('is not the same store as before');
  expect(service.requests.length).toBe(asked);
  const doctor = await flowdrop(['doctor', job], { cwd, env: service.env });
  expect(doctor.stdout).toMatch(/^FAIL {2}store .*is not the same store as before/m);
  expect(await readdir(mount)).toEqual([]);
  // The operator says that it was emptied on purpose.
  const again = await flowdrop(['--json', 'run', job, '--new-store'], { cwd, env: service.env, code: 0 });
  expect(sealedOf(again)).toEqual(DATES);
  expect((await flowdrop(['verify', job], { cwd, env: service.env })).code).toBe(0);
});

it('commands that read make no directory for a job that never ran', async () => {
  const cwd = await folder();
  const job = await writeJob(cwd);
  const service = await serve(1);
  for (const command of ['status', 'plan', 'doctor']) {
    const ended = await flowdrop([command, job], { cwd, env: service.env });
    expect(ended.stdout, ended.stderr).not.toMatch(/STORE_|FAIL {2}store/);
    if (command !== 'doctor') expect([command, ended.code]).toEqual([command, 0]);
  }
  expect(await readdir(cwd)).toEqual(expect.not.arrayContaining(['drops']));
});
