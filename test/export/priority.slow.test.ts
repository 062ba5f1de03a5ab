/**
 * Who asks the shared budget in a hurry: exports of each kind of the API's dates, over a really running service, through a
 * pacer that notes what it was asked. What the pacer makes of it is tested in `test/source`.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CHAIN_PATH, HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { openDates } from '../../src/export/export.ts';
import { sealDate } from '../../src/export/export-dates.ts';
import { parseJob } from '../../src/job/parse.ts';
import { SNAPSHOT_COLUMNS } from '../../src/job/snapshot-columns.ts';
import { expiresAt } from '../../src/plan/dates.ts';
import type { OpenedSource } from '../../src/run/open-source.ts';
import type { ExportRun } from '../../src/run/run.ts';
import { createHistoricalSource } from '../../src/source/historical.ts';
import type { Pacer } from '../../src/source/pacer.ts';
import { createSnapshotClient } from '../../src/source/snapshot.ts';
import { ApiLimits } from '../../src/state/limits.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { EVENING, KEY, startTestService, type TestService } from '../service/running-service.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { createSilentLog } from '../support/log.ts';
import { createPacer } from '../support/pacer.ts';
import { createExportRun, openSnapshots, openSql } from '../support/run.ts';
import { createJob } from '../support/trades.ts';

/** On the evening of the 19th the lookback begins on the evening of the 4th: the 5th is whole, and goes with its opening. */
const EXPIRING = '2026-11-05';
const NEXT = '2026-11-06';
const YOUNGEST = '2026-11-19';
const SESSIONS = 11;

let service: TestService;
let engine: Engine;
let folder: string;
/** Whether each request to the budget was urgent. */
let asked: boolean[];

beforeAll(async () => {
  service = await startTestService({ generateSessions: SESSIONS, generateRows: 300 });
  engine = await openEmbeddedEngine();
});
afterAll(async () => {
  await engine.close();
  await service.stop();
});
beforeEach(async () => {
  asked = [];
  folder = await mkdtemp(join(tmpdir(), 'flowdrop-urgency-'));
  return () => rm(folder, { recursive: true, force: true });
});

/** A clock on which waiting takes no time, so that the budget's pace costs none. */
function createParts() {
  const clock = createFakeClock({ startMs: Date.parse(EVENING) });
  const real = createPacer(clock, { requestsPerSecond: 1000 });
  const pacer: Pacer = {
    ...real,
    acquire: async (options) => {
      asked.push(options?.urgent === true);
      await real.acquire(options);
    },
  };
  return { clock, pacer, log: createSilentLog() };
}

async function createContext(opened: OpenedSource, { clock }: ReturnType<typeof createParts>): Promise<ExportRun> {
  return createExportRun(opened, { engine, store: await openDirectoryStore(join(folder, 'out')), folder, clock });
}

const dated = (date: string) => ({ date, counts: undefined, rows: undefined, pages: 1, expiresAtMs: expiresAt(date) });

/** Exports one date of single trades. @returns what the budget was told of each request */
async function exportRows(date: string): Promise<readonly boolean[]> {
  const parts = createParts();
  const url = `${service.url}${HISTORICAL_PATH}`;
  const source = createHistoricalSource({ url, apiKey: KEY, expectsMeta: true, clockOffsetMs: 0 }, parts);
  const limits = new ApiLimits(join(folder, 'none.json'), url, parts.clock.now());
  const opened = openSql(createJob(), source, limits, { clock: parts.clock, clockRule: 'checked' });
  const context = await createContext(opened, parts);
  const outcome = await sealDate(context, openDates(opened), dated(date), false);
  expect(outcome).toMatchObject({ status: 'sealed' });
  return asked;
}

async function exportSnapshot(api: 'chain' | 'market-structure', date: string): Promise<readonly boolean[]> {
  const parts = createParts();
  const url = `${service.url}${api === 'chain' ? CHAIN_PATH : '/api/v1/market-structure'}`;
  const source = createSnapshotClient(
    { api, columns: SNAPSHOT_COLUMNS[api] },
    { url, apiKey: KEY, clockOffsetMs: 0 },
    parts,
  );
  const text = `name: ${api}\nsource: {api: ${api}, symbols: [SPY, QQQ]}\ndrop: {to: out, dataset: ${api}}\n`;
  const limits = new ApiLimits(join(folder, 'none.json'), source.url, parts.clock.now());
  const opened = openSnapshots(parseJob('job.yaml', text), source, limits);
  const context = await createContext(opened, parts);
  const outcome = await sealDate(context, openDates(opened), { ...dated(date), counts: [] }, false);
  expect(outcome).toMatchObject({ status: 'sealed' });
  return asked;
}

const EXPORTS = [
  ['single trades', exportRows],
  ['option chains', (date: string) => exportSnapshot('chain', date)],
  ['market structure', (date: string) => exportSnapshot('market-structure', date)],
] as const;

describe.each(EXPORTS)('an export of %s', (_what, exportOne) => {
  it('of a date that begins to expire within a day asks in a hurry, each time', async () => {
    expect(expiresAt(EXPIRING) - Date.parse(EVENING)).toBeLessThan(24 * 3_600_000);
    const urgent = await exportOne(EXPIRING);
    expect(urgent.length).toBeGreaterThanOrEqual(2);
    expect(new Set(urgent)).toEqual(new Set([true]));
  });

  it.each([NEXT, YOUNGEST])('of %s, which has more than a day left, never does', async (date) => {
    expect(expiresAt(date) - Date.parse(EVENING)).toBeGreaterThan(24 * 3_600_000);
    expect(new Set(await exportOne(date))).toEqual(new Set([false]));
  });
});
