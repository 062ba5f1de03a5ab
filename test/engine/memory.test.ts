/** The embedded engine in less memory than a statement wants: it says so, and goes on. Its other ends: `embedded.test.ts`. */
import { afterEach, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';

/** What is left of a container of 700 MB. */
const MEMORY_BYTES = 300_000_000;
/** About a gigabyte of texts in one state. */
const GREEDY = 'SELECT length(groupArray(toString(number))) AS n FROM numbers(60000000)';

let engine: Engine;
afterEach(() => engine.close());

it('a statement that wants more than the memory there is fails and says what to do, and the engine goes on', async () => {
  engine = await openEmbeddedEngine({ maxMemoryBytes: MEMORY_BYTES });
  const before = process.memoryUsage.rss();
  await expect(engine.rows(GREEDY)).rejects.toMatchObject({
    code: 'ENGINE_FAILED',
    clickhouseCode: 241,
    hint: expect.stringContaining('memory'),
  });
  expect(process.memoryUsage.rss() - before).toBeLessThan(2 * MEMORY_BYTES);
  expect(await engine.rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  // Merges run beside statements: the limit is of all of them together.
  const [limit] = await engine.rows<{ value: string }>(
    "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'",
  );
  expect(limit).toEqual({ value: String(MEMORY_BYTES) });
});
