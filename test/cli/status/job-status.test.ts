/** What status reads of a store: how much it asks, what it believes, and what it says when the store cannot be read. */
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { listSessions, NO_OVERRIDE } from '../../../src/calendar/session.ts';
import { readStatus } from '../../../src/cli/status/read.ts';
import { statusSchema } from '../../../src/daemon/shapes.ts';
import { readArchivedPage } from '../../../src/deliver/report-copies.ts';
import { parseJob } from '../../../src/job/parse.ts';
import { describeSealed } from '../../../src/ledger/condition-file.ts';
import { dropFilename, dropKey, historyKey, manifestKey, reportCopyPrefix } from '../../../src/ledger/layout.ts';
import { Ledger } from '../../../src/ledger/ledger.ts';
import { signManifest } from '../../../src/ledger/manifest.ts';
import { openDirectoryStore } from '../../../src/store/directory.ts';
import type { Store } from '../../../src/store/store.ts';
import { useCleanups } from '../../support/cleanups.ts';
import { FAKE_START } from '../../support/fake-clock.ts';
import { faultStore } from '../../support/fault-store.ts';
import { createDraft } from '../../support/manifest.ts';

const NOW = FAKE_START;

/** What lies in the place of a drop: of another size in each revision. */
const rowsOf = (revision: number) => Buffer.from('rows'.repeat(revision));

const createManifest = (date: string, { rows = 1_000, revision = 1 } = {}) => {
  const draft = createDraft({ job_id: 'nightly', date, rows });
  const file = { filename: dropFilename('trades'), size: rowsOf(revision).length, hash: 'sha256:0' };
  return signManifest({ ...draft, files: [file], revision, supersedes: revision === 1 ? null : revision - 1 });
};

const JOB_TEXT = 'name: nightly\nsource: {api: historical}\ndrop: {to: drops, dataset: trades}\n';

let root: string;
const { folder } = useCleanups();
beforeAll(async () => {
  root = await folder();
});

async function makeStore(name: string, dates: readonly string[]): Promise<Store> {
  const store = await openDirectoryStore(join(root, name));
  const manifests = dates.map((date) => createManifest(date));
  for (const manifest of manifests) {
    await store.put(manifestKey('trades', manifest.date), { bytes: Buffer.from(JSON.stringify(manifest)) });
    await store.put(dropKey('trades', manifest.date), { bytes: rowsOf(1) });
  }
  const before = { entries: new Map(), text: '', fault: undefined };
  await new Ledger(store, 'trades').writeConditions(
    manifests.map((manifest) => describeSealed(manifest)),
    before,
  );
  return store;
}

async function read(store: Store | undefined, recentWeeks?: number, schedule = '', nowMs = NOW) {
  const openers = {
    clock: { now: () => nowMs, sleep: async () => undefined },
    readCalendar: async () => NO_OVERRIDE,
    stateDir: join(root, 'state'),
    sourceUrl: () => 'http://127.0.0.1',
    readKeyFingerprint: () => '',
    openStore: async () => {
      if (store === undefined) throw new TypeError('undefined is not a function');
      return store;
    },
  };
  return (await readStatus(openers, parseJob('x', JOB_TEXT + schedule), recentWeeks)).document;
}

describe('the status document', () => {
  it('costs as many requests for 250 dates as for 15, and none for a manifest', async () => {
    const all = listSessions('2025-11-01', '2026-11-19');
    const costs: number[] = [];
    for (const count of [15, 250]) {
      const counting = faultStore(await makeStore(`cost-${count}`, all.slice(-count)));
      const document = await read(counting);
      expect(document.dates).toHaveLength(count);
      expect(document.dates.every(({ rows, revision }) => rows === 1_000 && revision === 1)).toBe(true);
      expect(statusSchema.safeParse(document).success).toBe(true);
      costs.push(counting.calls.length);
    }
    expect(costs).toEqual([5, 5]);
  });

  it('looks only at the recent weeks where no more is shown, and takes earlier dates as recorded', async () => {
    const dates = ['2026-09-01', '2026-11-02', '2026-11-18', '2026-11-19'];
    const store = await makeStore('recent', dates);
    await store.remove(dropKey('trades', '2026-09-01'));
    await store.remove(dropKey('trades', '2026-11-02'));
    await store.remove(dropKey('trades', '2026-11-18'));
    await store.put(historyKey('trades', '2026-09-01', 1, 'manifest.json'), { bytes: Buffer.from('{}') });
    const damagedOf = async (recentWeeks?: number) =>
      (await read(store, recentWeeks)).dates.flatMap(({ date, damage }) => (damage === null ? [] : [date]));
    expect(await damagedOf()).toEqual(['2026-09-01', '2026-11-02', '2026-11-18']);
    expect(await damagedOf(3)).toEqual(['2026-11-02', '2026-11-18']);
    expect(await damagedOf(1)).toEqual(['2026-11-18']);
  });

  it('reads the manifest of a date that condition.json does not know, or knows in a revision that was replaced', async () => {
    const dates = ['2026-11-17', '2026-11-18', '2026-11-19'];
    const store = await makeStore('step', dates);
    const seal = async (date: string, changes: { rows: number; revision: number }) => {
      const manifest = createManifest(date, changes);
      await store.put(dropKey('trades', date), { bytes: rowsOf(changes.revision) });
      await store.put(manifestKey('trades', date), { bytes: Buffer.from(JSON.stringify(manifest)) });
    };
    await store.put(historyKey('trades', '2026-11-18', 1, 'manifest.json'), { bytes: Buffer.from('{}') });
    await seal('2026-11-18', { rows: 1_001, revision: 2 });
    await seal('2026-11-16', { rows: 999, revision: 1 });
    await store.put(manifestKey('trades', '2026-11-13'), { bytes: Buffer.from('{ damaged') });
    const counting = faultStore(store);
    const document = await read(counting);
    expect(document.dates.map(({ date, condition, rows, revision }) => [date, condition, rows, revision])).toEqual([
      ['2026-11-13', 'degraded', null, null],
      ['2026-11-16', 'available', 999, 1],
      ['2026-11-17', 'available', 1_000, 1],
      ['2026-11-18', 'available', 1_001, 2],
      ['2026-11-19', 'available', 1_000, 1],
    ]);
    expect(counting.calls).toHaveLength(5 + 3);
  });

  it('names the next tick as the daemon has it, also a time that the change of clocks skips', async () => {
    const store = await makeStore('ticks', []);
    const schedule = 'schedule: {cron: "30 2 * * 0", timezone: America/New_York}\n';
    const { next_run } = await read(store, undefined, schedule, Date.parse('2027-03-13T12:00:00Z'));
    expect(next_run).toBe('2027-03-14T07:00:00.000Z');
    expect((await read(store)).next_run).toBeNull();
  });

  it('does not take a fault of the program for one of the store', async () => {
    await expect(read(undefined)).rejects.toThrow(TypeError);
  });

  it('lists the newest sixty copies of mailed reports, newest date and revision first', async () => {
    const store = await openDirectoryStore(join(root, 'reports'));
    const dates = listSessions('2026-06-01', '2026-11-19');
    for (const date of dates) await archive(store, date, 'flow-1', 1, 'report.html');
    await archive(store, '2026-11-19', 'flow-1', 2, 'report-0a1b2c3d.html');
    const { reports } = await read(store);
    expect(reports).toHaveLength(60);
    expect(reports.slice(0, 3)).toEqual([
      { date: '2026-11-19', report: 'flow-1', revision: 2 },
      { date: '2026-11-19', report: 'flow-1', revision: 1 },
      { date: '2026-11-18', report: 'flow-1', revision: 1 },
    ]);
  });
});

const archive = async (store: Store, date: string, report: string, revision: number, name: string) => {
  const key = `${reportCopyPrefix('nightly', date, report, revision)}${name}`;
  await store.put(key, { bytes: Buffer.from(`<p>${date} ${report} ${revision} ${name}</p>`) });
};

describe('the page of a mailed report', () => {
  it('is the newest revision of the newest date unless others are asked for, and the usual reader’s', async () => {
    const store = await openDirectoryStore(join(root, 'pages'));
    await archive(store, '2026-11-18', 'flow-1', 1, 'report.html');
    await archive(store, '2026-11-19', 'flow-1', 1, 'report.html');
    await archive(store, '2026-11-19', 'flow-1', 2, 'report-0a1b2c3d.html');
    await archive(store, '2026-11-19', 'flow-1', 2, 'report.html');
    await store.put('_flowdrop/reports/nightly/session=2026-11-20/flow-1/receipt/v1.json', {
      bytes: Buffer.from('{}'),
    });
    const show = async (choice: Parameters<typeof readArchivedPage>[2]) =>
      (await readArchivedPage(store, 'nightly', choice)).html;
    expect(await show({})).toBe('<p>2026-11-19 flow-1 2 report.html</p>');
    expect(await show({ date: '2026-11-19', revision: 1 })).toBe('<p>2026-11-19 flow-1 1 report.html</p>');
    expect(await show({ date: '2026-11-18', report: 'flow-1' })).toBe('<p>2026-11-18 flow-1 1 report.html</p>');
    await expect(show({ date: '2026-11-20' })).rejects.toMatchObject({
      code: 'REPORT_NOT_ARCHIVED',
      kind: 'usage',
      hint: 'Available: 2026-11-19 flow-1 revision 2; 2026-11-19 flow-1 revision 1; 2026-11-18 flow-1 revision 1.',
    });
    await archive(store, '2026-11-19', 'digest-2', 1, 'report.html');
    await expect(show({ date: '2026-11-19' })).rejects.toMatchObject({
      code: 'REPORT_AMBIGUOUS',
      message: 'nightly mailed several reports of 2026-11-19: digest-2, flow-1',
    });
  });
});
