/**
 * Job files: what is shipped parses, and every fault is told with file, line, key path, what came and what is allowed.
 * What the command line makes of them is tested in `test/flow`.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { isFault } from '../../src/core/errors.ts';
import { listJobFiles, readJob } from '../../src/job/job-folder.ts';
import { parseJob } from '../../src/job/parse.ts';
import { allowNulls, toJobColumn } from '../../src/job/resolve-job.ts';

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

function faultsOf(text: string): string {
  try {
    parseJob('jobs/x.yaml', text);
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID' || error.kind !== 'usage') throw error;
    return error.message;
  }
  throw new Error('the job was accepted');
}

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
  expect(faultsOf(`${GOOD}schedule:\n  cron: * * * * *\n  timezone: America/New_York\n`)).toMatch(
    /^jobs\/x\.yaml:\d+: a value that begins with \* needs quotes: cron: "\* \* \* \* \*"$/,
  );
});

test('groups by `date` have the type of a date', () => {
  const { source } = parseJob('x', AGGREGATE.replace('time: minute', 'time: date'));
  expect(source.columns.find(({ name }) => name === 'date')).toMatchObject({ type: 'date' });
});

test('an aggregating job has its grain, its keys and its types', () => {
  expect(parseJob('x', AGGREGATE)).toMatchObject({
    source: { kind: 'aggregate', grainSeconds: 60, timeColumn: 'minute' },
    drop: { sort: ['symbol', 'minute'] },
  });
  const { columns } = parseJob('x', AGGREGATE).source;
  expect(columns.map(({ name, type }) => `${name} ${type}`)).toEqual(['minute wall', 'symbol string', 'n int64']);
});

test.each([
  [
    '',
    { timezone: 'America/New_York', retrySeconds: 900, timeoutSeconds: 28_800, stageSeconds: null, distributed: false },
  ],
  [
    '  retry: 2h\n  timeout: 90m\n  timezone: Etc/UTC\n',
    { timezone: 'Etc/UTC', retrySeconds: 7200, timeoutSeconds: 5400, stageSeconds: null, distributed: false },
  ],
  [
    '  retry: off\n  timeout: off\n  distributed: true\n',
    { timezone: 'America/New_York', retrySeconds: null, timeoutSeconds: null, stageSeconds: null, distributed: true },
  ],
])('a schedule with %j has every default', (lines, expected) => {
  expect(parseJob('x', `${GOOD}schedule:\n  cron: "30 17 * * 1-5"\n${lines}`).schedule).toEqual({
    cron: '30 17 * * 1-5',
    ...expected,
  });
});

interface Case {
  readonly title: string;
  readonly text: string;
  /** Line of the fault. */
  readonly line: number;
  /** What the message must hold: key path, what came, what is allowed. */
  readonly says: readonly string[];
}

const CASES: readonly Case[] = [
  {
    title: 'staging of groups',
    text: `${GOOD.replace('api: historical', 'api: historical\n  sql: SELECT symbol, minute FROM RawOptionTrades WHERE {window} GROUP BY symbol, minute\n  grain: minute\n  time: minute')}schedule:\n  cron: "31 16 * * 1-5"\n  stage: 5m\n`,
    line: 12,
    says: ['schedule.stage', 'is only allowed for single trades'],
  },
  {
    title: 'staging of a shared schedule',
    text: `${GOOD}schedule:\n  cron: "31 16 * * 1-5"\n  stage: 5m\n  distributed: true\n`,
    line: 9,
    says: ['schedule.stage', 'what is staged is on one machine'],
  },
  {
    title: 'a misspelt key',
    text: GOOD.replace('  dataset:', '  datset:'),
    line: 6,
    says: ['drop.datset', 'did you mean "dataset"', 'to, dataset, table, catalog, sort'],
  },
  {
    title: 'two swapped letters',
    text: `${GOOD}shcedule:\n  cron: "0 1 * * *"\n`,
    line: 7,
    says: ['shcedule', 'did you mean "schedule"'],
  },
  {
    title: 'a key in the wrong case',
    text: GOOD.replace('  api:', '  API:'),
    line: 3,
    says: ['source.API', 'did you mean "api"'],
  },
  {
    title: 'a key far from any',
    text: `${GOOD}whatever: 1\n`,
    line: 7,
    says: [
      'whatever',
      'unknown key',
      'name, source, partition, drop, rows, checks, audit, settle, schedule, families, reports, alerts',
    ],
  },
  {
    title: 'an audit of rows that cannot be counted',
    text: 'name: x\nsource: {api: chain, symbols: [SPY]}\ndrop: {to: out, dataset: x}\naudit: mirror\n',
    line: 4,
    says: ['audit', 'is only allowed with `api: historical` or `api: portal`, not with `chain`'],
  },
  {
    title: 'an unknown key in a list',
    text: `${GOOD}reports:\n  - template: flow\n    to: [a@example.com]\n    symbol: [SPY]\n`,
    line: 10,
    says: ['reports.0.symbol', 'did you mean "symbols"', 'template, to, symbols'],
  },
  {
    title: 'a wrong cron',
    text: `${GOOD}schedule:\n  cron: every day\n`,
    line: 8,
    says: ['schedule.cron', '"every day"', 'five fields'],
  },
  {
    title: 'a cron with seconds',
    text: `${GOOD}schedule:\n  cron: "0 30 17 * * 1-5"\n`,
    line: 8,
    says: ['schedule.cron', 'five fields'],
  },
  {
    title: 'a time until the next try that is none',
    text: `${GOOD}schedule:\n  cron: "30 17 * * 1-5"\n  retry: soon\n`,
    line: 9,
    says: ['schedule.retry', '"soon"', 'off'],
  },
  {
    title: 'a time that a run may take that is none',
    text: `${GOOD}schedule:\n  cron: "30 17 * * 1-5"\n  timeout: 90s\n`,
    line: 9,
    says: ['schedule.timeout', '"90s"', 'off'],
  },
  {
    title: 'a wrong time zone',
    text: `${GOOD}schedule:\n  cron: "30 17 * * 1-5"\n  timezone: New York\n`,
    line: 9,
    says: ['schedule.timezone', '"New York"', 'IANA'],
  },
  { title: 'no drop.to', text: GOOD.replace('  to: out\n', ''), line: 4, says: ['drop.to', 'is missing'] },
  {
    title: 'an empty drop.to',
    text: GOOD.replace('to: out', 'to: ""'),
    line: 5,
    says: ['drop.to', '""', 'must not be empty'],
  },
  { title: 'no drop at all', text: 'name: x\nsource:\n  api: historical\n', line: 1, says: ['drop', 'is missing'] },
  {
    title: 'an api that there is not',
    text: GOOD.replace('historical', 'histrical'),
    line: 3,
    says: ['source.api', '"histrical"', 'historical, portal, chain, market-structure, clickhouse'],
  },
  {
    title: 'a table that there is not',
    text: GOOD.replace('historical', 'historical\n  table: Trades'),
    line: 4,
    says: ['source.table', '"Trades"', 'RawOptionTrades, RawOptionTradesMaxDateOnlyMV'],
  },
  {
    title: 'a number for a name',
    text: GOOD.replace('name: trades', 'name: 5'),
    line: 1,
    says: ['name', '5', 'string'],
  },
  {
    title: 'a name that is no folder',
    text: GOOD.replace('name: trades', 'name: ../Trades'),
    line: 1,
    says: ['name', '"../Trades"', 'lower-case'],
  },
  { title: 'a text for a list', text: `${GOOD}  sort: symbol\n`, line: 7, says: ['drop.sort', '"symbol"', 'a list'] },
  {
    title: 'a text for a section',
    text: GOOD.replace('source:\n  api: historical', 'source: historical'),
    line: 2,
    says: ['source', '"historical"', 'section of keys'],
  },
  {
    title: 'an address that is none',
    text: `${GOOD}alerts:\n  to: [desk]\n`,
    line: 8,
    says: ['alerts.to.0', '"desk"', 'e-mail'],
  },
  {
    title: 'an empty list of recipients',
    text: `${GOOD}alerts:\n  to: []\n`,
    line: 8,
    says: ['alerts.to', '[]', 'must not be empty'],
  },
  {
    title: 'an unknown key of a check',
    text: `${GOOD}checks:\n  - check: max-nulls\n    column: price\n    shares: 0.1\n`,
    line: 10,
    says: ['checks.0.shares', 'did you mean "share"', 'allowed here: check, column, share, on_failure'],
  },
  {
    title: 'a key of another check',
    text: `${GOOD}checks:\n  - check: dates\n    rows: 5\n`,
    line: 9,
    says: ['checks.0.rows', 'allowed here: check, on_failure'],
  },
  {
    title: 'a check that there is not',
    text: `${GOOD}checks:\n  - check: min-row\n`,
    line: 8,
    says: ['checks.0.check', '"min-row"', 'allowed: min-rows, max-nulls, premium, unique-id, dates'],
  },
  {
    title: 'a check without its name',
    text: `${GOOD}checks:\n  - rows: 5\n`,
    line: 8,
    says: ['checks.0.check', 'is missing; allowed: min-rows, max-nulls, premium, unique-id, dates'],
  },
  {
    title: 'a check without one of its keys',
    text: `${GOOD}checks:\n  - check: max-nulls\n    column: price\n`,
    line: 8,
    says: ['checks.0.share', 'is missing; it must be a number: Maximum share, 0 to 1.'],
  },
  {
    title: 'a number that is too large',
    text: `${GOOD}checks:\n  - check: max-nulls\n    column: price\n    share: 2\n`,
    line: 10,
    says: ['checks.0.share', 'got 2; it must be at most 1'],
  },
  {
    title: 'a number that is too small',
    text: `${GOOD}checks:\n  - check: premium\n    tolerance: -1\n`,
    line: 9,
    says: ['checks.0.tolerance', 'got -1; it must be at least 0'],
  },
  {
    title: 'a count of nothing',
    text: `${GOOD}checks:\n  - check: min-rows\n    rows: 0\n`,
    line: 9,
    says: ['checks.0.rows', 'got 0; it must be more than 0'],
  },
  { title: 'duplicate keys', text: `${GOOD}name: again\n`, line: 7, says: ['unique'] },
  { title: 'broken YAML', text: 'name: [a\nsource: 1\n', line: 2, says: ['jobs/x.yaml'] },
  { title: 'an empty file', text: '', line: 1, says: ['the file', 'section of keys'] },
  { title: 'a list for a file', text: '- name: x\n', line: 1, says: ['the file', 'section of keys'] },
  { title: 'a text for a file', text: 'hello', line: 1, says: ['the file', '"hello"', 'section of keys'] },
  {
    title: 'sql without {window}',
    text: AGGREGATE.replace('{window}', '1 = 1'),
    line: 4,
    says: ['source.sql', '{window}'],
  },
  {
    title: 'a split without a grain',
    text: AGGREGATE.replace('  grain: minute\n', ''),
    line: 8,
    says: ['source.split', 'is only allowed with `grain`'],
  },
  {
    title: 'a grain without sql',
    text: GOOD.replace('historical', 'historical\n  grain: hour'),
    line: 4,
    says: ['source.grain', 'only allowed with `sql`'],
  },
  {
    title: 'columns beside sql',
    text: AGGREGATE.replace('  grain:', '  columns: [id]\n  grain:'),
    line: 7,
    says: ['source.columns', 'is not allowed with `sql`'],
  },
  {
    title: 'a type that there is not',
    text: AGGREGATE.replace('int64', 'bigint'),
    line: 11,
    says: ['source.types.n', '"bigint"', 'string, int32, int64, double, date, wall, instant'],
  },
  {
    title: 'a sort column that there is not',
    text: `${GOOD}  sort: [symbol, tme]\n`,
    line: 7,
    says: ['drop.sort.1', '"tme"', 'its columns are id, symbol'],
  },
  {
    title: 'a sort column twice',
    text: `${GOOD}  sort: [symbol, id, symbol]\n`,
    line: 7,
    says: ['drop.sort.2', '"symbol"', 'twice'],
  },
  {
    title: 'a column that there is not',
    text: GOOD.replace('historical', 'historical\n  columns: [id, date, time, foo]'),
    line: 4,
    says: ['source.columns.3', '"foo"', 'allowed are id, symbol'],
  },
  {
    title: 'a column twice',
    text: GOOD.replace('historical', 'historical\n  columns: [id, date, time, id]'),
    line: 4,
    says: ['source.columns.3', '"id"', 'twice'],
  },
  {
    title: 'columns without the id',
    text: GOOD.replace('historical', 'historical\n  columns: [date, time]'),
    line: 4,
    says: ['source.columns', '"id" is missing', 'id, date, time'],
  },
];

describe('a job file is refused for', () => {
  test.each(CASES)('$title', ({ text, line, says }) => {
    const message = faultsOf(text);
    expect(message).toContain(`jobs/x.yaml:${line}: `);
    for (const part of says) expect(message).toContain(part);
  });
});

test('all faults of a file are told at once, one a line', () => {
  const message = faultsOf(GOOD.replace('historical', 'x').replace('  to: out\n', '').replace('name:', 'nam:'));
  expect(message.split('\n')).toHaveLength(4);
});
