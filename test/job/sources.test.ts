/**
 * Job files beyond the trades of the contract: rows by SQL of one's own, snapshots, a server's table; checks, and how
 * objects are written. What each resolves to, and what is refused where. The rest of a job file is in `job.test.ts`.
 */
import { describe, expect, test } from 'vitest';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { isFault } from '../../src/core/errors.ts';
import { parseJob } from '../../src/job/parse.ts';

/** A job file whose `source:`, further keys of `drop:`, and other sections are given. */
function jobOf(source: string, drop = '', rest = ''): string {
  return `name: x\nsource:\n${source}drop:\n  to: ${drop.includes('s3:') ? 's3://bucket/drops' : 'out'}\n  dataset: x\n${drop}${rest}`;
}

const HISTORICAL = '  api: historical\n';
const CHAIN = '  api: chain\n  symbols: [SPX, BRK.B]\n';
const TABLE = '  api: clickhouse\n  table: desk.trades\n';
const rowSql = (select: string) => `  api: historical\n  sql: ${JSON.stringify(select)}\n  types: { price: double }\n`;

function faultsOf(text: string): string {
  try {
    parseJob('jobs/x.yaml', text);
  } catch (error) {
    if (!isFault(error) || error.code !== 'JOB_INVALID' || error.kind !== 'usage') throw error;
    return error.message;
  }
  return 'the job was accepted';
}

const columnsOf = (text: string) =>
  parseJob('x', text).source.columns.map(({ name, type, nullable }) => `${name} ${type}${nullable ? ' or null' : ''}`);

describe('SQL of single trades', () => {
  test('has the identity and the time of a trade before the columns that it types', () => {
    const text = jobOf(rowSql('SELECT id, date, time, price FROM RawOptionTrades WHERE {window}'));
    expect(parseJob('x', text).source).toMatchObject({ kind: 'rows', where: '' });
    expect(columnsOf(text)).toEqual(['id string', 'date date', 'time wall', 'price double or null']);
  });
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
    ['no symbols', '  api: chain\n', 2, ['source.symbols', 'which symbols to export']],
    ['an empty list of symbols', '  api: chain\n  symbols: []\n', 4, ['source.symbols', 'must not be empty']],
    ['a symbol in small letters', '  api: chain\n  symbols: [spx]\n', 4, ['source.symbols.0', '"spx"', 'in capitals']],
    ['a symbol twice', '  api: chain\n  symbols: [SPX, SPY, SPX]\n', 4, ['source.symbols.2', '"SPX"', 'twice']],
    [
      'a table',
      `${CHAIN}  table: RawOptionTrades\n`,
      5,
      ['source.table', 'is not allowed with `api: chain`', 'symbols'],
    ],
    ['a condition', `${CHAIN}  where: strike > 1\n`, 5, ['source.where', 'is not allowed with `api: chain`']],
  ] as const)('is refused with %s', (_title, source, line, says) => {
    const message = faultsOf(jobOf(source));
    expect(message).toContain(`jobs/x.yaml:${line}: `);
    for (const part of says) expect(message).toContain(part);
  });

  test('is refused with a report, which is made from trades', () => {
    const reports = 'reports:\n  - template: flow\n    to: [a@example.com]\n';
    expect(faultsOf(jobOf(CHAIN, '', reports))).toContain(
      'jobs/x.yaml:8: reports: a job with `api: chain` has no trades',
    );
  });

  test('symbols do not go with trades', () => {
    expect(faultsOf(jobOf('  api: historical\n  symbols: [SPX]\n'))).toContain(
      'jobs/x.yaml:4: source.symbols: got ["SPX"]; is not allowed with `api: historical`',
    );
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
    ['no table', '  api: clickhouse\n', 2, ['source.table', 'database.table']],
    ['a table that is SQL', '  api: clickhouse\n  table: "a; DROP TABLE b"\n', 4, ['source.table', 'a; DROP TABLE b']],
    ['no date', `${TABLE}  columns: [id, time]\n`, 5, ['source.columns', '"date" is missing']],
    ['a date that is text', `${TABLE}  types: { date: string }\n`, 5, ['source.types.date', 'it must be date']],
    ['a column without a type', `${TABLE}  columns: [date, k]\n`, 5, ['source.columns', '"k"', 'under `types`']],
    [
      'a type without a column',
      `${TABLE}  columns: [date, id]\n  types: { k: int64 }\n`,
      6,
      ['source.types.k', 'not in `columns`'],
    ],
    ['SQL', `${TABLE}  sql: SELECT 1 WHERE {window}\n`, 5, ['source.sql', 'is not allowed with `api: clickhouse`']],
  ] as const)('is refused with %s', (_title, source, line, says) => {
    const message = faultsOf(jobOf(source));
    expect(message).toContain(`jobs/x.yaml:${line}: `);
    for (const part of says) expect(message).toContain(part);
  });
});

describe('checks', () => {
  const checksOf = (checks: string) => parseJob('x', jobOf(HISTORICAL, '', `checks:\n${checks}`)).checks;

  test('have their defaults: a failure keeps the date from being sealed', () => {
    expect(
      checksOf('  - check: premium\n  - { check: min-rows, rows: 5, on_failure: warn }\n  - check: dates\n'),
    ).toEqual([
      { check: 'premium', tolerance: 0.0001, onFailure: 'fail' },
      { check: 'min-rows', rows: 5, onFailure: 'warn' },
      { check: 'dates', onFailure: 'fail' },
    ]);
  });

  test.each([
    ['of a kind that there is not', '  - check: rows\n', ['checks.0.check']],
    ['without its number', '  - check: min-rows\n', ['checks.0.rows', 'is missing']],
    ['of no rows', '  - { check: min-rows, rows: 0 }\n', ['checks.0.rows', '0']],
    ['of a share above one', '  - { check: max-nulls, column: iv, share: 1.5 }\n', ['checks.0.share', '1.5']],
    [
      'of a column that there is not',
      '  - { check: max-nulls, column: ivv, share: 0 }\n',
      ['checks.0.column', '"ivv"'],
    ],
    ['with a key of another', '  - { check: dates, rows: 5 }\n', ['checks.0.rows', 'unknown key']],
  ] as const)('are refused %s', (_title, checks, says) => {
    const message = faultsOf(jobOf(HISTORICAL, '', `checks:\n${checks}`));
    expect(message).toContain('jobs/x.yaml:8: ');
    for (const part of says) expect(message).toContain(part);
  });

  test('are refused of a snapshot that has not their columns', () => {
    expect(faultsOf(jobOf(CHAIN, '', 'checks:\n  - check: premium\n'))).toContain('needs the column "premium"');
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
    ['a key without its encryption', '    kms_key: alias/drops\n', ['drop.s3.kms_key', 'sse-kms']],
    ['another encryption', '    encryption: aes\n', ['drop.s3.encryption', 'sse-s3, sse-kms']],
    ['a storage class in small letters', '    storage_class: glacier\n', ['drop.s3.storage_class', 'STANDARD_IA']],
    [
      'eleven tags',
      `    tags: { ${Array.from({ length: 11 }, (_, k) => `t${k}: v`).join(', ')} }\n`,
      ['drop.s3.tags', 'at most 10'],
    ],
    ['another ACL', '    acl: public\n', ['drop.s3.acl', 'public-read']],
  ] as const)('is refused with %s', (_title, s3, says) => {
    const message = faultsOf(jobOf(HISTORICAL, `  s3:\n${s3}`));
    expect(message).toContain('jobs/x.yaml:8: ');
    for (const part of says) expect(message).toContain(part);
  });
});
