/** What a job file may say of how its drops are written. The rest of the file is in `job.test.ts`. */
import { describe, expect, test } from 'vitest';
import { parseJob } from '../../src/job/parse.ts';

const write = (to: string) => `name: trades
source:
  api: historical
drop:
  to: ${to}
  dataset: trades
  s3:
    encryption: sse-kms
    kms_key: alias/drops
    storage_class: STANDARD_IA
    tags: { team: desk }
    acl: bucket-owner-full-control
`;

describe('drop.s3', () => {
  test('of a job that drops into S3 is resolved as the store takes it', () => {
    expect(parseJob('x', write('s3://bucket/drops')).drop.s3).toEqual({
      encryption: 'sse-kms',
      kmsKey: 'alias/drops',
      storageClass: 'STANDARD_IA',
      tags: { team: 'desk' },
      acl: 'bucket-owner-full-control',
    });
  });

  test.each(['out', '/var/s3', './s3://x'])(
    'of a job that drops into the directory %s is refused at its line',
    (to) => {
      expect(() => parseJob('jobs/x.yaml', write(to))).toThrow(
        expect.objectContaining({
          code: 'JOB_INVALID',
          kind: 'usage',
          message: expect.stringMatching(/x\.yaml.*drop\.s3/s),
        }),
      );
    },
  );
});

const withCatalog = (lines: string, table = '  table: iceberg\n') => `name: trades
source:
  api: historical
drop:
  to: out
  dataset: trades
${table}  catalog:
${lines}`;

describe('drop.catalog', () => {
  test('needs an address only', () => {
    expect(parseJob('x', withCatalog('    uri: https://catalog.example.com/api\n')).drop.catalog).toEqual({
      uri: 'https://catalog.example.com/api',
      warehouse: null,
      namespace: 'flowdrop',
      table: 'trades',
      oauthUri: null,
      scope: 'catalog',
    });
  });

  test('names warehouse, namespace, table and where tokens come from', () => {
    const lines = `    uri: http://polaris:8181/api/catalog
    warehouse: desk
    namespace: market.options
    table: option_trades
    oauth_uri: https://login.example.com/token
    scope: PRINCIPAL_ROLE:ALL
`;
    expect(parseJob('x', withCatalog(lines)).drop.catalog).toEqual({
      uri: 'http://polaris:8181/api/catalog',
      warehouse: 'desk',
      namespace: 'market.options',
      table: 'option_trades',
      oauthUri: 'https://login.example.com/token',
      scope: 'PRINCIPAL_ROLE:ALL',
    });
  });

  test.each([
    ['without a table', withCatalog('    uri: http://catalog:8181\n', ''), 'only allowed with `table: iceberg`'],
    ['of another scheme', withCatalog('    uri: thrift://catalog:9083\n'), 'an http or https address'],
    ['with a password', withCatalog('    uri: http://me:secret@catalog\n'), 'without user, password and query'],
    ['with a token', withCatalog('    uri: http://catalog\n    token: abc\n'), 'token'],
    ['of an empty namespace', withCatalog('    uri: http://catalog\n    namespace: a..b\n'), 'drop.catalog.namespace'],
  ])('%s is refused', (_, text, says) => {
    expect(() => parseJob('jobs/x.yaml', text)).toThrow(
      expect.objectContaining({ code: 'JOB_INVALID', message: expect.stringContaining(says) }),
    );
  });
});
