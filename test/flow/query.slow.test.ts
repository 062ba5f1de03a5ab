/**
 * `flowdrop query` as a user runs it: which dataset, which format, where the answer goes, exit codes, and what is said
 * beside it. What the archive answers is tested in `test/archive`.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tableFromIPC } from 'apache-arrow';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { beforeAll, describe, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { publishDay } from '../archive/publish-day.ts';
import { useCleanups } from '../support/cleanups.ts';
import { queryDuckDb } from '../support/drop.ts';
import { type Finished, flowdrop, listFiles, MAIN } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { readSection } from '../support/pages.ts';
import { s3Environment, startS3, useS3Credentials } from '../support/s3-server.ts';

const DATES = ['2026-11-10', '2026-11-12'];
const ROWS = 1_200;
const COUNT = 'SELECT date, count() AS n FROM RawOptionTrades GROUP BY date ORDER BY date';
const COUNTED = DATES.map((date) => ({ date, n: ROWS }));

const { server } = await startS3();
const hasScript = spawnSync('script', ['--version']).status === 0;
let cwd: string;
const { folder } = useCleanups();

const query = (...args: readonly string[]): Promise<Finished> => flowdrop(['query', ...args], { cwd });

const spawnQuery = (...args: readonly string[]) =>
  spawn(process.execPath, [MAIN, 'query', ...args], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'] },
  });

beforeAll(async () => {
  cwd = await folder();
  await mkdir(join(cwd, 'jobs'));
  await writeJob(join(cwd, 'jobs'), { to: 'drops' });
  const engine = await openEmbeddedEngine();
  const store = await openDirectoryStore(join(cwd, 'drops'));
  for (const date of DATES) {
    await publishDay(engine, store, { date, rows: ROWS, condition: date === '2026-11-12' ? 'degraded' : 'available' });
  }
  await engine.close();
});

describe('flowdrop query', () => {
  it('asks the only dataset of single trades, and names what is missing and degraded', async () => {
    const run = await query(COUNT);
    expect([run.code, JSON.parse(run.stdout)]).toEqual([0, COUNTED]);
    expect(run.stderr).toMatch(/^missing, not in the answer: 2026-11-11, /m);
    expect(run.stderr).toMatch(/^degraded, known to be incomplete: 2026-11-12$/m);
    expect(run.stderr).toMatch(/^2 of 2 sealed dates, /m);
  });

  it('names the date whose file is damaged, and does not blame the query', async () => {
    const path = join(cwd, 'drops', 'trades', `session=${DATES[0]}`, 'trades.parquet');
    const whole = await readFile(path);
    await writeFile(path, Buffer.concat([whole.subarray(0, -4), Buffer.from('oops')]));
    try {
      const { code, stderr } = await query('SELECT max(premium) AS m FROM RawOptionTrades');
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(`DROP_DAMAGED: ${DATES[0]}: its file cannot be read`),
      ]);
    } finally {
      await writeFile(path, whole);
    }
  });

  it('takes a job, a store, stdin and --json', async () => {
    expect(JSON.parse((await query(COUNT, '--job', 'nightly')).stdout)).toEqual(COUNTED);
    expect(JSON.parse((await query(COUNT, '--from-store', 'drops', '--dataset', 'trades')).stdout)).toEqual(COUNTED);
    const piped = await flowdrop(['--json', 'query', '-'], { cwd, onStart: (child) => child.stdin?.end(COUNT) });
    expect([piped.code, JSON.parse(piped.stdout)]).toEqual([0, COUNTED]);
  });

  it('prints a table of at most a thousand rows', async () => {
    const run = await query('SELECT id, size FROM RawOptionTrades', '--format', 'table');
    expect(run.stdout.trim().split('\n')).toHaveLength(2 + 1_000);
    expect(run.stderr).toContain('Only the first 1,000 rows are shown');
    const values = "SELECT 'a\nb' AS text, 1.5 AS number, NULL AS nothing, [1, 2] AS list";
    const small = await query(values, '--format', 'table');
    expect(small.stdout).toBe(
      'text  number  nothing  list\n----  ------  -------  -----\na\\nb     1.5           [1,2]\n',
    );
  });

  it('takes the dataset by its name, and shows wide rows one line a column', async () => {
    const run = await query('SELECT id, symbol, size FROM trades ORDER BY id LIMIT 2', '--vertical');
    expect(run.code, run.stderr).toBe(0);
    expect(run.stdout).toMatch(/^Row 1\n {2}id {6}\S+\n {2}symbol {2}\S+\n {2}size {4}\d+\nRow 2\n {2}id /);
    const refused = await query('SELECT 1', '--vertical', '--format', 'csv');
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('cannot be used with')]);
  });

  // Skipped where `script`, which gives a process a terminal, is not installed.
  it.skipIf(!hasScript)('fits a terminal of 80 columns: a table, or one line a column when it is wider', async () => {
    const show = async (sql: string) => {
      const command = `stty cols 80 rows 50; exec "${process.execPath}" "${MAIN}" query "${sql}"`;
      const env = { PATH: process.env['PATH'] ?? '', TERM: 'dumb', HOME: process.env['HOME'] };
      const child = spawn('script', ['-qec', command, '/dev/null'], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
      let text = '';
      child.stdout.on('data', (chunk) => {
        text += chunk;
      });
      const [code] = await once(child, 'close');
      expect(code, text).toBe(0);
      const lines = text.replaceAll('\r', '').trimEnd().split('\n');
      return lines.filter((line) => !/^(missing|degraded|\d+ of \d+ sealed)/.test(line));
    };
    const narrow = await show('SELECT date, time, symbol, size FROM trades ORDER BY id LIMIT 3');
    expect(narrow[0]).toMatch(/^date +time +symbol +size$/);
    expect(narrow[2]).toMatch(/^2026-11-10 {2}2026-11-10 \d\d:\d\d:\d\d {2}SYM\d+ +\d+$/);
    expect(narrow).toHaveLength(5);
    const wide = await show('SELECT * FROM trades ORDER BY id LIMIT 2');
    expect(wide.filter((line) => line.length > 80 && !line.startsWith('The table is wider'))).toEqual([]);
    expect(wide.find((line) => line.startsWith('Too wide for a table'))).toBeDefined();
    expect(wide.filter((line) => /^Row [12]$/.test(line))).toEqual(['Row 1', 'Row 2']);
    expect(wide.filter((line) => /^ {2}expiration_date +2026-12-18$/.test(line))).toHaveLength(2);
    expect(wide).toHaveLength(1 + 2 * 38);
  });

  it('writes a file whole, by its extension, and replaces none without --force', async () => {
    const all = 'SELECT * FROM RawOptionTrades';
    const run = await flowdrop(['--json', 'query', all, '--out', 'all.parquet'], { cwd });
    expect(JSON.parse(run.stdout)).toMatchObject({
      format: 'parquet',
      datasets: [
        { dataset: 'trades', dates: DATES, degraded: ['2026-11-12'], missing: expect.arrayContaining(['2026-11-11']) },
      ],
    });
    expect(
      await queryDuckDb(`SELECT count(*)::INT AS n, count(DISTINCT id)::INT AS ids FROM '${cwd}/all.parquet'`),
    ).toEqual([{ n: 2 * ROWS, ids: 2 * ROWS }]);
    const before = await readFile(join(cwd, 'all.parquet'));
    const again = await query('SELECT 1', '--out', 'all.parquet');
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('OUT_EXISTS')]);
    expect(await readFile(join(cwd, 'all.parquet'))).toEqual(before);
    expect((await query('SELECT 1 AS one', '--out', 'all.parquet', '--force', '--format', 'csv')).code).toBe(0);
    expect(await readFile(join(cwd, 'all.parquet'), 'utf8')).toBe('"one"\n1\n');
    expect((await listFiles(cwd)).filter((name) => name.includes('.tmp'))).toEqual([]);
  });

  it('writes dates, times and numbers to Parquet and Arrow as such, the wall clock in no zone', async () => {
    const columns = [
      ...['id', 'date', 'time', 'expiration_date', 'earning_date', 'updated_timestamp', 'market_cap', 'size', 'price'],
      'toStartOfInterval(time, INTERVAL 5 MINUTE) AS five',
      'nullIf(toDateTime(time), toDateTime(time)) AS nothing',
      'toDate(time) AS day',
      "toTimeZone(updated_timestamp, 'America/New_York') AS zoned",
      '[time, time] AS times',
      "(time, 'x', time) AS pair",
      'toUInt8(1) AS tiny',
      'toDecimal64(price, 2) AS money',
      'size > 5 AS is_large',
    ];
    const sql = `SELECT ${columns.join(', ')} FROM trades ORDER BY date, id`;
    for (const name of ['typed.parquet', 'typed.arrow'])
      expect(await query(sql, '--out', name)).toMatchObject({ code: 0, stdout: '' });
    const described = await queryDuckDb(
      `SELECT column_name AS name, column_type AS type FROM (DESCRIBE FROM '${cwd}/typed.parquet')`,
    );
    expect(Object.fromEntries(described.map(({ name, type }) => [name, type]))).toEqual({
      ...{ id: 'VARCHAR', date: 'DATE', time: 'TIMESTAMP', expiration_date: 'DATE', earning_date: 'DATE' },
      ...{ updated_timestamp: 'TIMESTAMP WITH TIME ZONE', market_cap: 'BIGINT', size: 'INTEGER', price: 'DOUBLE' },
      ...{ five: 'TIMESTAMP', nothing: 'TIMESTAMP', day: 'DATE', zoned: 'TIMESTAMP WITH TIME ZONE' },
      ...{ times: 'TIMESTAMP[]', tiny: 'UTINYINT', money: 'DECIMAL(18,2)', is_large: 'UTINYINT' },
      pair: 'STRUCT("1" TIMESTAMP, "2" VARCHAR, "3" TIMESTAMP)',
    });
    const file = await asyncBufferFromFile(join(cwd, 'typed.parquet'));
    const { schema } = await parquetMetadataAsync(file);
    const time = schema.find(({ name }) => name === 'time');
    expect([time?.logical_type, time?.converted_type]).toEqual([
      { type: 'TIMESTAMP', isAdjustedToUTC: false, unit: 'MICROS' },
      undefined,
    ]);
    const arrow = tableFromIPC(await readFile(join(cwd, 'typed.arrow')));
    const types = Object.fromEntries(arrow.schema.fields.map(({ name, type }) => [name, String(type)]));
    expect(types).toMatchObject({
      ...{ id: 'Utf8', date: 'Date32<DAY>', time: 'Timestamp<MICROSECOND>', expiration_date: 'Date32<DAY>' },
      ...{ earning_date: 'Date32<DAY>', updated_timestamp: 'Timestamp<MICROSECOND, UTC>', market_cap: 'Int64' },
      ...{ five: 'Timestamp<SECOND>', nothing: 'Timestamp<SECOND>', day: 'Date32<DAY>' },
      ...{ size: 'Int32', price: 'Float64' },
    });
    // Each reader has the very values that the drops have.
    const sums = `count(*)::INT AS n, sum(epoch_us(time))::TEXT AS time, sum(epoch_us(updated_timestamp))::TEXT AS updated,
      sum(epoch_us(earning_date))::TEXT AS earning, count(earning_date)::INT AS earnings, count(nothing)::INT AS nothing,
      sum(market_cap)::TEXT AS cap, sum(epoch_us(five))::TEXT AS five, sum(price) AS price`;
    const ours = `date_trunc('minute', time) - to_minutes(date_part('minute', time)::INT % 5) AS five, NULL AS nothing`;
    const [written] = await queryDuckDb(`SELECT ${sums} FROM '${cwd}/typed.parquet'`);
    const drops = `SELECT * REPLACE (updated_timestamp::TIMESTAMPTZ AS updated_timestamp), ${ours} FROM '${cwd}/drops/trades/**/*.parquet'`;
    expect(await queryDuckDb(`SELECT ${sums} FROM (${drops})`)).toEqual([
      { ...written, price: expect.closeTo(Number(written?.['price'])) },
    ]);
    const read = ['id', 'time', 'five', 'date', 'earning_date'];
    const rows = await parquetReadObjects({ file, columns: read, compressors });
    const micros = rows.reduce((sum, row) => sum + BigInt((row['time'] as Date).getTime()) * 1000n, 0n);
    expect(String(micros)).toBe(written?.['time']);
    expect(arrow.numRows).toBe(written?.['n']);
    const sumOf = (name: string) => {
      let sum = 0n;
      for (const data of arrow.getChild(name)?.data ?? [])
        for (const value of data.values as BigInt64Array) sum += value;
      return sum;
    };
    expect([String(sumOf('time')), String(sumOf('five') * 1_000_000n)]).toEqual([written?.['time'], written?.['five']]);
    expect([arrow.getChild('nothing')?.nullCount, arrow.getChild('earning_date')?.nullCount]).toEqual([
      arrow.numRows,
      arrow.numRows - Number(written?.['earnings']),
    ]);
    const none = await query('SELECT time, toDateTime(time) AS t FROM trades WHERE size < 0', '--out', 'none.arrow');
    expect(none.code, none.stderr).toBe(0);
    const empty = tableFromIPC(await readFile(join(cwd, 'none.arrow')));
    expect([empty.numRows, empty.schema.fields.map(({ type }) => String(type))]).toEqual([
      0,
      ['Timestamp<MICROSECOND>', 'Timestamp<SECOND>'],
    ]);
    expect((await listFiles(cwd)).filter((name) => /\.(tmp|times)/.test(name))).toEqual([]);
  });

  it('shows the wall clock as it is, in whatever zone the machine is', async () => {
    const sql =
      "SELECT id, time, toHour(time) AS hour, toDate(time) = date AS same, toStartOfDay(time) AS day FROM trades WHERE time >= '2026-11-12 09:30:02' AND time < '2026-11-12 09:30:04' ORDER BY id";
    const [here, there] = await Promise.all(
      ['UTC', 'Asia/Tokyo'].map((TZ) => flowdrop(['query', sql], { cwd, env: { TZ } })),
    );
    const rows = JSON.parse(here?.stdout ?? '');
    expect(rows).toHaveLength(60);
    expect(rows[0]).toMatchObject({ time: expect.stringMatching(/^2026-11-12 09:30:0[23]$/), hour: 9, same: 1 });
    expect(rows[0]).toMatchObject({ day: '2026-11-12 00:00:00' });
    expect(JSON.parse(there?.stdout ?? '')).toEqual(rows);
  });

  it('leaves no file behind when the query fails half-way', async () => {
    const run = await query('SELECT id, intDiv(1, size - 1) FROM RawOptionTrades', '--out', 'half.csv');
    expect(run.code).toBe(2);
    expect(run.stderr).toContain('INVALID_QUERY');
    expect((await listFiles(cwd)).filter((name) => name.includes('half'))).toEqual([]);
  });

  const MISSPELT =
    /Table tradse is not available \(did you mean trades\?\)\.\n.* over RawOptionTrades, RawOptionTradesMaxDateOnlyMV, trades, trades_counted, in .*`flowdrop query "SHOW TABLES"`/;
  it.each([
    [
      ["SELECT * FROM file('/etc/passwd')"],
      /INVALID_SQL: Table function file is not available\.\n {2}-> Allowed are SHOW TABLES, DESCRIBE TABLE and one SELECT/,
    ],
    [['DESCRIBE TABLE tradse'], /INVALID_SQL: Table tradse is not available/],
    [['DESCRIBE `system.tables`'], /INVALID_SQL: Table system.tables is not/],
    [['DESCRIBE TRADES'], /INVALID_QUERY: .*does not exist/],
    [['DESCRIBE 1'], /INVALID_SQL: Table 1 is not available\.\n/],
    [["DESCRIBE file('/etc/passwd')"], /INVALID_SQL: Only SELECT/],
    [['SHOW TABLES FROM system'], /INVALID_SQL: Only SELECT/],
    [['SELECT 1; SELECT 2'], /INVALID_SQL: Only one statement/],
    [['SELECT nope FROM RawOptionTrades'], /INVALID_QUERY: .*nope.*ClickHouse says: .*nope/],
    [['  '], /SQL_MISSING/],
    [['SELECT 1', '--job', 'nope'], /JOB_UNKNOWN/],
    [['SELECT 1', '--dataset', 'trades'], /--from-store LOCATION, which is missing/],
    [
      ['SELECT 1', '--from-store', 'drops', '--dataset', '../x'],
      /DATASET_UNKNOWN: .* has no dataset "..\/x"; it has trades/,
    ],
    [
      ['SELECT 1', '--from-store', 'drops', '--dataset', 'trade'],
      /DATASET_UNKNOWN: .*\n {2}-> Did you mean --dataset trades\?/,
    ],
    [['SELECT 1 FROM tradse'], MISSPELT],
    [['SELECT 1', '--from-store', 'jobs'], /ARCHIVE_EMPTY/],
    [
      ["SELECT count() FROM trades WHERE date LIKE '2026-11-1%'"],
      /INVALID_QUERY: (.*\n)*.*-> .*typed.*toString\(date\).*--api-types/,
    ],
    [['SELECT 1', '--from-store', 'nowhere', '--dataset', 'x'], /STORE_MISSING/],
    [['SELECT 1', '--format', 'xml'], /Allowed choices are table, json/],
    [['SELECT 1', '--out', 'answer'], /the format of --out answer is unknown/],
    [['SELECT 1', '--out', '/proc/answer.csv'], /OUT_FAILED|OUT_FOLDER_MISSING/],
    [['SELECT 1', '--out', 'no/answer.csv'], /OUT_FOLDER_MISSING/],
  ])('refuses %j', async (args, says) => {
    const run = await query(...args);
    // A store without drops, and one that is not there, are no wrong usage.
    const isUsage = !args.includes('jobs') && !args.includes('nowhere');
    expect([run.code, run.stdout]).toEqual([isUsage ? 2 : 1, '']);
    expect(run.stderr).toMatch(says);
    // None of it may tell of folders and databases of ours.
    expect(run.stderr).not.toMatch(/flowdrop-query-|(archive|resolve)_[0-9a-f]{24}|DB::/);
  });

  it('ends well when its reader has enough', async () => {
    const all = 'SELECT * FROM RawOptionTrades';
    const run = await flowdrop(['query', all, '--format', 'csv'], {
      cwd,
      onStart: (child) => child.stdout?.once('data', () => child.stdout?.destroy()),
    });
    expect([run.code, run.stderr]).toEqual([0, expect.not.stringContaining('EPIPE')]);
  });

  it('lists the tables that can be read, in every format, and the columns of one as a query returns them', async () => {
    const tables = [
      { name: 'RawOptionTrades', description: 'all rows of trades, 2026-11-10 to 2026-11-12' },
      { name: 'RawOptionTradesMaxDateOnlyMV', description: 'newest rows of trades, 2026-11-12 to 2026-11-12' },
      { name: 'trades', description: 'all rows of trades, 2026-11-10 to 2026-11-12' },
      { name: 'trades_counted', description: 'counted rows of trades, 2026-11-10 to 2026-11-12' },
    ];
    for (const sql of ['show tables;;', '/* all */ SHOW TABLES -- of these'])
      expect(JSON.parse((await query(sql)).stdout)).toEqual(tables);
    const { stdout } = await query('SHOW TABLES', '--format', 'table');
    expect(stdout).toMatch(/^trades_counted +counted rows of trades, 2026-11-10 to 2026-11-12$/m);
    await query('SHOW TABLES', '--out', 'tables.csv');
    await query('SHOW TABLES', '--out', 'tables.parquet');
    for (const name of ['tables.csv', 'tables.parquet'])
      expect(await queryDuckDb(`SELECT * FROM '${cwd}/${name}'`)).toEqual(tables);
    for (const types of [[], ['--api-types']]) {
      const described: readonly { readonly name: string; readonly type: string }[] = JSON.parse(
        (await query('DESCRIBE trades', ...types)).stdout,
      );
      const asked = await query('SELECT * APPLY toTypeName FROM trades LIMIT 1', ...types);
      const [answered = {}]: readonly Readonly<Record<string, string>>[] = JSON.parse(asked.stdout);
      const shown = Object.entries(answered).map(([name, type]) => [
        name.replace(/^toTypeName\((.*)\)$/, '$1'),
        type.replace(/^LowCardinality\((.*)\)$/, '$1'),
      ]);
      // `*` leaves it out.
      const plain = described.filter(({ name }) => name !== 'family');
      expect(plain.map(({ name, type }) => [name, type])).toEqual(shown);
      expect(described).toContainEqual({ name: 'date', type: types.length === 0 ? 'Date32' : 'String' });
      expect(JSON.parse((await query('desc table `trades_counted` ;', ...types)).stdout)).toEqual(described);
      expect(JSON.parse((await query('DESCRIBE "trades" -- all', ...types)).stdout)).toEqual(described);
    }
  });

  it('asks which store when there are two', async () => {
    const path = await folder();
    await writeJob(path, { name: 'one', to: 'a' });
    await writeJob(path, { name: 'two', to: 'b' });
    const run = await flowdrop(['--jobs', path, 'query', 'SELECT 1'], { cwd });
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(
      /write to 2 stores\n {2}-> Choose one: --job one \(a\/trades\), --job two \(b\/trades\)/,
    );
  });

  it('stops at Ctrl-C, with exit code 130 and no file', async () => {
    const sql =
      'SELECT count() FROM RawOptionTrades AS a, RawOptionTrades AS b, RawOptionTrades AS c WHERE a.size * b.oi + c.oi = 7';
    const child = spawnQuery(sql, '--out', 'never.json');
    let said = '';
    child.stderr.on('data', (chunk) => {
      said += chunk;
    });
    // The engine has begun to write when its file is there.
    await expect
      .poll(() => listFiles(cwd), { timeout: 60_000 })
      .toContainEqual(expect.stringMatching(/never\.json.*tmp/));
    const started = performance.now();
    child.kill('SIGINT');
    const [code] = await once(child, 'close');
    expect(performance.now() - started).toBeLessThan(10_000);
    expect([code, said]).toEqual([130, expect.stringContaining('INTERRUPTED')]);
    expect((await listFiles(cwd)).filter((name) => name.includes('never'))).toEqual([]);
  });

  it.each(['csv', 'table'])(
    'stops at Ctrl-C, with exit code 130, while nobody reads its %s from the pipe',
    async (format) => {
      // Far more than any pipe holds; a table is one write, which the command has finished before it is stopped.
      const sql = 'SELECT a.* FROM RawOptionTrades AS a, RawOptionTrades AS b LIMIT 20000';
      const child = spawnQuery(sql, '--format', format);
      child.stderr.resume();
      // The answer has begun to come, and comes no further: what is not asked for fills the pipe.
      await once(child.stdout, 'readable');
      const seen: string[] = [];
      const isStalled = async () => {
        seen.push(/wchar: \d+/.exec(await readFile(`/proc/${child.pid}/io`, 'utf8'))?.[0] ?? '');
        return seen.length > 2 && new Set(seen.slice(-3)).size === 1;
      };
      await expect.poll(isStalled, { interval: 200 }).toBe(true);
      const started = performance.now();
      child.kill('SIGINT');
      const [code] = await once(child, 'exit');
      expect(performance.now() - started).toBeLessThan(10_000);
      expect(code).toBe(130);
    },
  );

  it('has exactly the options that docs/query.md lists', async () => {
    const help = (await query('--help')).stdout;
    const real = [...help.matchAll(/^ {2}(--[a-z-]+)/gm)].map((match) => match[1]);
    const listed = [...readSection('docs/query.md', 'Options').matchAll(/^- ((?:`--[^`]+`(?:, )?)+)/gm)].flatMap(
      ([, flags = '']) => flags.match(/--[a-z-]+/g) ?? [],
    );
    expect(listed.sort()).toEqual(real.sort());
  });

  // Skipped where no S3 server can be started: not root, or not Debian. CI throws instead of skipping.
  it.skipIf(server === undefined)('asks S3 with the credentials of the environment, which nothing shows', async () => {
    if (server === undefined) return;
    const to = `s3://${server.bucket}/query-${process.pid}-${Date.now()}`;
    const env: Record<string, string> = { ...s3Environment(server) };
    const { openS3Store } = await import('../../src/store/s3.ts');
    useS3Credentials(server);
    const { bucket, endpoint, region, pathStyle } = server;
    const store = await openS3Store({ bucket, prefix: to.split('/')[3] ?? '', endpoint, region, pathStyle });
    for (const name of await listFiles(join(cwd, 'drops'))) await store.put(name, { path: join(cwd, 'drops', name) });
    const ask = (...args: readonly string[]) =>
      flowdrop(['query', ...args, '--from-store', to, '--dataset', 'trades'], { cwd, env });
    const run = await ask(COUNT);
    expect([run.code, JSON.parse(run.stdout)], run.stderr).toEqual([0, COUNTED]);
    expect(run.stderr).toMatch(/ from S3, /);
    const nope = await ask('SELECT nope FROM RawOptionTrades');
    env['AWS_SECRET_ACCESS_KEY'] = 'wrong-secret-key';
    const wrong = await ask(COUNT);
    expect(wrong.code).toBe(1);
    for (const text of [run.stderr, run.stdout, nope.stderr, wrong.stderr]) {
      expect(text).not.toContain(server.secretAccessKey);
    }
    for await (const { key } of store.list('')) await store.remove(key);
    await store.close();
  });
});
