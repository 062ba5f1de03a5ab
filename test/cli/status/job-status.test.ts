/** What status reads of a store: how much it asks, what it believes, and what it says when the store cannot be read. */

import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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
import { FAKE_START } from '../../support/fake-clock.ts';
import { faultStore } from '../../support/fault-store.ts';
import { makeFolder } from '../../support/flowdrop.ts';
import { createDraft } from '../../support/manifest.ts';

const NOW = FAKE_START;

/** What lies in the place of a drop: of another size in each revision. */
const rowsOf = (revision: number) => Buffer.from('rows'.repeat(revision));

const createManifest = (date: string, changes: { readonly rows?: number; readonly revision?: number } = {}) => {
  const { rows = 1_000, revision = 1 } = changes;
  const draft = createDraft({ job_id: 'nightly', date, rows });
  const file = { filename: dropFilename('trades'), size: rowsOf(revision).length, hash: 'sha256:0' };
  return signManifest({ ...draft, files: [file], revision, supersedes: revision === 1 ? null : revision - 1 });
};

const JOB = parseJob(
  'nightly.yaml',
  'name: nightly\nsource:\n  api: historical\ndrop:\n  to: drops\n  dataset: trades\n',
);

let root: string;
let remove: () => Promise<void>;
beforeAll(async () => {
  ({ path: root, remove } = await makeFolder());
});
afterAll(async () => await remove());

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

const deps = (name: string, openStore: () => Promise<Store>) => ({
  clock: { now: () => NOW, sleep: async () => undefined },
  readCalendar: async () => NO_OVERRIDE,
  stateDir: join(root, 'state', name),
  sourceUrl: () => 'http://127.0.0.1',
  readKeyFingerprint: () => '',
  openStore,
});

describe('the status document', () => {
  it('costs as many requests for 250 dates as for 15, and none for a manifest', async () => {
    const all = listSessions('2025-11-01', '2026-11-19');
    const costs: number[] = [];
    for (const count of [15, 250]) {
      const counting = faultStore(await makeStore(`cost-${count}`, all.slice(-count)));
      const { document } = await readStatus(
        deps('cost', async () => counting),
        JOB,
      );
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
    const read = async (recentWeeks?: number) => {
      const { document } = await readStatus(
        deps('recent', async () => store),
        JOB,
        recentWeeks,
      );
      return document.dates.filter(({ damage }) => damage !== null).map(({ date }) => date);
    };
    expect(await read()).toEqual(['2026-09-01', '2026-11-02', '2026-11-18']);
    expect(await read(3)).toEqual(['2026-11-02', '2026-11-18']);
    expect(await read(1)).toEqual(['2026-11-18']);
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
    const { document } = await readStatus(
      deps('step', async () => counting),
      JOB,
    );
    expect(document.dates.map(({ date, condition, rows, revision }) => [date, condition, rows, revision])).toEqual([
      ['2026-11-13', 'degraded', null, null],
      ['2026-11-16', 'available', 999, 1],
      ['2026-11-17', 'available', 1_000, 1],
      ['2026-11-18', 'available', 1_001, 2],
      ['2026-11-19', 'available', 1_000, 1],
    ]);
    expect(counting.calls).toHaveLength(5 + 3);
  });

  it('does not take a fault of the program for one of the store', async () => {
    const broken = async () => {
      throw new TypeError('undefined is not a function');
    };
    await expect(readStatus(deps('broken', broken), JOB)).rejects.toThrow(TypeError);
  });

  it('lists the newest sixty copies of mailed reports, newest date and revision first', async () => {
    const store = await openDirectoryStore(join(root, 'reports'));
    const dates = listSessions('2026-06-01', '2026-11-19');
    for (const date of dates) await archive(store, date, 'flow-1', 1, 'report.html');
    await archive(store, '2026-11-19', 'flow-1', 2, 'report-0a1b2c3d.html');
    const { document } = await readStatus(
      deps('reports', async () => await openDirectoryStore(join(root, 'reports'))),
      JOB,
    );
    expect(document.reports).toHaveLength(60);
    expect(document.reports.slice(0, 3)).toEqual([
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
    const read = async (choice: Parameters<typeof readArchivedPage>[2]) =>
      (await readArchivedPage(store, 'nightly', choice)).html;
    expect(await read({})).toBe('<p>2026-11-19 flow-1 2 report.html</p>');
    expect(await read({ date: '2026-11-19', revision: 1 })).toBe('<p>2026-11-19 flow-1 1 report.html</p>');
    expect(await read({ date: '2026-11-18', report: 'flow-1' })).toBe('<p>2026-11-18 flow-1 1 report.html</p>');
    await expect(read({ date: '2026-11-20' })).rejects.toMatchObject({
      code: 'REPORT_NOT_ARCHIVED',
      kind: 'usage',
      hint: 'Available: 2026-11-19 flow-1 revision 2; 2026-11-19 flow-1 revision 1; 2026-11-18 flow-1 revision 1.',
    });
    await archive(store, '2026-11-19', 'digest-2', 1, 'report.html');
    await expect(read({ date: '2026-11-19' })).rejects.toMatchObject({
      code: 'REPORT_AMBIGUOUS',
      message: 'nightly mailed several reports of 2026-11-19: digest-2, flow-1',
    });
  });
});
