/**
 * The archive answers as the service does: the list of analysts' queries and the list of attacks, asked of a running
 * service and of an archive over the drops that `flowdrop run` made from that very service. What is only the archive's
 * (pruning, S3, gaps) is in `archive.slow.test.ts`.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { isFault } from '../../src/core/errors.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { KEY, startTestService, type TestService } from '../service/running-service.ts';
import { type TradeFile, writeTradeFile } from '../service/trade-file.ts';
import { flowdrop, makeFolder } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { ATTACK_GROUPS, createSeenTrades, listAttacks, QUERY_GROUPS } from '../support/sql-lists.ts';
import { openTestArchive, type Row, type TestArchive } from './open-archive.ts';

/** Relative; sums of floats depend on the order of rows. */
const FLOAT_TOLERANCE = 1e-9;

/** Of the guard. */
const MAX_SQL_BYTES = 64 * 1024;

/**
 * Queries whose answer is no matter of the data, with the reason. Of these only the columns and the number of rows are
 * compared. Beside them stand those to which two services that sort the same rows differently give different answers:
 * which row comes first is then nobody's promise.
 */
const UNDETERMINED: readonly (readonly [(sql: string) => boolean, string])[] = [
  [(sql) => /\brand\(\)/i.test(sql), 'draws at random'],
  [(sql) => /\b(any|deltaSumTimestamp)\(/i.test(sql), 'takes whichever of several rows it meets first'],
  [(sql) => /\blimit\b/i.test(outermost(sql)) && !/\border by\b/i.test(outermost(sql)), 'takes any rows'],
];

let file: TradeFile;
let service: TestService;
let other: TestService;
let archive: TestArchive;
let folder: { readonly path: string; remove(): Promise<void> };
let same = 0;
let shapes = 0;

beforeAll(async () => {
  file = await writeTradeFile(createSeenTrades());
  const options = { data: [file.path], generateSessions: 3, generateRows: 1_500, scanLimit: 200_000 };
  service = await startTestService({ ...options, order: 'symbol' });
  other = await startTestService({ ...options, order: 'time' });
  folder = await makeFolder();
  const drops = join(folder.path, 'drops');
  // The attacks name tables of the service, `trades` among them: the archive has its dataset under its own name.
  const job = await writeJob(folder.path, { to: drops });
  await writeFile(job, (await readFile(job, 'utf8')).replace('dataset: trades', 'dataset: sealed'));
  const env = {
    FLOWDROP_API_URL: service.url,
    FLOWDROP_API_KEY: KEY,
    FLOWDROP_REQUESTS_PER_SECOND: '200',
    FLOWDROP_LOG_LEVEL: 'error',
  };
  const run = await flowdrop(['--jobs', folder.path, 'run', 'nightly'], { cwd: folder.path, env });
  expect([0, 3], run.stderr).toContain(run.code);
  archive = await openTestArchive(await openDirectoryStore(drops), { kind: 'directory', path: drops }, 'sealed', {
    types: 'api',
  });
  const { coverage } = await archive.rows('SELECT count() FROM sealed');
  expect(coverage.dates).toEqual(['2026-11-17', '2026-11-18', '2026-11-19']);
});
afterAll(async () => {
  await archive?.stop();
  await service?.stop();
  await other?.stop();
  await file?.remove();
  await folder?.remove();
});

describe('the archive', () => {
  test('holds every row of the service, in the same types', async () => {
    const all = `SELECT * FROM RawOptionTrades ORDER BY id`;
    const rows = await archive.rows(all);
    expect(rows.rows).toHaveLength(4_540);
    expect(rows.rows).toEqual((await service.ask(all)).body.data);
    const types = `SELECT ${TRADE_COLUMNS.map(({ name }) => `toTypeName(${name}) AS ${name}`).join(', ')} FROM RawOptionTrades LIMIT 1`;
    expect((await archive.rows(types)).rows).toEqual((await service.ask(types)).body.data);
  });

  test.each(QUERY_GROUPS.map((group) => [group.group, group] as const))(
    "answers analysts' queries of %s as the service does",
    async (_title, group) => {
      const failures: unknown[] = [];
      for (const entry of group.queries) {
        const sql = typeof entry === 'string' ? entry : entry.sql;
        const wrong = await compare(sql);
        if (wrong !== undefined) failures.push({ sql, wrong });
      }
      expect(failures).toEqual([]);
    },
  );

  test('was asked every query of the list, and most of the answers had to be the very same', () => {
    const count = QUERY_GROUPS.reduce((sum, { queries }) => sum + queries.length, 0);
    process.stdout.write(`queries: ${same} answered the same, ${shapes} of the same shape, of ${count}\n`);
    expect(same + shapes).toBe(count);
    expect(shapes).toBeLessThan(count / 4);
  });

  /** The archive lists its tables and their columns; the service does not. */
  const LISTS = /^(# SELECT\n)?SHOW TABLES$|^DESCRIBE TABLE RawOptionTrades$/;
  test.each(ATTACK_GROUPS.map((group) => [group.group, group] as const))(
    'refuses attacks by %s with the code of the service',
    async (_title, group) => {
      const canary = join(folder.path, 'canary');
      await mkdir(canary, { recursive: true });
      await writeFile(join(canary, 'canary.csv'), 'canary-in-a-file\n');
      const failures: unknown[] = [];
      for (const { sql, code } of listAttacks(group)) {
        const text = sql.replaceAll('{canary_file}', join(canary, 'canary.csv')).replaceAll('{canary_folder}', canary);
        const came = await archive.rows(text).catch((error: unknown) => error);
        const fault = isFault(came) ? came : undefined;
        const leaks = /canary-in-a|\b(archive|resolve)_[0-9a-f]{24}|flowdrop-archive-/.test(
          `${fault?.message} ${fault?.hint}`,
        );
        // A text that is longer than any may be is refused with the request's body by the service, and by the guard here.
        const isLong = code === 'INVALID_REQUEST' && Buffer.byteLength(text) > MAX_SQL_BYTES;
        const expected = LISTS.test(text) ? undefined : isLong ? 'INVALID_SQL' : code;
        if (fault?.code !== expected || leaks)
          failures.push({ sql: text.slice(0, 200), code, came: fault?.code ?? came, message: fault?.message });
      }
      expect(failures).toEqual([]);
    },
  );

  test('stays as it was after the attacks', async () => {
    expect((await archive.rows('SELECT count() AS n FROM RawOptionTrades')).rows).toEqual([{ n: 4_540 }]);
    expect(await readFile(join(folder.path, 'canary', 'canary.csv'), 'utf8')).toBe('canary-in-a-file\n');
  });
});

/** @returns what is wrong */
async function compare(sql: string): Promise<unknown> {
  const reply = await service.ask(sql);
  if (reply.status !== 200) return { status: reply.status, text: reply.text.slice(0, 300) };
  const expected: readonly Row[] = reply.body.data;
  const isOrdered = /\border by\b/i.test(outermost(sql));
  const answer = await archive.rows(sql).catch((error: unknown) => error);
  if (!(answer && typeof answer === 'object' && 'rows' in answer)) return answer;
  const { rows } = answer as { rows: readonly Row[] };
  if (areSame(expected, rows, isOrdered)) {
    same += 1;
    return undefined;
  }
  const isDetermined =
    !UNDETERMINED.some(([applies]) => applies(sql)) && areSame(expected, (await other.ask(sql)).body.data, isOrdered);
  if (!isDetermined && shapeOf(expected) === shapeOf(rows)) {
    shapes += 1;
    return undefined;
  }
  return { service: expected.slice(0, 3), archive: rows.slice(0, 3), sizes: [expected.length, rows.length] };
}

/** The statement without what stands in parentheses. */
function outermost(sql: string): string {
  const shorter = sql.replace(/\([^()]*\)/g, '');
  return shorter === sql ? sql : outermost(shorter);
}

function areSame(expected: readonly Row[], rows: readonly Row[], isOrdered: boolean): boolean {
  if (expected.length !== rows.length) return false;
  if (isOrdered) return isClose(expected, rows);
  const sorted = (list: readonly Row[]) => [...list].sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
  return isClose(sorted(expected), sorted(rows));
}

/** Floats are rounded, so that the last bit does not decide the order. */
function sortKey(row: Row): string {
  return JSON.stringify(row, (_key, value: unknown) => (typeof value === 'number' ? value.toPrecision(9) : value));
}

function isClose(a: unknown, b: unknown): boolean {
  if (typeof a === 'number' && typeof b === 'number') {
    return a === b || Math.abs(a - b) <= FLOAT_TOLERANCE * Math.max(Math.abs(a), Math.abs(b), Number.MIN_VALUE);
  }
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return (
    left.length === right.length &&
    left.every(([key, value], index) => key === right[index]?.[0] && isClose(value, right[index]?.[1]))
  );
}

function shapeOf(rows: readonly Row[]): string {
  return JSON.stringify([rows.length, ...(rows[0] ? Object.keys(rows[0]) : [])]);
}
