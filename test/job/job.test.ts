/** Job files: what is shipped parses, and what is refused where. What commands make of them is tested in `test/flow`. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { listJobFiles, readJob } from '../../src/job/job-folder.ts';
import { parseJob } from '../../src/job/parse.ts';
import { allowNulls, toJobColumn } from '../../src/job/resolve-job.ts';
import { expectJobFault, readJobFaults } from './faults.ts';

const JOBS = new URL('../../jobs/', import.meta.url).pathname;

const GOOD = `name: trades
source:
  api: historical
drop:
  to: out
  dataset: trades
`;

const AGGREGATE = `name: flow
source:
  api: historical
  sql: |
    SELECT symbol, substring(toString(time), 1, 16) AS minute, sum(size) AS n FROM RawOptionTrades
    WHERE {window} GROUP BY symbol, minute
  grain: minute
  time: minute
  split: [symbol]
  types:
    n: int64
drop:
  to: out
  dataset: flow
`;

test('every shipped job parses and is named like its file', async () => {
  const files = await listJobFiles(JOBS);
  expect(files.length).toBeGreaterThan(0);
  for (const file of files) {
    const job = parseJob(file, readFileSync(file, 'utf8'));
    expect(file.endsWith(`/${job.name}.yaml`), file).toBe(true);
    expect(await readJob(job.name, JOBS)).toEqual(job);
  }
});

test('a minimal job gets every default', () => {
  expect(parseJob('x', GOOD)).toEqual({
    name: 'trades',
    file: 'x',
    source: {
      kind: 'rows',
      grainSeconds: 1,
      timeColumn: 'time',
      keyColumns: ['id'],
      api: 'historical',
      key: null,
      table: 'RawOptionTrades',
      where: '',
      sql: '',
      columns: allowNulls(TRADE_COLUMNS.map(toJobColumn), ['symbol', 'time', 'id']),
    },
    drop: {
      to: 'out',
      dataset: 'trades',
      sort: ['symbol', 'time', 'id'],
      compression: 'zstd',
      table: null,
      catalog: null,
      s3: {},
    },
    rows: { onBad: 'quarantine', maxBad: 0.001 },
    checks: [],
    audit: 'repair',
    settleSeconds: 60,
    settleUntil: 'close',
    schedule: undefined,
    reports: [],
    alerts: { to: [], webhook: true },
    families: { SPX: ['SPX', 'SPXW'], VIX: ['VIX', 'VIXW'], NDX: ['NDX', 'NDXP'], RUT: ['RUT', 'RUTW'] },
    events: ['drop.sealed', 'drop.restated', 'drop.extended', 'date.lost', 'report.sent'],
  });
});

test('a schedule without quotes is one fault, which shows the quotes', () => {
  expect(readJobFaults(`${GOOD}schedule:\n  cron: * * * * *\n  timezone: America/New_York\n`)).toMatch(
    /^jobs\/x\.yaml:\d+: a value that begins with \* needs quotes: cron: "\* \* \* \* \*"$/,
  );
});

test('an aggregating job has its grain, its keys and its types', () => {
  expect(parseJob('x', AGGREGATE)).toMatchObject({
    source: { kind: 'aggregate', grainSeconds: 60, timeColumn: 'minute' },
    drop: { sort: ['symbol', 'minute'] },
  });
  const { columns } = parseJob('x', AGGREGATE).source;
  expect(columns.map(({ name, type }) => `${name} ${type}`)).toEqual(['minute wall', 'symbol string', 'n int64']);
  const { source } = parseJob('x', AGGREGATE.replace('time: minute', 'time: date'));
  expect(source.columns.find(({ name }) => name === 'date')).toMatchObject({ type: 'date' });
});

test.each([
  ['', {}],
  [', retry: 2h, timeout: 90m, timezone: Etc/UTC', { timezone: 'Etc/UTC', retrySeconds: 7200, timeoutSeconds: 5400 }],
  [', sealed_by: "17:30"', { sealedBy: '17:30' }],
  [', retry: off, timeout: off, distributed: true', { retrySeconds: null, timeoutSeconds: null, distributed: true }],
])('a schedule with %j has every default', (keys, expected) => {
  const cron = '30 17 * * 1-5';
  const defaults = { timezone: 'America/New_York', retrySeconds: 900, timeoutSeconds: 28_800, distributed: false };
  const { schedule } = parseJob('x', `${GOOD}schedule: { cron: "${cron}"${keys} }\n`);
  expect(schedule).toEqual({ cron, ...defaults, stageSeconds: null, sealedBy: null, ...expected });
});

const changed = (from: string, to: string) => GOOD.replace(from, to);
const source = (line: string) => changed('historical', `historical\n  ${line}`);
const sql = (from: string, to: string) => AGGREGATE.replace(from, to);
const schedule = (keys: string) => `${GOOD}schedule: { cron: "30 17 * * 1-5", ${keys} }\n`;
const check = (keys: string) => `${GOOD}checks: [{ ${keys} }]\n`;

/** Each with the line of its fault, and the fault; parts with `…` between. */
const CASES: readonly (readonly [text: string, line: number, fault: string])[] = [
  [`${AGGREGATE}schedule: { cron: "0 1 * * *", stage: 5m }\n`, 15, 'schedule.stage: is only allowed for single trades'],
  [schedule('stage: 5m, distributed: true'), 7, 'schedule.stage: … what is staged is on one machine'],
  [changed('  dataset:', '  datset:'), 6, 'drop.datset: … did you mean "dataset" … to, dataset, table, catalog, sort'],
  [changed('  api:', '  API:'), 3, 'source.API: unknown key "API" (did you mean "api"?)'],
  [
    `${GOOD}whatever: 1\n`,
    7,
    'whatever: unknown key "whatever"; allowed here: name, source, partition, drop, rows, checks',
  ],
  [
    'source: {api: chain, symbols: [A]}\nname: x\ndrop: {to: o, dataset: x}\naudit: mirror\n',
    4,
    'audit: … not with `chain`',
  ],
  [`${GOOD}schedule: { cron: every day }\n`, 7, 'schedule.cron: got "every day"; a cron expression of five fields'],
  [`${GOOD}schedule: { cron: "0 30 17 * * 1-5" }\n`, 7, 'schedule.cron: … a cron expression of five fields'],
  [schedule('retry: soon'), 7, 'schedule.retry: got "soon"; … or off'],
  [schedule('timeout: 90s'), 7, 'schedule.timeout: got "90s"; … or off'],
  [schedule('timezone: New York'), 7, 'schedule.timezone: got "New York"; a time zone of the IANA database'],
  [changed('to: out', 'to: ""'), 5, 'drop.to: got ""; it must not be empty'],
  ['name: x\nsource:\n  api: historical\n', 1, 'drop: is missing'],
  [
    changed('historical', 'histrical'),
    3,
    'source.api: got "histrical"; allowed: historical, portal, chain, market-structure',
  ],
  [source('table: Trades'), 4, 'source.table: got "Trades"; allowed: RawOptionTrades, RawOptionTradesMaxDateOnlyMV'],
  [changed('name: trades', 'name: 5'), 1, 'name: got 5; it must be a string'],
  [changed('name: trades', 'name: ../Trades'), 1, 'name: got "../Trades"; lower-case letters'],
  [`${GOOD}  sort: symbol\n`, 7, 'drop.sort: got "symbol"; it must be a list'],
  [changed('source:\n  api: historical', 'source: x'), 2, 'source: got "x"; it must be a section of keys'],
  [`${GOOD}alerts: { to: [desk] }\n`, 7, 'alerts.to.0: got "desk"; an e-mail address'],
  [`${GOOD}alerts: { to: [] }\n`, 7, 'alerts.to: got []; it must not be empty'],
  [
    check('check: max-nulls, shares: 0'),
    7,
    'checks.0.shares: … did you mean "share" … check, column, share, on_failure',
  ],
  [check('check: dates, rows: 5'), 7, 'checks.0.rows: unknown key "rows"; allowed here: check, on_failure'],
  [
    check('check: min-row'),
    7,
    'checks.0.check: got "min-row"; allowed: min-rows, max-nulls, premium, unique-id, dates',
  ],
  [check('rows: 5'), 7, 'checks.0.check: is missing; allowed: min-rows, max-nulls, premium, unique-id, dates'],
  [check('check: max-nulls, column: iv'), 7, 'checks.0.share: is missing; it must be a number: Maximum share, 0 to 1.'],
  [check('check: max-nulls, column: iv, share: 2'), 7, 'checks.0.share: got 2; it must be at most 1'],
  [check('check: premium, tolerance: -1'), 7, 'checks.0.tolerance: got -1; it must be at least 0'],
  [check('check: min-rows, rows: 0'), 7, 'checks.0.rows: got 0; it must be more than 0'],
  [check('check: max-nulls, column: ivv, share: 0'), 7, 'checks.0.column: needs the column "ivv"'],
  [`${GOOD}name: again\n`, 7, '… unique'],
  ['name: [a\nsource: 1\n', 2, ''],
  ['', 1, 'the file: … it must be a section of keys'],
  ['- name: x\n', 1, 'the file: … it must be a section of keys'],
  [sql('{window}', '1 = 1'), 4, 'source.sql: … {window}'],
  [sql('  grain: minute\n', ''), 8, 'source.split: got ["symbol"]; is only allowed with `grain`'],
  [source('grain: hour'), 4, 'source.grain: got "hour"; is only allowed with `sql`'],
  [sql('  grain:', '  columns: [id]\n  grain:'), 7, 'source.columns: got ["id"]; is not allowed with `sql`'],
  [
    sql('int64', 'bigint'),
    11,
    'source.types.n: got "bigint"; allowed: string, int32, int64, double, date, wall, instant',
  ],
  [`${GOOD}  sort: [symbol, tme]\n`, 7, 'drop.sort.1: "tme" is not a column of this job … its columns are id, symbol'],
  [`${GOOD}  sort: [symbol, id, symbol]\n`, 7, 'drop.sort.2: "symbol" is listed twice'],
  [source('columns: [id, date, time, foo]'), 4, 'source.columns.3: "foo" … allowed are id, symbol'],
  [source('columns: [id, date, time, id]'), 4, 'source.columns.3: "id" is listed twice'],
  [
    source('columns: [date, time]'),
    4,
    'source.columns: "id" is missing: every job of single trades needs id, date, time',
  ],
];

test.each(CASES)('a job file is refused: %j, line %i: %s', expectJobFault);

test('all faults of a file are told at once, one a line', () => {
  const message = readJobFaults(GOOD.replace('historical', 'x').replace('  to: out\n', '').replace('name:', 'nam:'));
  expect(message.split('\n')).toHaveLength(4);
});
