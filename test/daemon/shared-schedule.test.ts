/**
 * Two daemons as a user starts them, in two working folders, with one store, one Redis and one shared job. What Redis
 * promises is tested in `redis-coordinator.test.ts`, many ticks and kills in `two-daemons.test.ts`.
 */
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { LEASE_MS } from '../../src/daemon/coordinator.ts';
import { listFiles, makeFolder, readJson, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { startRedis } from '../support/redis-server.ts';
import { type DaemonProcess, findRun, listMails, startDaemonProcess } from './daemon-process.ts';

/** What the run needs after it has been taken over, at the pace of this test. */
const RUN_MS = 25_000;

const { server, reason } = await startRedis();
const daemons: { readonly daemon: DaemonProcess; readonly cwd: string }[] = [];
afterEach(async () => {
  for (const { daemon } of daemons.splice(0)) await daemon.end();
});
afterAll(async () => await server?.stop());

const REPORTS = 'reports:\n  - template: flow\n    to: [desk@example.com]';
const SCHEDULE = 'schedule:\n  cron: "0 12 * * *"\n  timezone: Etc/UTC\n  distributed: true';

// A machine without Redis and without a way to install it; CI fails instead (`startRedis`).
describe.skipIf(reason !== undefined)('a schedule that two daemons share', () => {
  it('is caught up by one, and by the other when that one dies with its run', async () => {
    const service = await startService(['--generate', '1', '--generate-rows', '300']);
    const { path, remove } = await makeFolder();
    const env = { ...service.env, FLOWDROP_REDIS_URL: server?.url ?? '', FLOWDROP_REQUESTS_PER_SECOND: '0.4' };
    for (const name of ['one', 'two']) {
      const cwd = join(path, name);
      await mkdir(cwd);
      await writeJob(cwd, { to: join(path, 'drops'), reports: REPORTS, schedule: SCHEDULE });
      daemons.push({ daemon: startDaemonProcess(cwd, env), cwd });
    }
    await Promise.all(daemons.map(({ daemon }) => daemon.until('scheduled')));
    const running = await vi.waitFor(
      () => {
        const found = daemons.filter(({ daemon }) => daemon.lines.some(({ event }) => event === 'started'));
        expect(found.length).toBeGreaterThan(0);
        return found;
      },
      { timeout: 20_000, interval: 50 },
    );
    expect(running).toHaveLength(1);
    const [victim] = running;
    const other = daemons.find((each) => each !== victim);
    const started = await victim?.daemon.until('started', { reason: 'catch-up' });
    await vi.waitFor(
      async () => {
        const progress = await readJson<{ requests: number }>(victim?.cwd ?? '', '.flowdrop/nightly/progress.json');
        expect(progress.requests).toBeGreaterThan(0);
      },
      { timeout: 20_000, interval: 50 },
    );
    // As a machine that loses its power: neither can say anything more.
    const run = await findRun(victim?.daemon.child.pid ?? 0, String(started?.['run']));
    const exit = once(victim?.daemon.child ?? process, 'exit');
    victim?.daemon.child.kill('SIGKILL');
    process.kill(run, 'SIGKILL');
    await exit;
    const killedAt = performance.now();
    expect(await listFiles(join(path, 'drops'))).toEqual([]);
    expect(other?.daemon.lines.filter(({ event }) => event === 'started')).toEqual([]);

    await other?.daemon.until('started', { reason: 'take-over' });
    // The lease, and half of it until somebody looks.
    expect(performance.now() - killedAt).toBeLessThan(1.5 * LEASE_MS + 3_000);
    await vi.waitFor(() => expect(other?.daemon.lines.some(({ event }) => event === 'finished')).toBe(true), {
      timeout: RUN_MS,
      interval: 50,
    });
    expect(await other?.daemon.until('finished')).toMatchObject({ outcome: 'done' });
    const manifests = (await listFiles(join(path, 'drops'))).filter((name) => name.endsWith('manifest.json'));
    expect(manifests).toHaveLength(1);
    const mails = await Promise.all(daemons.map(({ cwd }) => listMails(cwd, /^To: desk@example\.com/m)));
    expect(mails.flat()).toHaveLength(1);
    await other?.daemon.end();
    await service.stop();
    await remove();
  }, 120_000);
});
