/**
 * Jobs that read a ClickHouse server's own table, run as a user runs them: over a server of today (the embedded engine
 * behind its HTTP interface) and over one that is too old (Debian's). What the client of the server does for `serve` is
 * tested in test/engine.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { closeSecond } from '../../src/calendar/session.ts';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { dropKey } from '../../src/ledger/layout.ts';
import { computeLookback } from '../../src/plan/dates.ts';
import type { RunResult } from '../../src/state/run-result.ts';
import { useCleanups } from '../support/cleanups.ts';
import {
  type ClickHouseFront,
  FRONT_DATABASE,
  FRONT_PASSWORD,
  startClickHouseFront,
} from '../support/clickhouse-front.ts';
import { startClickHouse } from '../support/clickhouse-server.ts';
import { queryDuckDb, readWithDuckDb } from '../support/drop.ts';
import { createTradesTable, insertRows, insertTrades } from '../support/engine-source.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { flowdrop, listFiles, readManifest } from '../support/flowdrop.ts';
import { createTrade, type TradeRow } from '../support/trades.ts';

const ROWS = 3_000;
/** Long before any lookback: a server forgets nothing. */
const OLD_DAY = '2025-03-03';
/** The last settled session, which a run without dates goes for. */
const RECENT_DAY = computeLookback(Date.now()).lastSettled ?? '';

const tradesOf = (date: string, from: number, count: number): readonly TradeRow[] =>
  Array.from({ length: count }, (_, k) => {
    const trade = createTrade(from + k);
    return { ...trade, date, time: `${date} ${String(trade['time']).slice(11)}` };
  });

/** The same in the last minute of the session. */
const lastTradesOf = (date: string, from: number, count: number): readonly TradeRow[] => {
  const time = `${date} ${formatSecond(closeSecond(date, 'equity') - 30)}`;
  return tradesOf(date, from, count).map((trade) => ({ ...trade, time }));
};

let front: ClickHouseFront;
const { folder, keep } = useCleanups();
let cwd: string;

beforeAll(async () => {
  front = await keep(startClickHouseFront());
  await createTradesTable(front.engine);
  await insertTrades(front.engine, tradesOf(OLD_DAY, 0, ROWS));
  await insertTrades(front.engine, lastTradesOf(RECENT_DAY, ROWS, 500));
  // The types that a desk would choose for its own copy, in an order of its own.
  await front.engine.command(`CREATE TABLE typed ENGINE = MergeTree ORDER BY (date, symbol) AS SELECT * REPLACE (
    toDate(date) AS date, toDateTime(time, 'UTC') AS time, toDate(expiration_date) AS expiration_date,
    CAST(symbol AS LowCardinality(String)) AS symbol, toDateOrNull(earning_date) AS earning_date,
    toInt64OrNull(market_cap) AS market_cap, CAST(iv AS Nullable(Float64)) AS iv, toUInt16(size) AS size,
    fromUnixTimestamp64Milli(toInt64(updated_timestamp), 'America/New_York') AS updated_timestamp
  ) FROM RawOptionTrades`);
});
beforeEach(async () => {
  cwd = await folder();
  front.onStatement = undefined;
});

async function writeTableJob(source: string, name = 'own-trades', checks = ''): Promise<string> {
  const path = join(cwd, `${name}.yaml`);
  await writeFile(
    path,
    `name: ${name}\nsource:\n  api: clickhouse\n${source}drop:\n  to: drops\n  dataset: ${name}\n${checks}`,
  );
  return path;
}

interface How {
  readonly url?: string;
  readonly code?: number;
}

const run = (args: readonly string[], { url = front.url, code = 0 }: How = {}) =>
  flowdrop(args, { cwd, env: { FLOWDROP_CLICKHOUSE_URL: url }, code });
const backfill = (job: string, how?: How) => run(['backfill', job, '--from', OLD_DAY, '--to', OLD_DAY], how);
const dropOf = (name: string) => join(cwd, 'drops', dropKey(name, OLD_DAY));
const manifestOf = (name: string) => readManifest(join(cwd, 'drops'), OLD_DAY, name);

describe('a job that reads a table of a ClickHouse server', () => {
  it.each(['RawOptionTrades', 'typed'])(
    'drops the rows of %s one for one, sorted and typed as every drop',
    async (table) => {
      const job = await writeTableJob(`  table: ${FRONT_DATABASE}.${table}\n`);
      await backfill(job);
      const wanted = new Map(tradesOf(OLD_DAY, 0, ROWS).map((row) => [row['id'], row]));
      const rows = await readWithDuckDb(dropOf('own-trades'));
      expect(rows.length).toBe(ROWS);
      for (const row of rows) expect(row).toEqual(wanted.get(String(row['id'])));
      const keys = rows.map((row) => [row['symbol'], row['time'], row['id']].join('\0'));
      expect(keys).toEqual([...keys].sort());
      const manifest = await manifestOf('own-trades');
      expect(manifest).toMatchObject({ rows: ROWS, source_rows: ROWS, duplicates: 0, condition: 'available' });
      expect(manifest.query).toMatchObject({ entry_point: 'clickhouse', url: `${front.origin}/default` });
      expect(manifest.schema.find(({ name }) => name === 'time')).toMatchObject({
        type: 'INT64/TIMESTAMP(MICROS,utc=false)',
      });
      const verified = await run(['verify', job, '--deep']);
      expect(verified.stdout).toMatch(/3,000 rows, same count at the source[\s\S]*1 recounted at the source/);
    },
  );

  it('streams Parquet: no row of data comes as JSON', async () => {
    const before = front.statements.length;
    await backfill(await writeTableJob('  table: typed\n'));
    const statements = front.statements.slice(before);
    const files = statements.filter((text) => text.endsWith('FORMAT Parquet'));
    expect(files).toHaveLength(1);
    const others = statements.filter((text) => !files.includes(text) && /\btyped\b/.test(text));
    for (const text of others) expect(text).toMatch(/^(SELECT (count\(\)|toString\(date\) AS d, count\(\))|DESCRIBE)/);
  });

  it('goes for the unsealed dates of the last sessions when it runs, once', async () => {
    const job = await writeTableJob('  table: typed\n');
    const plan = await run(['--json', 'plan', job]);
    expect(JSON.parse(plan.stdout)).toMatchObject({ dates: [{ date: RECENT_DAY, rows: 500, expires: null }] });
    const first = await run(['--json', 'run', job]);
    expect((JSON.parse(first.stdout) as RunResult).dates).toMatchObject([
      { date: RECENT_DAY, status: 'sealed', rows: 500 },
    ]);
    const second = await run(['--json', 'run', job]);
    expect((JSON.parse(second.stdout) as RunResult).dates).toEqual([]);
    const status = await run(['--json', 'status', job]);
    const [own] = JSON.parse(status.stdout) as { dates: { condition: string }[] }[];
    expect(own?.dates.filter(({ condition }) => condition === 'expired')).toEqual([]);
  });

  it('holds a session back of which the table has no end yet, and drops it once it has', async () => {
    await front.engine.command('CREATE OR REPLACE TABLE loading AS RawOptionTrades');
    const insert = (rows: readonly TradeRow[]) => insertRows(front.engine, 'loading', rows);
    await insert(tradesOf(RECENT_DAY, 0, 400));
    const job = await writeTableJob('  table: loading\n');
    const early = await run(['--json', 'run', job], { code: 3 });
    expect(JSON.parse(early.stdout)).toMatchObject({
      dates: [],
      held: [{ date: RECENT_DAY, reason: expect.stringContaining('last minutes, and no rows of a later date') }],
    });
    await insert(lastTradesOf(RECENT_DAY, 400, 100));
    const whole = await run(['--json', 'run', job]);
    expect(JSON.parse(whole.stdout)).toMatchObject({
      dates: [{ date: RECENT_DAY, status: 'sealed', rows: 500 }],
      held: [],
    });
  });

  it('takes columns, types and conditions of its own, and tells an empty text from a null', async () => {
    await front.engine.command(
      "CREATE OR REPLACE TABLE notes (date Date, k Int64, size Int32, note Nullable(String)) ENGINE = MergeTree ORDER BY k AS SELECT toDate('2025-03-03'), number, 7, if(number = 0, NULL, if(number = 1, '', 'x')) FROM numbers(10)",
    );
    const job = await writeTableJob(
      '  table: notes\n  columns: [date, k, size, note]\n  types: { k: int64, note: string }\n  where: k < 3\n',
    );
    await backfill(job);
    const rows = await queryDuckDb(`SELECT k, size, note, typeof(size) AS t FROM '${dropOf('own-trades')}' ORDER BY k`);
    expect(rows).toEqual([
      { k: '0', size: 7, note: null, t: 'INTEGER' },
      { k: '1', size: 7, note: '', t: 'INTEGER' },
      { k: '2', size: 7, note: 'x', t: 'INTEGER' },
    ]);
  });

  it('is recounted by `verify --deep`, which finds rows that came after the date was sealed', async () => {
    await front.engine.command('CREATE OR REPLACE TABLE late ENGINE = MergeTree ORDER BY id AS SELECT * FROM typed');
    await front.engine.command(
      'CREATE OR REPLACE TABLE nameless ENGINE = MergeTree ORDER BY k AS SELECT date, size AS k FROM typed',
    );
    const job = await writeTableJob('  table: late\n');
    const narrow = '  table: nameless\n  columns: [date, k]\n  types: { k: int64 }\n';
    const other = await writeTableJob(narrow, 'nameless');
    for (const path of [job, other]) await backfill(path);
    await front.engine.command(
      "INSERT INTO late SELECT * REPLACE ('new' AS id) FROM late WHERE date = '2025-03-03' LIMIT 1",
    );
    await front.engine.command("INSERT INTO nameless VALUES ('2025-03-03', 1), ('2025-03-03', 1)");
    const late = await run(['verify', job, '--deep'], { code: 1 });
    expect(late.stdout).toContain(`the source now has ${ROWS + 1} distinct ids, the drop ${ROWS} rows`);
    const nameless = await run(['verify', other, '--deep'], { code: 1 });
    expect(nameless.stdout).toContain(` ${ROWS + 2} rows`);
  });

  it('keeps the newest of rows that share an id, and counts the others', async () => {
    await front.engine.command('CREATE OR REPLACE TABLE twice ENGINE = MergeTree ORDER BY id AS SELECT * FROM typed');
    await front.engine.command(
      'INSERT INTO twice SELECT * REPLACE (updated_timestamp + 5 AS updated_timestamp, price + 1000 AS price) FROM typed WHERE size < 10',
    );
    const unique = 'checks: [{ check: unique-id, on_failure: warn }]\n';
    await backfill(await writeTableJob('  table: twice\n', 'own-trades', unique));
    const newer = tradesOf(OLD_DAY, 0, ROWS).filter(({ size }) => Number(size) < 10).length;
    expect(newer).toBeGreaterThan(100);
    const counted = { rows: ROWS, source_rows: ROWS + newer, duplicates: newer };
    expect(await manifestOf('own-trades')).toMatchObject({ ...counted, checks: [{ passed: true, found: 0 }] });
    const [inDrop] = await queryDuckDb(
      `SELECT count(*) AS n, count(DISTINCT id) AS ids, count(*) FILTER (price >= 1000) AS newer FROM '${dropOf('own-trades')}'`,
    );
    expect(inDrop).toEqual({ n: String(ROWS), ids: String(ROWS), newer: String(newer) });
    // The same version of some once more: those the check counts.
    await front.engine.command('INSERT INTO twice SELECT * FROM typed WHERE size < 10');
    await backfill(await writeTableJob('  table: twice\n', 'own-twice', unique));
    const twice = { rows: ROWS, source_rows: ROWS + 2 * newer, duplicates: 2 * newer };
    expect(await manifestOf('own-twice')).toMatchObject({ ...twice, checks: [{ passed: false, found: newer }] });
  });

  it('keeps all rows of one stamp that share no more than an id, and fails where most do', async () => {
    const make = async (name: string, id: string) =>
      await front.engine.command(
        `CREATE OR REPLACE TABLE ${name} ENGINE = MergeTree ORDER BY date AS SELECT * REPLACE (${id} AS id, toDateTime64(0, 3) AS updated_timestamp) FROM typed`,
      );
    await make(
      'few_shared',
      "multiIf(endsWith(id, '-1'), '', endsWith(id, '-2'), '', endsWith(id, '-3'), 'x', endsWith(id, '-4'), 'x', id)",
    );
    await front.engine.command(
      `INSERT INTO few_shared SELECT * REPLACE (time + 2 AS time, 'OTHER' AS symbol, updated_timestamp + 5 AS updated_timestamp, 777 AS price) FROM few_shared WHERE date = '${OLD_DAY}' AND endsWith(id, '-5')`,
    );
    const unique = 'checks: [{ check: unique-id, on_failure: warn }]\n';
    const job = await writeTableJob('  table: few_shared\n', 'few-shared', unique);
    await backfill(job);
    expect(await manifestOf('few-shared')).toMatchObject({ rows: ROWS, duplicates: 1, ids: ROWS - 2 });
    const [inDrop] = await queryDuckDb(`SELECT count(*) FILTER (price = 777) AS newer FROM '${dropOf('few-shared')}'`);
    expect(inDrop).toEqual({ newer: '1' });
    await run(['verify', job, '--deep']);
    await make('no_ids', "''");
    const failed = await backfill(await writeTableJob('  table: no_ids\n', 'no-ids'), { code: 1 });
    expect(`${failed.stdout}${failed.stderr}`).toMatch(
      /2999 of 3000 rows have the id of another trade, or none\. For example: id "" has 3000 rows \(.*SYM/,
    );
  });

  it.each([
    ['without the end of the transfer', 'chunked'],
    ['as if that were all', 'consistent'],
  ] as const)('publishes nothing of a file that is cut %s, and seals it next time', async (_title, how) => {
    const isFile = ({ body }: { readonly body: string }) => body.includes('FORMAT Parquet');
    const proxy: FaultProxy = await startFaultProxy(front.origin, [
      { on: isFile, fault: { kind: 'truncate', how, share: 0.5 }, times: 1 },
    ]);
    try {
      const url = front.url.replace(front.origin.slice('http://'.length), proxy.url.slice('http://'.length));
      const job = await writeTableJob('  table: typed\n');
      await backfill(job, { url, code: 1 });
      expect(proxy.injected).toHaveLength(1);
      // What is known of the date may be told; of the date itself there is nothing.
      expect(await listFiles(join(cwd, 'drops'))).toEqual([
        '_flowdrop/own-trades/condition.json',
        '_flowdrop/store.json',
      ]);
      await backfill(job, { url });
      expect(await readWithDuckDb(dropOf('own-trades'))).toHaveLength(ROWS);
    } finally {
      await proxy.close();
    }
  });

  it.each([
    [
      'rows come after they were counted',
      ['FORMAT Parquet', "INSERT INTO moving SELECT * REPLACE (concat(id, '-late') AS id) FROM typed LIMIT 5"],
      ['DATE_UNSETTLED', ROWS + 5],
    ],
    [
      'a value changes after it was streamed',
      ['sum(cityHash64', "ALTER TABLE moving UPDATE price = 777 WHERE endsWith(id, '-5') SETTINGS mutations_sync = 2"],
      ['SEAL_UNVERIFIED', ROWS],
    ],
  ] as const)('publishes nothing when %s, and seals it next time', async (_title, [moment, change], [code, rows]) => {
    await front.engine.command(
      'CREATE OR REPLACE TABLE moving ENGINE = MergeTree ORDER BY date AS SELECT * FROM typed',
    );
    front.onStatement = async (sql) => {
      if (!sql.includes(moment)) return undefined;
      front.onStatement = undefined;
      await front.engine.command(change);
      return undefined;
    };
    const job = await writeTableJob('  table: moving\n');
    expect((await backfill(job, { code: 1 })).stderr).toContain(code);
    const files = await listFiles(join(cwd, 'drops'));
    expect(files.filter((file) => file.includes(`session=${OLD_DAY}`))).toEqual([]);
    await backfill(job);
    expect(await manifestOf('own-trades')).toMatchObject({ rows });
  });

  it('is refused with the columns that the table has when it lacks one', async () => {
    const job = await writeTableJob('  table: typed\n  columns: [date, colour]\n  types: { colour: string }\n');
    for (const args of [
      ['check', '--live', job],
      ['run', job],
    ]) {
      const result = await run(args, { code: 2 });
      expect(result.stdout + result.stderr).toMatch(/typed has no column colour; its columns are id, symbol, date/);
    }
  });

  it('tells nobody the password of the server', async () => {
    const job = await writeTableJob('  table: no_such_table\n');
    const env = { FLOWDROP_CLICKHOUSE_URL: front.url, FLOWDROP_LOG_LEVEL: 'debug' };
    const result = await flowdrop(['--debug', 'run', job], { cwd, env, code: 1 });
    expect(result.stderr).toContain('no_such_table');
    expect(result.stdout + result.stderr).not.toContain(FRONT_PASSWORD);
  });

  it('says which setting is missing when there is no address of a server', async () => {
    const result = await flowdrop(['run', await writeTableJob('  table: typed\n')], { cwd });
    expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining('FLOWDROP_CLICKHOUSE_URL is not set') });
  });
});

it('a ClickHouse server that is too old is refused by its version', async ({ skip }) => {
  const { server } = await startClickHouse();
  if (server) await keep(server);
  // No server here, which `startClickHouse` says aloud; or one that is new enough.
  if (!server?.version.startsWith('18.')) return skip();
  const job = await writeTableJob('  table: system.one\n');
  const result = await backfill(job, { url: server.adminUrl, code: 2 });
  expect(result.stderr).toMatch(/server has version 18\.[\d.]+; allowed is 24\.2 or newer/);
}, 300_000);
