/**
 * Two lists against a running service, on both entry points: attacks, each of which must be refused with its own error and
 * show nothing from outside the two tables, and analysts' queries, each of which must be answered. Visibility under random
 * queries is tested in `visibility-property.slow.test.ts`.
 */
import { readdirSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ENVIRONMENT_CANARY } from '../support/engine-workers.ts';
import { hasProcesses, listChildren, readEnvironment } from '../support/processes.ts';
import {
  ATTACK_GROUPS,
  type AttackGroup,
  createSeenTrades,
  listAttacks,
  QUERY_GROUPS,
  type Query,
} from '../support/sql-lists.ts';
import { type Reply, startTestService, type TestService } from './running-service.ts';
import { type TradeFile, writeTradeFile } from './trade-file.ts';

const MIN_ATTACKS = 300;
const MIN_QUERIES = 150;
const STATUS: Readonly<Record<string, number>> = {
  INVALID_REQUEST: 400,
  INVALID_SQL: 400,
  INVALID_QUERY: 422,
  QUERY_TOO_BROAD: 422,
};
/** A refusal takes milliseconds; this leaves room for a busy machine. */
const MAX_REFUSAL_MS = 5_000;

/** What no answer may hold, each planted where an attack could reach it. */
const FILE_CANARY = 'canary-in-a-file-5f1c';
const HIDDEN_CANARY = 'HIDDEN-CANARY';
const CANARIES: readonly RegExp[] = [
  new RegExp(FILE_CANARY, 'i'),
  new RegExp(ENVIRONMENT_CANARY, 'i'),
  new RegExp(HIDDEN_CANARY, 'i'),
  // Names of the service's own databases, versions and messages of the engine.
  /_[0-9a-f]{16,}/i,
  /\b2\d\.\d{1,2}\.\d+\.\d+\b/,
  /DB::|Exception|\bStack trace\b|clickhouse|chdb-/i,
];
/** Where the service runs; an answer may repeat such a text only when the caller wrote it. */
const PLACES: readonly string[] = [hostname(), process.cwd(), process.execPath].filter((place) => place.length > 3);

const attackCount = countQueries(ATTACK_GROUPS);
const queryCount = countQueries(QUERY_GROUPS);

let file: TradeFile;
let places: readonly string[];
let planted: readonly string[];
/** Processes that other tests have left for the next. */
let others: readonly number[];
let service: TestService;
let refused = 0;
let answered = 0;

beforeAll(async () => {
  file = await writeTradeFile(createRows());
  await mkdir(join(file.folder, 'canary'));
  await writeFile(join(file.folder, 'canary', 'canary.csv'), `${FILE_CANARY}\n`);
  planted = readdirSync(file.folder, { recursive: true, encoding: 'utf8' });
  places = [...PLACES, file.folder];
  others = await listChildren(process.pid);
  service = await startTestService({
    data: [file.path],
    generateSessions: 3,
    generateRows: 1_500,
    scanLimit: 200_000,
    order: 'symbol',
  });
});
afterAll(async () => {
  await service.stop();
  await file.remove();
});

// Skipped only where there is no /proc, which `support/processes.ts` says aloud.
test.skipIf(!hasProcesses)('the canary in the environment is where attacks run', async () => {
  const engines = (await listChildren(process.pid)).filter((pid) => !others.includes(pid));
  const planted = await Promise.all(engines.map(async (pid) => (await readEnvironment(pid))['FLOWDROP_CANARY']));
  // The writer, which parses, and the default number of engines.
  expect(planted).toEqual(Array.from({ length: 4 }, () => ENVIRONMENT_CANARY));
});

describe('attacks', () => {
  test.each(ATTACK_GROUPS.map((group) => [group.group, group] as const))('by %s are refused', async (_title, group) => {
    const failures: unknown[] = [];
    for (const attack of listExpected(group)) {
      const started = performance.now();
      const reply = await service.ask(attack.sql);
      const ms = performance.now() - started;
      const portalReply = await service.askPortal(attack.sql);
      const came = [reply.status, reply.body.errorCode, reply.body.reason];
      const wrong = [
        ...(JSON.stringify(came) === JSON.stringify(attack.expected) ? [] : [came]),
        ...('hints' in reply.body && reply.body.errorCode !== 'QUERY_TOO_BROAD' ? [reply.body.hints] : []),
        ...(portalReply.status === attack.expected[0] ? [] : [['portal', portalReply.status]]),
        ...(ms < MAX_REFUSAL_MS ? [] : [`${Math.round(ms)} ms`]),
        ...listLeaks(attack.sql, reply),
        ...listLeaks(attack.sql, portalReply),
      ];
      if (wrong.length > 0) failures.push({ sql: attack.sql.slice(0, 200), expected: attack.expected, wrong });
      else refused += 1;
    }
    expect(failures).toEqual([]);
  });

  test('leave no file behind, and a service that answers at once', async () => {
    expect(readdirSync(file.folder, { recursive: true, encoding: 'utf8' })).toEqual(planted);
    const started = performance.now();
    const reply = await service.ask("SELECT count() AS trades FROM RawOptionTrades WHERE symbol = 'SEEN'");
    expect([reply.status, reply.body.data]).toEqual([200, [{ trades: 40 }]]);
    expect(performance.now() - started).toBeLessThan(MAX_REFUSAL_MS);
  });
});

describe('analyst queries', () => {
  test.each(QUERY_GROUPS.map((group) => [group.group, group] as const))('of %s are answered', async (_title, group) => {
    const failures: unknown[] = [];
    for (const entry of group.queries) {
      const query = typeof entry === 'string' ? { sql: entry } : entry;
      const wrong = await checkQuery(query);
      if (wrong === undefined) answered += 1;
      else failures.push({ sql: query.sql, wrong });
    }
    expect(failures).toEqual([]);
  });

  test('mean the same at the separate entry point', async () => {
    const entries = QUERY_GROUPS.flatMap(({ queries }) => queries).filter((entry) => typeof entry !== 'string');
    for (const { sql, data } of entries) {
      if (!data) continue;
      const reply = await service.askPortal(sql);
      expect([sql, reply.status, reply.body.data]).toEqual([sql, 200, data]);
    }
  });
});

test('both lists are as long as they must be', () => {
  process.stdout.write(
    `attacks: ${refused} refused in ${ATTACK_GROUPS.length} groups; analyst queries: ${answered} answered in ${QUERY_GROUPS.length} groups\n`,
  );
  expect([refused, answered]).toEqual([attackCount, queryCount]);
  expect(attackCount).toBeGreaterThanOrEqual(MIN_ATTACKS);
  expect(queryCount).toBeGreaterThanOrEqual(MIN_QUERIES);
  expect(countDifferent(ATTACK_GROUPS)).toBe(attackCount);
  expect(countDifferent(QUERY_GROUPS)).toBe(queryCount);
});

/** @returns what is wrong with the answer */
async function checkQuery(query: Query): Promise<unknown> {
  const reply = await service.ask(query.sql);
  if (reply.status !== 200) return reply.text.slice(0, 300);
  const leaks = listLeaks(query.sql, reply);
  if (leaks.length > 0) return leaks;
  const data: readonly unknown[] = reply.body.data;
  if (query.data && JSON.stringify(data) !== JSON.stringify(query.data)) return data.slice(0, 5);
  if (query.same_as !== undefined) {
    const other = await service.ask(query.same_as);
    if (JSON.stringify(other.body.data) !== JSON.stringify(data)) {
      return { data: data.slice(0, 3), same_as: other.body.data?.slice(0, 3) ?? other.text.slice(0, 300) };
    }
  }
  const { rows = query.data ? query.data.length : 'some' } = query;
  if (rows === 'any' || (rows === 'some' ? data.length > 0 : data.length === rows)) return undefined;
  return `${data.length} rows`;
}

/** Forty trades in plain sight; and on both sides of it, younger than the delay and older than the lookback, hidden ones. */
function createRows() {
  const hidden = Array.from({ length: 40 }, (_, k) => ({
    id: `${HIDDEN_CANARY}-${k}`,
    time: k % 2 ? `2026-11-19 18:14:${String(k).padStart(2, '0')}` : `2026-11-04 18:0${k % 10}:00`,
    symbol: HIDDEN_CANARY,
    exchange: HIDDEN_CANARY,
    size: 0,
  }));
  return [...createSeenTrades(), ...hidden];
}

function listExpected(group: AttackGroup) {
  return listAttacks(group).map(({ sql, code, reason }) => ({
    sql: fillPlaces(sql),
    expected: [STATUS[code], code, reason],
  }));
}

function fillPlaces(sql: string): string {
  const folder = join(file.folder, 'canary');
  return sql.replaceAll('{canary_file}', join(folder, 'canary.csv')).replaceAll('{canary_folder}', folder);
}

function listLeaks(sql: string, reply: Reply): readonly string[] {
  const found = CANARIES.filter((canary) => canary.test(reply.text) && !canary.test(sql)).map(String);
  return [...found, ...places.filter((place) => reply.text.includes(place) && !sql.includes(place))];
}

function countQueries(groups: readonly { readonly queries: readonly unknown[] }[]): number {
  return groups.reduce((count, { queries }) => count + queries.length, 0);
}

function countDifferent(groups: readonly { readonly queries: readonly unknown[] }[]): number {
  return new Set(groups.flatMap(({ queries }) => queries.map((query) => JSON.stringify(query)))).size;
}
