/**
 * Dates on which no row meets a job's own condition, or no group its HAVING: nothing is lost when they expire. What is
 * recorded of each date is in `test/plan/conditions.test.ts`.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { previousSessions } from '../../src/calendar/session.ts';
import { parseWallClock } from '../../src/calendar/wall-clock.ts';
import { conditionKey } from '../../src/ledger/layout.ts';
import type { TableRow } from '../chaos/rows.ts';
import { flowdrop, readJson } from '../support/flowdrop.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { createTrade } from '../support/trades.ts';
import { useTables } from './table-front.ts';

const LAST = '2026-11-20';
const [FIRST = '', SECOND = '', THIRD = ''] = previousSessions(LAST, 4);
const DAY_MS = 86_400_000;

const { folder, openTable } = useTables();

function createRow(date: string, id: string, symbol: string): TableRow {
  const values = { ...createTrade(1), id: `${date}-${id}`, date, time: `${date} 15:59:59`, symbol, size: 1 };
  return { id: `${date}-${id}`, values };
}

const JOBS = {
  where: `source: {api: historical, where: "symbol = 'RARE'"}`,
  having: `source:
  api: portal
  sql: SELECT concat(substring(toString(time), 1, 13), ':00') AS hour, sum(size) AS contracts FROM RawOptionTrades WHERE {window} GROUP BY hour HAVING contracts > 1
  grain: hour
  time: hour
  types: {contracts: int64}`,
};

describe.each(Object.keys(JOBS) as readonly (keyof typeof JOBS)[])('dates without rows of a job (%s)', (kind) => {
  it('are recorded as empty, seal once they have rows, and are not lost when they expire', async () => {
    const cwd = await folder();
    const clock = await createMovedClock(cwd, parseWallClock(LAST, 17 * 3600));
    const all = [FIRST, SECOND, THIRD, LAST].map((date) => createRow(date, 'any', 'SPY'));
    const source = await openTable([...all, createRow(FIRST, 'rare', 'RARE')], { now: () => clock.now() });
    const env = { ...clock.env, ...source.env };
    const job = join(cwd, 'rare.yaml');
    await writeFile(
      job,
      `name: rare\n${JOBS[kind]}\ndrop: {to: drops, dataset: rare${kind === 'having' ? ', sort: [hour]' : ''}}\n`,
    );
    const run = async (command = 'run') => await flowdrop([command, job], { cwd, env });
    const conditions = async () => {
      const entries = await readJson<readonly Record<string, string>[]>(join(cwd, 'drops'), conditionKey('rare'));
      return entries.map(({ date, condition }) => `${date} ${condition}`);
    };
    const first = await run();
    expect(first.code, first.stdout + first.stderr).toBe(0);
    expect(await conditions()).toEqual([`${FIRST} available`, `${SECOND} empty`, `${THIRD} empty`, `${LAST} empty`]);
    await source.table.change({ remove: [], add: [createRow(THIRD, 'rare', 'RARE')] });
    const second = await run();
    expect(second.code, second.stdout + second.stderr).toBe(0);
    expect(await conditions()).toEqual([
      ...[`${FIRST} available`, `${SECOND} empty`, `${THIRD} available`, `${LAST} empty`],
    ]);
    const query = await flowdrop(['query', 'SELECT count() AS n FROM rare', '--from-store', 'drops'], {
      cwd,
      env,
      code: 0,
    });
    expect(query.stderr).not.toContain('missing');
    await clock.moveTo(parseWallClock(LAST, 17 * 3600) + 15 * DAY_MS);
    const status = await run('status');
    expect(status.stdout).toContain('□ empty 2');
    expect(status.stdout).not.toMatch(new RegExp(`X expired|lost:|${SECOND} (pending|expired)`));
  });
});
