/**
 * The table of the engine's error codes. What callers get for each meaning is in `contract/api.test.ts`, and that no message
 * of the engine reaches them in `contract.test.ts`.
 */
import { expect, test } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { MEANINGS } from '../../src/guard/refusal.ts';

test("each code is one of the engine's, and has one meaning", async () => {
  const engine = await openEmbeddedEngine();
  const codes = Object.values(MEANINGS).flat();
  const rows = await engine.rows<{ name: string }>(`SELECT errorCodeToName(arrayJoin([${codes.join(', ')}])) AS name`);
  expect(rows.filter(({ name }) => name === '')).toEqual([]);
  expect(new Set(codes).size).toBe(codes.length);
  await engine.close();
});
