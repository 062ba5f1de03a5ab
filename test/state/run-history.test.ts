/**
 * What this machine remembers of its runs: who may end a record, what a killed process leaves, what is kept and for how
 * long, and names that are no ids. Whole runs are in `test/daemon/start.slow.test.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ppid } from 'node:process';
import { beforeEach, describe, expect, it } from 'vitest';
import { readProcessStart } from '../../src/core/liveness.ts';
import { createRunId } from '../../src/core/run-id.ts';
import { createRunIndex, RunHistory } from '../../src/state/run-history.ts';
import type { RunWindow } from '../../src/state/run-record.ts';
import { useCleanups } from '../support/cleanups.ts';

const NOW = Date.parse('2026-11-23T18:30:00Z');
const DAY = 86_400_000;

const { folder: makeFolder } = useCleanups();
let folder: string;
let history: RunHistory;
beforeEach(async () => {
  folder = await makeFolder();
  history = new RunHistory(folder, 'nightly');
});

const idAt = (atMs: number) => `${new Date(atMs).toISOString().replace(/[-:]|\.\d+/g, '')}-abc`;

async function begin(runId: string, nowMs = NOW, command: 'run' | 'stage' = 'run') {
  const facts = { run_id: runId, job: 'nightly', command, args: ['run', 'nightly'], reason: 'hand' } as const;
  return await history.begin({ ...facts, args: [...facts.args] }, nowMs, 90);
}

describe('a run that is remembered', () => {
  it('is there from its beginning, under its own id or one that has its time', async () => {
    const own = await begin(idAt(NOW));
    const given = await begin('airflow_7', NOW + 1_000);
    expect([own.id, given.id]).toEqual(['20261123T183000Z-abc', '20261123T183001Z-airflow_7']);
    expect((await history.list(9)).map(({ run_id, outcome }) => [run_id, outcome])).toEqual([
      ['airflow_7', null],
      ['20261123T183000Z-abc', null],
    ]);
  });

  it('comes after another of the same second that began before it', async () => {
    const [later, earlier] = [
      await begin(createRunId(NOW + 900), NOW + 900),
      await begin(createRunId(NOW + 89), NOW + 89),
    ];
    expect(await history.listIds()).toEqual([later.id, earlier.id]);
    expect(await history.find(() => true)).toMatchObject({ id: later.id });
  });

  it('has died when its process is gone, also if another process has its number now', async () => {
    const entry = await begin(idAt(NOW));
    const child = spawn('sleep', ['60']);
    const { pid = 0 } = child;
    const started = await readProcessStart(pid);
    await history.write({ ...entry, process: { pid, started } });
    expect((await history.read(entry.id))?.outcome).toBeNull();
    await history.write({ ...entry, process: { pid, started: '1' } });
    expect((await history.read(entry.id))?.outcome).toBe('died');
    await history.write({ ...entry, process: { pid, started } });
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await history.read(entry.id)).toMatchObject({
      outcome: 'died',
      finished_at: entry.updated_at,
      error: { code: 'RUN_DIED' },
    });
  });

  it('is carried on by a child of the process that began it, and by nobody else', async () => {
    const entry = await begin(idAt(NOW));
    expect(await history.adopt(entry.run_id)).toBeUndefined();
    await history.write({ ...entry, process: { pid: ppid, started: await readProcessStart(ppid) } });
    expect((await history.adopt(entry.run_id))?.process.pid).toBe(process.pid);
  });

  it('keeps its own end, but for one that was stopped because it took too long', async () => {
    const died = { outcome: 'died', error: { code: 'ENDED_BY_SIGNAL', message: 'SIGKILL' } } as const;
    const cut = await begin(idAt(NOW));
    await history.settle(cut.id, died, NOW + 5_000);
    expect(await history.read(cut.id)).toMatchObject({ ...died, finished_at: '2026-11-23T18:30:05.000Z' });
    const own = await begin(idAt(NOW + 1_000));
    await history.write({ ...own, outcome: 'interrupted', finished_at: '2026-11-23T18:31:00.000Z' });
    await history.settle(own.id, died, NOW);
    expect((await history.read(own.id))?.outcome).toBe('interrupted');
    await history.settle(own.id, { outcome: 'timed-out', error: null }, NOW);
    expect((await history.read(own.id))?.outcome).toBe('timed-out');
  });

  it.each([
    ['was done', { outcome: 'done' }, [true, true]],
    ['has dates that failed', { outcome: 'failed' }, [false, true]],
    ['holds dates back', { outcome: 'incomplete', has_open: true }, [false, true]],
    ['was cut short', { outcome: 'interrupted', error: { code: 'INTERRUPTED', message: '' } }, [false, false]],
    ['met another active one', { outcome: 'active' }, [false, false]],
  ] as const)(
    'and %s is over, as far as no retry is to come, and otherwise owed at the next start',
    async (_, end, isOver) => {
      await history.write({ ...(await begin(idAt(NOW - DAY), NOW - DAY)), outcome: 'done' });
      await history.write({ ...(await begin(idAt(NOW))), ...end });
      const last = [await history.lastRunAt(true), await history.lastRunAt(false)];
      expect(last).toEqual(isOver.map((is) => (is ? NOW : NOW - DAY)));
    },
  );

  it('has its windows, but for a line that was cut short', async () => {
    const entry = await begin(idAt(NOW));
    expect(await history.readWindows(entry)).toEqual([]);
    const window: RunWindow = {
      ...{ at: entry.started_at, kind: 'page', date: '2026-11-20', window: 'a', rows: 7 },
      ...{ requests: 1, retries: 0, rate_limited: 0, splits: 0 },
    };
    await history.appendWindows(entry, [window, { ...window, rows: 8 }]);
    await appendFile(history.files(entry).windows, '{"at":"2026');
    expect((await history.readWindows(entry)).map(({ rows }) => rows)).toEqual([7, 8]);
  });

  it('is forgotten with its windows and log after 90 days, or when 1,000 newer ones are kept', async () => {
    const old = await begin(idAt(NOW - 91 * DAY), NOW - 91 * DAY);
    await writeFile(history.files(old).log, 'line');
    const kept = await begin(idAt(NOW - 89 * DAY), NOW - 89 * DAY);
    expect((await history.listIds()).length).toBe(2);
    const last = await begin(idAt(NOW));
    expect(await history.listIds()).toEqual([last.id, kept.id]);
    expect(await readdir(join(folder, 'nightly', 'logs'))).toEqual([]);
    const runs = join(folder, 'nightly', 'runs');
    for (let index = 1; index <= 1_100; index += 1)
      await writeFile(join(runs, `${idAt(NOW + index * 1_000)}.json`), '{}');
    const newest = await begin(idAt(NOW + 2_000_000), NOW + 2_000_000);
    const ids = await history.listIds();
    expect([ids.length, ids[0], ids.at(-1)]).toEqual([1_000, newest.id, idAt(NOW + 102_000)]);
  });

  it('is not pushed out by staging, which is listed only when asked for', async () => {
    const run = await begin(idAt(NOW));
    const staged = await begin(idAt(NOW + 1_000), NOW + 1_000, 'stage');
    expect(await history.listIds()).toEqual([run.id]);
    expect(await history.listIds(true)).toEqual([staged.id, run.id]);
  });

  it.each(['..', '../../etc/passwd', '20261123T183000Z-../x', '20261123T183000Z-', '', '20261123T183000Z-a/b', '\0'])(
    'is not found by the name %j',
    async (id) => {
      await begin(idAt(NOW));
      expect(await history.read(id)).toBeUndefined();
    },
  );

  it('of an unreadable file is no run, and the others are listed', async () => {
    const entry = await begin(idAt(NOW));
    await writeFile(join(folder, 'nightly', 'runs', '20261123T183001Z-bad.json'), '{"id":');
    await mkdir(join(folder, 'nightly', 'runs', '20261123T183002Z-dir.json'));
    expect((await history.list(9)).map(({ id }) => id)).toEqual([entry.id]);
  });
});

describe('the runs that the daemon keeps in memory', () => {
  it('are those of a restart, and follow what others write', async () => {
    const entry = await begin(idAt(NOW));
    const index = createRunIndex(folder);
    expect(index.of('nightly')).toEqual([]);
    await index.refresh(['nightly', 'never-ran']);
    expect(index.of('nightly').map(({ outcome }) => outcome)).toEqual([null]);
    await history.write({ ...entry, outcome: 'done', finished_at: '2026-11-23T18:31:00.000Z' });
    await begin(idAt(NOW + 1_000), NOW + 1_000);
    await index.refresh(['nightly']);
    expect(index.of('nightly').map(({ outcome }) => outcome)).toEqual([null, 'done']);
    await index.refresh([]);
    expect(index.of('nightly')).toEqual([]);
  });
});
