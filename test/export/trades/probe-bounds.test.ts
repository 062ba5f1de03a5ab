/** What an answer to a count may say: everything else is refused with what came. Whole runs are in `test/flow/bounds.slow.test.ts`. */

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { probeRows } from '../../../src/export/trades/probe.ts';
import { planSpans } from '../../../src/export/trades/scan.ts';
import { MAX_PAGE_ROWS, type Source } from '../../../src/source/source.ts';
import { ApiLimits } from '../../../src/state/limits.ts';
import { openSql } from '../../support/run.ts';
import { createJob, DATE } from '../../support/trades.ts';

const job = createJob();
let limits: ApiLimits;
beforeEach(async () => {
  limits = await new ApiLimits(join(tmpdir(), 'flowdrop-none.json'), Date.parse('2026-11-20T03:00:00Z')).load();
});

/** Answers every query with one row; as text, because it can say what no number of this language can. */
function sourceOf(row: string, meta: object = {}): Source & { asked: number } {
  const source = {
    url: 'x',
    stats: { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 },
    asked: 0,
    ask: async () => {
      source.asked += 1;
      const data = Buffer.from(`[${row}]`);
      const limits = { entitlement: 'active', row_limit: 200, capped: false, truncated: false };
      const all = { ...limits, minimum_data_delay_minutes: 15, ...meta };
      return { data, rows: 1, firstRow: JSON.parse(row) as Record<string, unknown>, meta: all };
    },
    serverNow: () => 0,
    tellsTime: () => true,
    intervalMs: () => 1000,
  };
  return source;
}

interface Lists {
  readonly cells?: string;
  readonly counts?: string;
  readonly ids?: string;
  readonly marks?: string;
  readonly dates?: string;
}
const answer = ({ cells = '34200', counts = '7', ids = '7', marks = '"sum 5"', dates = `"${DATE}"` }: Lists) =>
  `{"dates":[${dates}],"cells":[[${cells}]],"counts":[[${counts}]],"ids":[[${ids}]],"marks":[[${marks}]],"unreadable":""}`;

describe('an answer to a count', () => {
  it.each([
    [{ counts: '7' }, 7],
    [{ counts: '"7"', ids: '"7"' }, 7],
    [{ counts: '1000000000' }, 1_000_000_000],
  ])('of %o is taken', async (lists, rows) => {
    expect(await probeRows(openSql(job, sourceOf(answer(lists)), limits), DATE)).toMatchObject([{ rows }]);
  });

  it.each([
    [{ counts: '1e300' }, '1e+300 rows'],
    [{ counts: '-1' }, '-1 rows'],
    [{ counts: '8.5' }, '8.5 rows'],
    [{ counts: '9007199254740993' }, '9007199254740992 rows'],
    [{ counts: '"9007199254740993"' }, '"9007199254740993" rows'],
    [{ counts: '1000000001' }, 'allowed are whole numbers from 0 to 1,000,000,000'],
    [{ counts: '"abc"' }, '"abc" rows'],
    [{ counts: '""' }, '"" rows'],
    [{ counts: 'null' }, 'null rows'],
    [{ counts: 'true' }, 'true rows'],
    [{ counts: '[7]' }, '[7] rows'],
    [{ ids: '8' }, '7 rows with 8 ids'],
    [{ ids: '-1' }, '-1 ids'],
    [{ cells: '1e300' }, '1e+300'],
    [{ cells: '34200.5' }, '34200.5'],
    [{ cells: '"noon"' }, 'not a second'],
    [{ cells: '34200,34200', counts: '7,7', ids: '7,7', marks: '"",""' }, 'was sent twice'],
    [{ cells: '1,2', counts: '9e8,9e8', ids: '1,1', marks: '"",""' }, '1,800,000,000 rows'],
    [{ counts: '7,7' }, 'unexpected form'],
    [{ marks: '"sum x"' }, 'unexpected form'],
    [{ dates: '"../../etc"' }, 'unexpected form'],
  ])('of %o is refused, for good after three tries', async (lists, says) => {
    const source = sourceOf(answer(lists));
    await expect(probeRows(openSql(job, source, limits), DATE)).rejects.toMatchObject({
      code: 'ANSWER_MALFORMED',
      message: expect.stringContaining(says),
    });
    expect(source.asked).toBe(3);
  });
});

it('a row limit beyond any page means pages of the largest size', async () => {
  await probeRows(openSql(job, sourceOf(answer({}), { row_limit: 1_000_000_000 }), limits), DATE);
  expect(limits.rowLimit).toBe(MAX_PAGE_ROWS);
});

it('a plan of the largest date in the smallest parts ends', () => {
  Object.assign(limits, { axis: 'time', refusedRows: 2, passedRows: 1, dateRows: 1_000_000_000 });
  expect(planSpans({ job, limits }).length).toBeLessThan(90_000);
});
