/**
 * What a run makes of a store in which something is wrong at its start: decisions that cannot be carried out, and sealed
 * dates whose object is gone. The workers that left it are real, and so is the damage: objects are removed and written
 * over from outside. Decisions that can be finished are in `test/ledger/publish.slow.test.ts`.
 */
import { mkdir, readdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { listCauses } from '../../src/alert/alerts.ts';
import { describeCause } from '../../src/alert/cause-table.ts';
import { NO_OVERRIDE } from '../../src/calendar/session.ts';
import { readStatus } from '../../src/cli/status/read.ts';
import { hashFile } from '../../src/core/atomic-file.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { type RunOptions, runExport } from '../../src/export/export.ts';
import { readStoredDates } from '../../src/export/select-dates.ts';
import type { SqlJob } from '../../src/job/job.ts';
import {
  conditionKey,
  dropKey,
  dropsPrefix,
  fileKey,
  historyKey,
  manifestKey,
  QUARANTINE_FILENAME,
  recordsPrefix,
  SUMMARY_FILENAME,
  sealingDecisionKey,
  sealingPrefix,
} from '../../src/ledger/layout.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { formatManifest, type Manifest, signManifest } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { auditDrop } from '../../src/seal/audit.ts';
import { auditConditions, auditHistory, listLeftovers } from '../../src/seal/audit-dataset.ts';
import { discardStages } from '../../src/stage/stage-table.ts';
import { makeScratchFolder, openJobState } from '../../src/state/job-state.ts';
import { RunHistory } from '../../src/state/run-history.ts';
import { judgeRun, type RunResult } from '../../src/state/run-result.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { createAlertJob, createRunFacts } from '../support/alerts.ts';
import { useCleanups } from '../support/cleanups.ts';
import { createEngineSource, createTradesTable, type EngineSource, insertTrades } from '../support/engine-source.ts';
import { at, Died, dieAt, faultStore, wait } from '../support/fault-store.ts';
import { createKeptLog, type KeptLog } from '../support/log.ts';
import { createDraft, parseManifest } from '../support/manifest.ts';
import { createRun } from '../support/run.ts';
import { listKeys, readText } from '../support/store-keys.ts';
import { createJob, createTrade, createTrades, DATE } from '../support/trades.ts';

const ROWS = 60;
const NOW = Date.parse('2026-11-20T03:00:00Z');
/** The session before `DATE`, and one that has left the lookback. */
const OTHER = '2026-11-18';
const EXPIRED = '2026-11-03';
const job = createJob();

const { folder: makeFolder, keep } = useCleanups();
let folder: string;
let root: string;
const engine = await keep(openEmbeddedEngine());
let store: Store;
const ledger = () => new Ledger(store, 'trades');
let source: EngineSource;
let kept: KeptLog;

beforeAll(async () => {
  await createTradesTable(engine);
  for (const date of [DATE, OTHER]) {
    const rows = createTrades(ROWS).map((row) => ({ ...row, date, time: String(row['time']).replace(DATE, date) }));
    await insertTrades(engine, rows);
  }
});
beforeEach(async () => {
  folder = await makeFolder();
  root = join(folder, 'store');
  store = await openDirectoryStore(root);
  for (const date of [DATE, OTHER]) await discardStages(engine, date);
});
afterEach(async () => await store.close());

async function run(options: RunOptions = {}, own: Store = store, of: SqlJob = job): Promise<RunResult> {
  source = createEngineSource(engine, { rowLimit: 200, meta: true, nowMs: NOW });
  kept = createKeptLog();
  const context = await createRun({ job: of, engine, store: own, source, folder, log: kept.log });
  const { result, audit } = await runExport(context, options);
  return (await audit?.()) ?? result;
}

const statuses = ({ dates }: RunResult) => dates.map(({ date, status, revision }) => [date, status, revision]);
const logged = (event: string) => kept.records.filter((record) => record['event'] === event);

/** A worker that decides to seal these bytes, and dies before it copies them. */
async function leaveDecision(date: string, bytes: string, supersedes?: Manifest): Promise<Manifest> {
  const path = join(folder, `left-${date}`);
  await writeFile(path, bytes);
  const dying = faultStore(store, dieAt(/^copy /));
  await expect(
    publishDrop(new Ledger(dying, 'trades'), { drop: path }, createDraft({ date }), { supersedes }),
  ).rejects.toThrow(Died);
  const key = sealingDecisionKey('trades', date, (supersedes?.revision ?? 0) + 1);
  return parseManifest((await store.get(key)) ?? Buffer.from(''));
}

/** The bytes of a manifest with some members otherwise, signed as a worker would. */
function resign({ manifest_hash: _, ...draft }: Manifest, changes: Partial<Manifest>): Uint8Array {
  return formatManifest(signManifest({ ...draft, ...changes }));
}

/** What is sealed of a date; nothing is not expected. */
async function readSealed(date = DATE): Promise<Manifest> {
  const manifest = await ledger().manifest(date);
  if (manifest === undefined) throw new TypeError(`${date} is not sealed`);
  return manifest;
}

/** The objects of a revision that is being sealed, but for its decision. */
const filesOf = async (date: string, revision = 1) =>
  (await listKeys(store, sealingPrefix('trades', date, revision))).filter((key) => !key.endsWith('decision.json'));

/** What `verify` says of a date and what is around it. */
async function verify(date: string): Promise<readonly string[]> {
  const deps = { ledger: ledger(), engine, folder: join(folder, 'verify') };
  const { findings, manifest } = await auditDrop(deps, date);
  const history = manifest ? (await auditHistory(deps, manifest)).findings : [];
  return [...findings, ...history, ...(await auditConditions(ledger(), new Map([[date, manifest]])))].filter(
    (finding) => finding.includes(date),
  );
}

describe('a decision that cannot be carried out', () => {
  /** For each of its files. */
  const eachFile = (damage: (path: string) => Promise<void>) => async () => {
    for (const key of await filesOf(DATE)) await damage(join(root, key));
  };
  const write = async (bytes: string | Uint8Array) =>
    await writeFile(join(root, sealingDecisionKey('trades', DATE, 1)), bytes);
  const damages: readonly (readonly [string, (decided: Manifest) => Promise<void>])[] = [
    ['whose file is gone', eachFile(async (path) => await rm(path))],
    ['whose file has other bytes of the same length', eachFile(async (path) => await writeFile(path, 'THEIR BYTES'))],
    ['whose file was cut short', eachFile(async (path) => await truncate(path, 4))],
    ['that is no JSON', async () => await write('{"manifest_version": 2, "da')],
    ['that was edited', async (decided) => await write(formatManifest({ ...decided, rows: 1_000_000 }))],
    [
      'of a version that has another shape',
      async () => await write(JSON.stringify({ manifest_version: 99, parts: [] })),
    ],
    ['of another dataset', async (decided) => await write(resign(decided, { dataset: 'quotes' }))],
  ];

  it.each(damages)('%s is set aside, its date is exported again, and the others go on', async (_, damage) => {
    await damage(await leaveDecision(DATE, 'their bytes'));
    const broken = await readText(store, sealingDecisionKey('trades', DATE, 1));
    const result = await run();
    expect(statuses(result)).toEqual([
      [OTHER, 'sealed', 1],
      [DATE, 'sealed', 1],
    ]);
    expect(judgeRun(result)).toBeUndefined();
    expect(await verify(DATE)).toEqual([]);
    const left = await listKeys(store, '_flowdrop/sealing/');
    expect(left.every((key) => key.startsWith(`_flowdrop/sealing/trades/set-aside/session=${DATE}/rev=1/`))).toBe(true);
    const decision = left.find((key) => key.endsWith('/decision.json')) ?? '';
    expect(await readText(store, decision)).toBe(broken);
    expect(logged('decision-set-aside')).toEqual([expect.objectContaining({ level: 40, date: DATE, revision: 1 })]);
    expect(await listLeftovers(ledger())).toEqual([expect.stringContaining('was set aside')]);
    // The next run has nothing more to do with it.
    expect(statuses(await run())).toEqual([]);
    expect(await listKeys(store, '_flowdrop/sealing/')).toEqual(left);
  });

  it('of another date does not stop a backfill', async () => {
    await leaveDecision(OTHER, 'their bytes');
    for (const key of await filesOf(OTHER)) await rm(join(root, key));
    expect(statuses(await run({ range: { from: DATE, to: DATE } }))).toEqual([[DATE, 'sealed', 1]]);
    expect(await ledger().manifest(OTHER)).toBeUndefined();
    expect(statuses(await run())).toEqual([[OTHER, 'sealed', 1]]);
  });

  it('keeps what lay beside it readable, where that may be all there is of the date', async () => {
    await leaveDecision(EXPIRED, 'their bytes');
    await writeFile(join(root, sealingDecisionKey('trades', EXPIRED, 1)), 'damaged');
    const result = await run();
    expect(statuses(result)).toHaveLength(2);
    const left = await listKeys(store, '_flowdrop/sealing/trades/set-aside/');
    const file = left.find((key) => key.endsWith('.parquet')) ?? '';
    expect(await readText(store, file)).toBe('their bytes');
  });

  it('is carried out all the same when what it names was copied already', async () => {
    const decided = await leaveDecision(DATE, 'their bytes');
    const [file = ''] = await filesOf(DATE);
    await store.copy(file, dropKey('trades', DATE));
    await store.remove(file);
    expect(statuses(await run())).toEqual([[OTHER, 'sealed', 1]]);
    expect(await ledger().manifest(DATE)).toEqual(decided);
    expect(await readText(store, dropKey('trades', DATE))).toBe('their bytes');
  });

  it.each([
    ['leaves the sealed revision as it is, and the date is compared with the source again', false],
    ['that had begun to replace the object puts the sealed one back', true],
  ])('for a restatement %s', async (_, hasBegun) => {
    await run();
    const sealed = await readSealed();
    await leaveDecision(DATE, 'their bytes', sealed);
    if (hasBegun) await writeFile(join(root, dropKey('trades', DATE)), 'their');
    for (const key of await filesOf(DATE, 2)) await rm(join(root, key));
    expect(statuses(await run())).toEqual([[DATE, 'unchanged', 1]]);
    expect(await readSealed()).toEqual(sealed);
    expect(await verify(DATE)).toEqual([]);
  });

  it('of a revision that nothing is there to be replaced by is never published', async () => {
    await run();
    await leaveDecision(DATE, 'their bytes', await ledger().manifest(DATE));
    await store.remove(manifestKey('trades', DATE));
    // Above the first one, which the history has.
    expect(statuses(await run())).toEqual([[DATE, 'sealed', 2]]);
    expect(statuses(await run())).toEqual([]);
    expect(await ledger().manifest(DATE)).toMatchObject({ revision: 2, rows: ROWS, supersedes: null });
    expect(await verify(DATE)).toEqual([]);
  });

  it('fails its own date only, where the store cannot be written', async () => {
    await leaveDecision(DATE, 'their bytes');
    // A file where the date's folder is to be.
    await mkdir(join(root, 'trades'), { recursive: true });
    await writeFile(join(root, dropsPrefix('trades', DATE).slice(0, -1)), '');
    const result = await run({ range: { from: OTHER, to: OTHER } });
    expect(statuses(result)).toEqual([
      [DATE, 'failed', undefined],
      [OTHER, 'sealed', 1],
    ]);
    expect(judgeRun(result)).toBe('failed');
    expect(logged('decision-unfinished')).toHaveLength(1);
  });

  it('is void where the sealed manifest is damaged: the date is sealed anew', async () => {
    await run({ range: { from: DATE, to: DATE } });
    await leaveDecision(DATE, 'their bytes', await ledger().manifest(DATE));
    await writeFile(join(root, manifestKey('trades', DATE)), '{');
    const result = await run();
    expect(statuses(result)).toEqual([
      [OTHER, 'sealed', 1],
      [DATE, 'sealed', 3],
    ]);
    await run();
    expect(await store.head(sealingDecisionKey('trades', DATE, 2))).toBeUndefined();
    expect(await verify(DATE)).toEqual([]);
  });
});

it('a damaged manifest in the history is written again when its revision is replaced', async () => {
  await run();
  const first = await ledger().manifest(DATE);
  await leaveDecision(DATE, 'their bytes', first);
  await store.put(historyKey('trades', DATE, 1, 'manifest.json'), { bytes: Buffer.from('{') });
  await run();
  const history = await store.get(historyKey('trades', DATE, 1, 'manifest.json'));
  expect(parseManifest(history ?? Buffer.from(''))).toEqual(first);
});

const FILE_DAMAGES: readonly (readonly [string, (path: string) => Promise<void>])[] = [
  ['is gone', async (path) => await rm(path)],
  ['has another size', async (path) => await truncate(path, 100)],
];

describe('a sealed date whose object', () => {
  it.each(FILE_DAMAGES)(
    '%s is exported again while the source has it whole, and verifies afterwards',
    async (_, damage) => {
      await run();
      await damage(join(root, dropKey('trades', DATE)));
      const result = await run();
      expect(statuses(result)).toEqual([[DATE, 'sealed', 2]]);
      expect(result).toMatchObject({ damaged: {}, gaps: [], lost: [] });
      expect(judgeRun(result)).toBeUndefined();
      expect(logged('drop-damaged')).toEqual([expect.objectContaining({ level: 50, date: DATE })]);
      expect(await ledger().manifest(DATE)).toMatchObject({ revision: 2, changes: null });
      expect(await verify(DATE)).toEqual([]);
      expect(statuses(await run())).toEqual([]);
    },
  );

  it('is gone is told by every run and by status when the source has it no more, and never called available', async () => {
    await run();
    const expired = resign(await readSealed(), { date: EXPIRED });
    await store.put(manifestKey('trades', EXPIRED), { bytes: expired });
    for (const time of ['first', 'again']) {
      const result = await run();
      expect([time, result.damaged]).toEqual([
        time,
        { [EXPIRED]: expect.stringContaining(`${dropKey('trades', EXPIRED)} is missing`) },
      ]);
      expect(result.conditions[EXPIRED]).toBe('degraded');
      // The sessions in between have no rows here, which is another matter.
      expect(judgeRun({ ...result, gaps: [], lost: [] })).toBe('incomplete');
      expect(await readText(store, conditionKey('trades'))).toContain('is missing');
      const causes = listCauses(createRunFacts({ result })).filter(({ date }) => date === EXPIRED);
      expect(causes).toEqual([expect.objectContaining({ kind: 'date-degraded', date: EXPIRED, code: 'DROP_DAMAGED' })]);
      const titles = causes.map((cause) => describeCause(cause, createAlertJob(), (text) => text).title);
      expect(titles).toEqual([`${EXPIRED} is damaged in the store`]);
    }
    const { document } = await readStatus(
      {
        clock: { now: () => NOW, sleep: async () => undefined },
        readCalendar: async () => NO_OVERRIDE,
        stateDir: folder,
        sourceUrl: () => 'http://127.0.0.1',
        readKeyFingerprint: () => '',
        openStore: () => openDirectoryStore(root),
      },
      job,
    );
    expect(document.dates.find(({ date }) => date === EXPIRED)).toMatchObject({
      condition: 'degraded',
      damage: expect.stringContaining('is missing'),
    });
    // Restored by hand, from a backup or an older version.
    await store.copy(dropKey('trades', DATE), dropKey('trades', EXPIRED));
    const healed = await run();
    expect(healed).toMatchObject({ damaged: {}, conditions: { [EXPIRED]: 'available' } });
    expect(judgeRun({ ...healed, gaps: [], lost: [] })).toBeUndefined();
  });

  it('is whole is not read by a run, which asks the store for little else', async () => {
    await run();
    const counting = faultStore(store);
    await run({}, counting);
    expect(counting.calls.filter((call) => call.includes('trades.parquet'))).toEqual([]);
    expect(counting.calls.length).toBeLessThanOrEqual(26);
  });

  it('is being replaced by another worker is not taken for damaged', async () => {
    await run();
    const sealed = await ledger().manifest(DATE);
    await leaveDecision(DATE, 'their bytes', sealed);
    const [file = ''] = await filesOf(DATE, 2);
    await store.copy(file, dropKey('trades', DATE));

    const { damaged } = await readStoredDates(
      ledger(),
      openJobState(folder, job.name),
      new RunHistory(folder, job.name),
    );
    expect(damaged).toEqual(new Map());
  });
});

describe('a sealed date whose summary', () => {
  const summaryPath = (date: string) => join(root, recordsPrefix('trades', date), SUMMARY_FILENAME);

  it.each(FILE_DAMAGES)(
    '%s has it rebuilt from the drop by the next run, byte for byte, without a request',
    async (_, damage) => {
      await run();
      const sealed = await ledger().manifest(DATE);
      const before = await readFile(summaryPath(DATE));
      await damage(summaryPath(DATE));
      const result = await run();
      expect(statuses(result)).toEqual([]);
      expect(source.pages()).toEqual([]);
      expect(result).toMatchObject({ damaged: {}, gaps: [], conditions: { [DATE]: 'available' } });
      expect(logged('summary-rebuilt')).toEqual([expect.objectContaining({ level: 40, date: DATE, how: 'restored' })]);
      expect(logged('drop-damaged')).toEqual([]);
      expect(await readFile(summaryPath(DATE))).toEqual(before);
      expect(await ledger().manifest(DATE)).toEqual(sealed);
      expect(await verify(DATE)).toEqual([]);
      await run();
      expect(logged('summary-rebuilt')).toEqual([]);
    },
  );

  it('is put back by another worker meanwhile is not taken for damaged', async () => {
    await run();
    const before = await readFile(summaryPath(DATE));
    await rm(summaryPath(DATE));
    const restore = wait(async () => await writeFile(summaryPath(DATE), before));
    const result = await run({}, faultStore(store, at(/^download .*summary/, restore, 1)));
    expect([statuses(result), source.pages(), result.damaged]).toEqual([[], [], {}]);
    expect([...logged('drop-damaged'), ...logged('summary-rebuilt')]).toEqual([]);
  });

  /** A date that has left the lookback, sealed as `DATE` was. */
  async function sealExpired(expired = EXPIRED): Promise<void> {
    const sealed = await readSealed();
    for (const { filename } of sealed.files)
      await store.copy(fileKey('trades', DATE, filename), fileKey('trades', expired, filename));
    await store.put(manifestKey('trades', expired), { bytes: resign(sealed, { date: expired }) });
  }

  it('is gone has it rebuilt also where the source has the date no more', async () => {
    await run();
    await sealExpired();
    await run();
    await rm(summaryPath(EXPIRED));
    const result = await run();
    expect(result).toMatchObject({ damaged: {}, conditions: { [EXPIRED]: 'available' } });
    const files = (await ledger().manifest(EXPIRED))?.files;
    expect(files?.map(({ hash }) => hash)).toContain(`sha256:${await hashFile(summaryPath(EXPIRED))}`);
  });

  it('is gone costs a download of at most 30 drops, of the newest dates, and none of a drop of another size', async () => {
    await run();
    const dates = Array.from({ length: 31 }, (_, k) => `2026-10-${String(k + 1).padStart(2, '0')}`);
    for (const date of [...dates, EXPIRED]) {
      await sealExpired(date);
      await rm(summaryPath(date));
      const path = join(root, dropKey('trades', date));
      if (date === EXPIRED) await truncate(path, 100);
      else await writeFile(path, Buffer.alloc((await readFile(path)).length));
    }
    const counting = faultStore(store);
    await run({}, counting);
    const asked = dates.filter((date) => counting.calls.includes(`download ${dropKey('trades', date)}`));
    expect(asked).toEqual(dates.slice(2));
    expect(counting.calls).not.toContain(`download ${dropKey('trades', EXPIRED)}`);
  });

  it('was of another version of the engine is sealed with its drop as the next revision', async () => {
    await run();
    const sealed = await readSealed();
    const [drop, ...others] = sealed.files;
    const older = others.map((file) => ({ ...file, hash: `sha256:${'0'.repeat(64)}` }));
    await store.put(manifestKey('trades', DATE), { bytes: resign(sealed, { files: [drop, ...older] }) });
    await rm(summaryPath(DATE));
    const result = await run();
    expect(statuses(result)).toEqual([]);
    expect(source.pages()).toEqual([]);
    expect(logged('summary-rebuilt')).toEqual([expect.objectContaining({ date: DATE, how: 'resealed' })]);
    expect(await ledger().manifest(DATE)).toMatchObject({
      ...{ revision: 2, supersedes: 1, changes: null, rows: ROWS, condition: 'available' },
      files: sealed.files,
    });
    expect(await verify(DATE)).toEqual([]);
    await run();
    expect(logged('summary-rebuilt')).toEqual([]);
  });

  it('is gone beside a drop of other bytes is not made from those: the date is exported again', async () => {
    await run();
    const path = join(root, dropKey('trades', DATE));
    const bytes = await readFile(path);
    bytes[100] = (bytes[100] ?? 0) ^ 0xff;
    await writeFile(path, bytes);
    await rm(summaryPath(DATE));
    const result = await run();
    expect(statuses(result)).toEqual([[DATE, 'sealed', 2]]);
    expect(logged('drop-damaged')).toHaveLength(1);
    expect(await verify(DATE)).toEqual([]);
  });
});

it('a quarantine that is gone has its date exported again, and comes back with the next revision', async () => {
  const odd = createTrade(ROWS, { updated_timestamp: 'no number' });
  const tolerant = createJob('}\nrows: {on_bad: quarantine, max: 0.5');
  await insertTrades(engine, [odd]);
  try {
    await run({}, store, tolerant);
    const path = join(root, recordsPrefix('trades', DATE), QUARANTINE_FILENAME);
    const before = await readFile(path, 'utf8');
    await rm(path);
    const result = await run({}, store, tolerant);
    expect(statuses(result)).toEqual([[DATE, 'sealed', 2]]);
    expect(await readFile(path, 'utf8')).toBe(before);
    expect(await verify(DATE)).toEqual([]);
    expect(statuses(await run({}, store, tolerant))).toEqual([]);
  } finally {
    await engine.command(`ALTER TABLE RawOptionTrades DELETE WHERE id = '${odd['id']}' SETTINGS mutations_sync = 2`);
  }
});

/** A minute more than a day ago, in seconds. */
const OLD = NOW / 1000 - 86_400 - 60;

it('files under _flowdrop/sealing/ that no decision names are removed a day after they were written, and not before', async () => {
  const place = join(root, sealingPrefix('trades', EXPIRED, 1));
  await mkdir(place, { recursive: true });
  for (const name of ['0a.parquet', '0b.parquet']) await writeFile(join(place, name), 'rows');
  await utimes(join(place, '0a.parquet'), OLD, OLD);
  await utimes(join(place, '0b.parquet'), OLD + 120, OLD + 120);
  expect(await listLeftovers(ledger())).toEqual([expect.stringContaining('2 files of')]);
  await run();
  expect(await readdir(place)).toEqual(['0b.parquet']);
  expect(logged('leftovers-removed')).toHaveLength(1);
});

describe('local files of workers that were killed', () => {
  it('are removed when a run begins, but for the newest drop', async () => {
    await run();
    const state = openJobState(folder, job.name);
    const [disk] = await engine.rows<{ path: string }>("SELECT path FROM system.disks WHERE name = 'default'");
    const spool = join(disk?.path ?? '', 'pages', 'stage__2026_11_03__0a');
    await mkdir(spool, { recursive: true });
    await writeFile(join(spool, 'page.json'), '[]');
    for (const name of [`${EXPIRED}.parquet`, `${DATE}.parquet.summary`, 'finish.history', `${DATE}.parquet.sealed`]) {
      await writeFile(join(state.drops, name), 'x');
    }
    const [old, young] = ['.flowdrop-0123456789abcdef.tmp', '.flowdrop-fedcba9876543210.tmp'];
    for (const name of [old, young]) await writeFile(join(state.drops, '..', name), 'x');
    await utimes(join(state.drops, '..', old), OLD, OLD);
    await utimes(join(state.drops, '..', young), OLD + 120, OLD + 120);
    await run();
    expect(await readdir(state.drops)).toEqual([`${DATE}.parquet`]);
    await expect(readdir(spool)).rejects.toMatchObject({ code: 'ENOENT' });
    const left = await readdir(join(state.drops, '..'));
    expect(left.filter((name) => name.endsWith('.tmp'))).toEqual([young]);
  });

  it('of `verify` are removed a day later by the next one', async () => {
    const [old, young] = ['verify-000000', 'verify-111111'];
    for (const name of [old, young]) await mkdir(join(folder, name));
    await writeFile(join(folder, old, 'drop.parquet'), 'x');
    const yesterday = Date.now() / 1000 - 90_000;
    await utimes(join(folder, old), yesterday, yesterday);
    const own = await makeScratchFolder(folder, Date.now());
    const left = (await readdir(folder)).filter((name) => name.startsWith('verify-'));
    expect(left.sort()).toEqual([young, basename(own)].sort());
  });
});
