/**
 * The interface description: a valid OpenAPI 3.1 document, and complete by the specification. That the service answers as described is tested where it answers.
 */
import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { ERROR_CODES, REASONS } from '../../src/api-contract/historical.ts';
import { HISTORICAL_PATH, PORTAL_PATH } from '../../src/api-contract/published-limits.ts';
import { TRADE_COLUMNS } from '../../src/api-contract/trade.ts';
import { KEY, postJson, startTestService } from './running-service.ts';

// biome-ignore lint/suspicious/noExplicitAny: the document's shape is what is tested.
type Json = any;

const service = await startTestService({ concurrency: 1 });
const document = (await service.send('/openapi.json', {})).body as Json;
const sample = { api_key: KEY, sql: 'SELECT 1', test_mode: true };
const { data } = (await service.send(HISTORICAL_PATH, postJson(sample))).body as { readonly data: readonly Json[] };
await service.stop();
const operations = Object.entries<Json>(document.paths).flatMap(([path, { servers: _, ...methods }]) =>
  Object.entries<Json>(methods).map(([method, operation]) => ({ title: `${method.toUpperCase()} ${path}`, operation })),
);
const find = (title: string) => {
  const found = operations.find((it) => it.title === title)?.operation;
  if (!found) throw new Error(`not described: ${title}`);
  return found;
};

/** A validator of one schema of the document, built from the document alone. */
function validatorOf(schema: Json): z.ZodType {
  const text = JSON.stringify({ ...schema, $defs: document.components.schemas });
  return z.fromJSONSchema(JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/')));
}

function* walk(value: unknown, path = ''): Generator<readonly [string, Json]> {
  if (typeof value !== 'object' || value === null) return;
  yield [path, value as Json];
  for (const [key, inner] of Object.entries(value)) yield* walk(inner, `${path}/${key}`);
}

/** Of the products and the login. */
const STATUSES: Readonly<Record<string, readonly number[] | undefined>> = {
  [`POST ${HISTORICAL_PATH}`]: [200, 400, 401, 403, 405, 422, 429, 500, 504],
  [`POST ${PORTAL_PATH}`]: [200, 400, 401, 403, 405, 422, 429, 500, 504],
  'POST /api/option-chain': [200, 400, 401, 403, 404, 405, 422, 429, 500, 504],
  'GET /api/v1/market-structure/{symbol}': [200, 400, 401, 403, 404, 405, 429, 500, 503],
  'POST /api/session': [200, 400, 401, 429],
  'DELETE /api/session': undefined,
  'GET /healthz': undefined,
  'GET /metrics': undefined,
  'GET /openapi.json': undefined,
};

describe('the interface description', () => {
  test('is valid OpenAPI 3.1', async () => {
    const validator = new Validator();
    const result = await validator.validate({ ...document });
    expect(result.errors ?? []).toEqual([]);
    expect(result.valid).toBe(true);
    expect(validator.version).toBe('3.1');
    expect(document.info).toMatchObject({ version: '1.0.0', 'x-flowdrop-version': '0.0.0-test' });
  });

  test('names every path with its methods', () => {
    expect(operations.map(({ title }) => title).sort()).toEqual(Object.keys(STATUSES).sort());
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('tells where each parameter goes, and which is required', () => {
    expect(find('GET /api/v1/market-structure/{symbol}').parameters).toMatchObject([
      { name: 'symbol', in: 'path', required: true, schema: { type: 'string' } },
      { name: 'date', in: 'query', required: false, schema: { type: 'string', format: 'date' } },
    ]);
  });

  test('points the separate entry point to its own address, and all else to where the document comes from', () => {
    expect(document.servers.map(({ url }: Json) => url)).toEqual(['/']);
    expect(document.paths[PORTAL_PATH].servers).toMatchObject([{ url: service.portalUrl }]);
    expect(Object.values<Json>(document.paths).filter(({ servers }) => servers)).toHaveLength(1);
  });

  test.each(Object.entries(STATUSES))('has the statuses of %s', (title, statuses) => {
    const { responses, requestBody } = find(title);
    if (statuses) expect(Object.keys(responses).map(Number)).toEqual(statuses);
    const types = title.startsWith('POST') ? ['application/json', 'application/x-www-form-urlencoded'] : [];
    expect(Object.keys(requestBody?.content ?? {})).toEqual(types);
  });

  test('gives every response a body, every 429 and 503 a Retry-After, and the main historical answer its delay', () => {
    for (const { title, operation } of operations) {
      for (const [status, response] of Object.entries<Json>(operation.responses)) {
        expect(Object.keys(response.content).length, `${title} ${status}`).toBeGreaterThan(0);
        expect('Retry-After' in (response.headers ?? {}), `${title} ${status}`).toBe(['429', '503'].includes(status));
      }
    }
    expect(Object.keys(find(`POST ${HISTORICAL_PATH}`).responses['200'].headers ?? {})).toEqual([
      'X-Service-Historical-Sql-Minimum-Data-Delay-Minutes',
    ]);
  });

  test('describes every column of the trade record, and the codes and reasons of failures', () => {
    const { TradeRecord, HistoricalFailure } = document.components.schemas;
    const { properties } = TradeRecord;
    expect(Object.keys(properties)).toEqual(TRADE_COLUMNS.map(({ name }) => name));
    expect(Object.values<Json>(properties).filter((it) => !it.description)).toEqual([]);
    expect(HistoricalFailure.properties).toMatchObject({
      errorCode: { enum: ERROR_CODES },
      reason: { enum: REASONS },
    });
  });

  test('resolves every reference, uses every component, and says the dialect nowhere but at its head', () => {
    const nodes = [...walk(document)];
    const references = new Set(nodes.map(([, node]) => node.$ref).filter((it) => typeof it === 'string'));
    for (const reference of references) {
      const [, , kind = '', name = ''] = reference.split('/');
      expect(Object.keys(document.components[kind]), reference).toContain(name);
    }
    const { schemas, headers } = document.components;
    const unused = [
      ...Object.keys(schemas).map((it) => `#/components/schemas/${it}`),
      ...Object.keys(headers).map((it) => `#/components/headers/${it}`),
    ].filter((it) => !references.has(it));
    expect(unused).toEqual([]);
    expect(nodes.filter(([, node]) => '$schema' in node || '$id' in node || '$defs' in node)).toEqual([]);
    for (const { operation } of operations) {
      for (const scheme of operation.security.flatMap(Object.keys)) {
        expect(Object.keys(document.components.securitySchemes)).toContain(scheme);
      }
      expect(document.tags.map(({ name }: Json) => name)).toEqual(expect.arrayContaining([...operation.tags]));
    }
  });

  test('has schemas that refuse what is not theirs', () => {
    const validate = (name: string, value: unknown) =>
      validatorOf({ $ref: `#/components/schemas/${name}` }).safeParse(value).success;
    expect(validate('HistoricalRequest', { api_key: 'cus_1' })).toBe(false);
    expect(validate('HistoricalRequest', { sql: 'SELECT 1', test_mode: 'yes' })).toBe(false);
    expect(validate('HistoricalSuccess', { status: 'SUCCESS', data: [] })).toBe(false);
    expect(validate('HistoricalSuccess', { status: 'SUCCESS', data: [1], meta: {} })).toBe(false);
    expect(validate('HistoricalFailure', { status: 'ERROR', errorCode: 'OOPS', errorMsg: '' })).toBe(false);
    expect(validate('PortalSqlMissing', { status: 'ERROR', errorMsg: 'x' })).toBe(false);
    expect(validate('LoginRequest', {})).toBe(false);
    expect(validate('ChainRequest', { symbol: 'SPY', date: '3 March' })).toBe(false);
    expect(validate('ChainRequest', { symbol: 'SPY', put_call: 'Call' })).toBe(true);
    for (const row of data) {
      expect(validate('TradeRecord', row)).toBe(true);
      expect(validate('TradeRecord', { ...row, strike: '600' })).toBe(false);
    }
    expect(data).toHaveLength(2);
  });
});
