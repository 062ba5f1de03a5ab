/** The engine's errors in the API's terms: the table of codes, and what is repeated of a message. */
import { expect, test } from 'vitest';
import { TOO_BROAD_HINTS } from '../../src/api-contract/historical.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { EngineFault } from '../../src/engine/engine-fault.ts';
import { MEANINGS } from '../../src/guard/refusal.ts';
import { toApiFailure } from '../../src/service/http/api-failure.ts';

test("each code is one of the engine's, and has one meaning", async () => {
  const engine = await openEmbeddedEngine();
  const codes = Object.values(MEANINGS).flat();
  const rows = await engine.rows<{ name: string }>(`SELECT errorCodeToName(arrayJoin([${codes.join(', ')}])) AS name`);
  expect(rows.filter(({ name }) => name === '')).toEqual([]);
  expect(new Set(codes).size).toBe(codes.length);
  await engine.close();
});

test.each([
  [158, 422, 'QUERY_TOO_BROAD', 'SCAN_LIMIT_EXCEEDED'],
  [307, 422, 'QUERY_TOO_BROAD', 'SCAN_LIMIT_EXCEEDED'],
  [241, 422, 'QUERY_TOO_BROAD', 'SCAN_LIMIT_EXCEEDED'],
  [159, 504, 'QUERY_TIMEOUT', undefined],
  [47, 422, 'INVALID_QUERY', 'UNKNOWN_IDENTIFIER'],
  [46, 422, 'INVALID_QUERY', 'UNKNOWN_FUNCTION'],
  [62, 422, 'INVALID_QUERY', 'SYNTAX_ERROR'],
  [215, 422, 'INVALID_QUERY', 'INVALID_AGGREGATION'],
  [407, 422, 'INVALID_QUERY', 'NUMERIC_OVERFLOW'],
  [53, 422, 'INVALID_QUERY', 'TYPE_MISMATCH'],
  [42, 422, 'INVALID_QUERY', 'INVALID_ARGUMENTS'],
  [182, 422, 'INVALID_QUERY', 'INVALID_EXPRESSION'],
  [1002, 500, 'INTERNAL_ERROR', undefined],
  [0, 500, 'INTERNAL_ERROR', undefined],
])('the code %i is answered %i %s %s', (code, status, errorCode, reason) => {
  const failure = toApiFailure(new EngineFault(code, 'Code: secret value 12.5 in /some/path'), 'SELECT 1');
  expect([failure.status, failure.errorCode, failure.details.reason]).toEqual([status, errorCode, reason]);
  expect(failure.details.hints).toEqual(errorCode === 'QUERY_TOO_BROAD' ? TOO_BROAD_HINTS : undefined);
  expect(failure.message).not.toMatch(/secret|12\.5|path/);
});

test("a name is repeated only when it is the caller's own", () => {
  const fault = new EngineFault(47, 'Unknown expression identifier `hidden_name` in scope');
  expect(toApiFailure(fault, 'SELECT hidden_name').message).toContain('hidden_name');
  expect(toApiFailure(fault, 'SELECT other').message).not.toContain('hidden_name');
});
