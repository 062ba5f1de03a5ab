/** What `doctor` makes of the limits that an API tells of itself. The command is tested in `test/cli/doctor/doctor.slow.test.ts`. */
import { expect, it } from 'vitest';
import { checkSource } from '../../../src/cli/doctor/doctor.ts';
import type { Source } from '../../../src/source/source.ts';
import { ApiLimits } from '../../../src/state/limits.ts';
import { openSql } from '../../support/run.ts';
import { createJob } from '../../support/trades.ts';

const NOW = Date.parse('2026-11-20T03:00:00Z');

function sourceOf(limits: object): Source {
  const meta = { entitlement: 'active', row_limit: 200, capped: false, truncated: false, lookback_days: 15 };
  return {
    url: 'http://x',
    stats: { requests: 0, retries: 0, rateLimited: 0, bytes: 0, answerMs: 0 },
    ask: async () => ({
      data: Buffer.from('[]'),
      rows: 0,
      firstRow: undefined,
      meta: { ...meta, minimum_data_delay_minutes: 15, ...limits },
    }),
    serverNow: () => NOW,
    tellsTime: () => true,
    intervalMs: () => 1000,
  };
}

it.each([
  [{}, 'ok', undefined],
  [{ lookback_days: 10 }, 'warn', 'Dates expire after 10 days'],
  [{ minimum_data_delay_minutes: 60 }, 'warn', 'Rows come 60 minutes late'],
])('of the limits %o doctor says: %s, %s', async (limits, status, says) => {
  const opened = openSql(createJob(), sourceOf(limits), new ApiLimits('none.json', NOW));
  const findings = await checkSource('historical', opened);
  const found = findings.find(({ check }) => check === 'historical: limits');
  expect(found?.status).toBe(status);
  if (says === undefined) expect(found?.next).toBeUndefined();
  else expect(found?.next).toContain(says);
});
