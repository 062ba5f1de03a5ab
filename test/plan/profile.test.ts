/** What is supposed of a day before anything of it was counted, against days that are known. */
import { describe, expect, test } from 'vitest';
import { parseSecond } from '../../src/calendar/wall-clock.ts';
import { DAY_END, DAY_START, type Stretch } from '../../src/calendar/window.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { cutStretch, shareOf, usualProfile } from '../../src/plan/axis.ts';
import { generateSession } from '../../src/service/generate/generate.ts';
import { readInput } from '../support/drop.ts';
import { hasRealDay, REAL_DAY_FILE } from '../support/flowdrop.ts';

const DAY: Stretch = { from: DAY_START, to: DAY_END };
const QUARTERS = cutStretch(usualProfile('time'), DAY, 4, 1);
/** Two million of seven million rows: a table that may be read so far is counted in four requests, if the guess is right. */
const MOST = 2 / 7;

/** @param seconds of the trades of a day */
function sharesOf(seconds: readonly number[]): readonly number[] {
  return QUARTERS.map(
    ({ from, to }) => seconds.filter((second) => second >= from.second && second < to.second).length / seconds.length,
  );
}

describe('the usual day', () => {
  test('is cut into quarters of its own', () => {
    expect(QUARTERS).toHaveLength(4);
    for (const quarter of QUARTERS) expect(shareOf(usualProfile('time'), quarter)).toBeCloseTo(0.25, 3);
  });

  test('has no quarter that is much more of a generated session', async () => {
    const engine = await openEmbeddedEngine();
    try {
      const insertSql = (select: string) => `CREATE TABLE trades ENGINE = Memory AS ${select}`;
      await generateSession({ date: '2026-11-19', rows: 50_000, seed: 3 }, { engine, insertSql });
      const rows = await engine.rows<{ second: number }>(
        "SELECT toInt32(dateDiff('second', toDateTime(date), toDateTime(time))) AS second FROM trades",
      );
      for (const share of sharesOf(rows.map(({ second }) => Number(second)))) expect(share).toBeLessThan(MOST);
    } finally {
      await engine.close();
    }
  });

  // Skipped only where the real day is not at hand, which `support/flowdrop.ts` says aloud.
  test.skipIf(!hasRealDay)('nor of a real one', async () => {
    const seconds = [...(await readInput(REAL_DAY_FILE)).values()].map(({ time }) =>
      parseSecond(String(time).slice(11)),
    );
    expect(seconds.length).toBeGreaterThan(2_000);
    for (const share of sharesOf(seconds)) expect(share).toBeLessThan(MOST);
  });
});
