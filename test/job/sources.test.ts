/** Job files beyond the trades of the contract, checks, objects and catalogs. The rest is in `job.test.ts`. */
import { describe, expect, test } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { parseJob } from '../../src/job/parse.ts';
import { expectJobFault, readJobFaults } from './faults.ts';

/** A job file whose `source:`, further keys of `drop:`, and other sections are given. */
function jobOf(source: string, drop = '', rest = ''): string {
  return `name: x\nsource:\n${source}drop:\n  to: ${drop.includes('s3:') ? 's3://bucket/drops' : 'out'}\n  dataset: x\n${drop}${rest}`;
}

const HISTORICAL = '  api: historical\n';
const CHAIN = '  api: chain\n  symbols: [SPX, BRK.B]\n';
const TABLE = '  api: clickhouse\n  table: desk.trades\n';

const columnsOf = (text: string) =>
  parseJob('x', text).source.columns.map(({ name, type, nullable }) => `${name} ${type}${nullable ? ' or null' : ''}`);

test('SQL of single trades has the identity and the time of a trade before the columns that it types', () => {
  const sql = '"SELECT id, date, time, price FROM RawOptionTrades WHERE {window}"';
  const text = jobOf(`${HISTORICAL}  sql: ${sql}\n  types: { price: double }\n`);
  expect(parseJob('x', text).source).toMatchObject({ kind: 'rows', where: '' });
  expect(columnsOf(text)).toEqual(['id string', 'date date', 'time wall', 'price double or null']);
});

describe('a snapshot job', () => {
  test('has its symbols, and the columns and the sort order of its endpoint', () => {
    const chain = parseJob('x', jobOf(CHAIN));
    expect(chain.source).toMatchObject({ kind: 'snapshots', api: 'chain', symbols: ['SPX', 'BRK.B'] });
    expect(chain.drop.sort).toEqual(['symbol', 'expiration_date', 'strike', 'put_call', 'option_symbol']);
    expect(columnsOf(jobOf(CHAIN)).filter((column) => !column.endsWith(' or null'))).toEqual([
      'symbol string',
      'date date',
    ]);
    const structure = parseJob('x', jobOf(CHAIN.replace('chain', 'market-structure')));
    expect(structure.drop.sort).toEqual(['symbol']);
    expect(structure.source.columns.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['effective_date', 'spot', 'call_gex', 'put_gex', 'flow', 'structure', 'symbol_meta']),
    );
  });

  test.each([
    ['  api: chain\n', 2, 'source.symbols: … which symbols to export'],
    ['  api: chain\n  symbols: []\n', 4, 'source.symbols: got []; it must not be empty'],
    ['  api: chain\n  symbols: [spx]\n', 4, 'source.symbols.0: got "spx"; a symbol in capitals'],
    ['  api: chain\n  symbols: [SPX, SPY, SPX]\n', 4, 'source.symbols.2: "SPX" is listed twice'],
    [
      `${CHAIN}  table: RawOptionTrades\n`,
      5,
      'source.table: … is not allowed with `api: chain`; allowed there: symbols',
    ],
    [`${CHAIN}  where: strike > 1\n`, 5, 'source.where: … is not allowed with `api: chain`'],
  ])('is refused as %j at line %i: %s', (source, line, fault) => expectJobFault(jobOf(source), line, fault));

  test('does not go with a report, which is made from trades, nor its symbols with trades', () => {
    const reports = 'reports:\n  - template: flow\n    to: [a@example.com]\n';
    expectJobFault(jobOf(CHAIN, '', reports), 8, 'reports: a job with `api: chain` has no trades');
    const trades = jobOf(`${HISTORICAL}  symbols: [SPX]\n`);
    expectJobFault(trades, 4, 'source.symbols: got ["SPX"]; is not allowed with `api: historical`');
  });
});

describe("a server's table", () => {
  test('is taken for a table of the contract unless its columns are named', () => {
    expect(parseJob('x', jobOf(TABLE)).source).toMatchObject({ kind: 'table', table: 'desk.trades', where: '' });
    expect(columnsOf(jobOf(TABLE))).toHaveLength(TRADE_COLUMNS.length);
  });

  test('has columns of its own, which may be null, by their types', () => {
    const types = '  types: { date: date, k: int64, note: string }\n';
    expect(columnsOf(jobOf(TABLE + types))).toEqual(['date date', 'k int64 or null', 'note string or null']);
    expect(parseJob('x', jobOf(TABLE + types)).drop.sort).toEqual(['date']);
    expect(columnsOf(jobOf(`${TABLE}  columns: [symbol, date, k]\n  types: { k: int64 }\n`))).toEqual([
      'symbol string',
      'date date',
      'k int64 or null',
    ]);
  });

  test.each([
    ['  api: clickhouse\n', 2, 'source.table: … database.table'],
    [
      '  api: clickhouse\n  table: "a; DROP TABLE b"\n',
      4,
      'source.table: "a; DROP TABLE b" is not the name of a table',
    ],
    [`${TABLE}  columns: [id, time]\n`, 5, 'source.columns: "date" is missing'],
    [`${TABLE}  types: { date: string }\n`, 5, 'source.types.date: … it must be date'],
    [`${TABLE}  columns: [date, k]\n`, 5, 'source.columns: "k" … under `types`'],
    [`${TABLE}  columns: [date, id]\n  types: { k: int64 }\n`, 6, 'source.types.k: … not in `columns`'],
    [`${TABLE}  sql: SELECT 1 WHERE {window}\n`, 5, 'source.sql: … is not allowed with `api: clickhouse`'],
  ])('is refused as %j at line %i: %s', (source, line, fault) => expectJobFault(jobOf(source), line, fault));
});

describe('checks', () => {
  test('have their defaults: a failure keeps the date from being sealed', () => {
    const checks = '[{ check: premium }, { check: min-rows, rows: 5, on_failure: warn }, { check: dates }]';
    expect(parseJob('x', jobOf(HISTORICAL, '', `checks: ${checks}\n`)).checks).toEqual([
      { check: 'premium', tolerance: 0.0001, onFailure: 'fail' },
      { check: 'min-rows', rows: 5, onFailure: 'warn' },
      { check: 'dates', onFailure: 'fail' },
    ]);
  });

  test('are refused of a snapshot that has not their columns', () => {
    expect(readJobFaults(jobOf(CHAIN, '', 'checks:\n  - check: premium\n'))).toContain('needs the column "premium"');
  });
});

describe('how objects are written', () => {
  test('is as the job says', () => {
    const s3 =
      '  s3:\n    encryption: sse-kms\n    kms_key: alias/drops\n    storage_class: STANDARD_IA\n    tags: { desk: vol }\n    acl: private\n';
    expect(parseJob('x', jobOf(HISTORICAL, s3)).drop.s3).toEqual({
      encryption: 'sse-kms',
      kmsKey: 'alias/drops',
      storageClass: 'STANDARD_IA',
      tags: { desk: 'vol' },
      acl: 'private',
    });
  });

  test.each([
    ['kms_key: alias/drops', 'kms_key: … sse-kms'],
    ['encryption: aes', 'encryption: got "aes"; allowed: sse-s3, sse-kms'],
    ['storage_class: glacier', 'storage_class: got "glacier"; a storage class like STANDARD_IA'],
    [`tags: { ${Array.from({ length: 11 }, (_, k) => `t${k}: v`).join(', ')} }`, 'tags: … S3 allows at most 10 tags'],
    ['acl: public', 'acl: got "public"; … public-read'],
  ])('is refused as %s: %s', (line, fault) => {
    expectJobFault(jobOf(HISTORICAL, `  s3:\n    ${line}\n`), 8, `drop.s3.${fault}`);
  });

  test.each(['out', '/var/s3', './s3://x'])('is refused of a job that drops into the directory %s', (to) => {
    const text = jobOf(HISTORICAL, '  s3: { acl: private }\n').replace('s3://bucket/drops', to);
    expectJobFault(text, 7, 'drop.s3: is only allowed with `to: s3://...`');
  });
});

describe('a catalog', () => {
  const URI = 'uri: http://polaris:8181/api/catalog';
  const catalogOf = (keys: string) => jobOf(HISTORICAL, `  table: iceberg\n  catalog: { ${keys} }\n`);

  test('needs an address only', () => {
    expect(parseJob('x', catalogOf(URI)).drop.catalog).toEqual({
      uri: 'http://polaris:8181/api/catalog',
      warehouse: null,
      namespace: 'flowdrop',
      table: 'x',
      oauthUri: null,
      scope: 'catalog',
    });
  });

  test('has warehouse, namespace, table, and where tokens come from, as it says', () => {
    const keys = 'warehouse: w, namespace: a.b, table: t, oauth_uri: "https://login.example.com/t", scope: "ROLE:ALL"';
    expect(parseJob('x', catalogOf(`${URI}, ${keys}`)).drop.catalog).toEqual({
      uri: 'http://polaris:8181/api/catalog',
      warehouse: 'w',
      namespace: 'a.b',
      table: 't',
      oauthUri: 'https://login.example.com/t',
      scope: 'ROLE:ALL',
    });
  });

  test.each([
    [catalogOf(URI).replace('  table: iceberg\n', ''), 'only allowed with `table: iceberg`'],
    [catalogOf('uri: thrift://catalog:9083'), 'an http or https address'],
    [catalogOf('uri: http://me:secret@catalog'), 'without user, password and query'],
    [catalogOf(`${URI}, token: abc`), 'unknown key "token"'],
    [catalogOf(`${URI}, namespace: a..b`), 'drop.catalog.namespace'],
  ])('is refused in %j: %s', (text, says) => {
    expect(readJobFaults(text)).toContain(says);
  });
});
