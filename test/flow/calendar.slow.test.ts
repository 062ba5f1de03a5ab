/** The operator's calendar in whole commands: which dates are missing, when they are settled, and what is never left out. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeTradeFile } from '../service/trade-file.ts';
import { useCleanups } from '../support/cleanups.ts';
import { flowdrop, startService, type TestService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';

/** 14:00 in New York, on a Friday that the rules take for a whole session. */
const AFTERNOON = '2026-11-20T19:00:00Z';
/** The exchange was closed on Wednesday the 18th, let us say, as on 2025-01-09: no rule says so, and there are no rows. */
const TRADED = ['2026-11-16', '2026-11-17', '2026-11-19'];
const MOURNING = 'closed: [2026-11-18]\n';

const { cleanups, folder, keep } = useCleanups();
let cwd: string;
let service: TestService;
let job: string;

beforeAll(async () => {
  cwd = await folder();
  const trades = await writeTradeFile(
    TRADED.flatMap((date) => [10, 11, 12].map((hour) => ({ id: `${date}-${hour}`, time: `${date} ${hour}:00:00` }))),
  );
  cleanups.push(() => trades.remove());
  service = await keep(startService(['--data', trades.path, '--as-of', AFTERNOON]));
  job = await writeJob(cwd, { name: 'nightly', reports: '' });
});

async function run(args: readonly string[], calendar?: string) {
  if (calendar !== undefined) await writeFile(join(cwd, 'calendar.yaml'), calendar);
  const env = { ...service.env, ...(calendar === undefined ? {} : { FLOWDROP_CALENDAR_FILE: 'calendar.yaml' }) };
  return await flowdrop(['--json', ...args], { cwd, env });
}

async function plan(calendar?: string) {
  const { code, stdout, stderr } = await run(['plan', job], calendar);
  expect(code, stderr).toBe(0);
  const { dates, without_rows } = JSON.parse(stdout) as { dates: { date: string }[]; without_rows: string[] };
  return { dates: dates.map(({ date }) => date), empty: without_rows };
}

async function listConditions(calendar?: string) {
  const { stdout } = await run(['status', job], calendar);
  const [status] = JSON.parse(stdout) as { dates: { date: string; condition: string }[] }[];
  return (status?.dates ?? []).map(({ date, condition }) => `${date} ${condition}`);
}

describe('a calendar of the operator', () => {
  it('takes a session away that has no rows, and leaves none out that has some', async () => {
    const byRule = await plan();
    expect(byRule.dates).toEqual(TRADED);
    expect(byRule.empty).toContain('2026-11-18');
    expect((await plan(MOURNING)).empty).toEqual(byRule.empty.filter((date) => date !== '2026-11-18'));
    // The calendar proposes; what the source has is exported, whatever it says.
    expect((await plan('closed: [2026-11-17]')).dates).toEqual(TRADED);
  });

  it('settles a session that closes early in the early afternoon', async () => {
    expect((await plan()).empty).not.toContain('2026-11-20');
    // Now it has settled, and is asked for; while a session goes on it is not.
    expect((await plan('early_close: [2026-11-20]')).empty).toContain('2026-11-20');
  });

  it('makes a run complete that would end with a missing date, and a query tells of no such date', async () => {
    const sealed = TRADED.map((date) => `${date} available`);
    expect(await run(['run', job])).toMatchObject({ code: 3 });
    expect(await listConditions()).toEqual([...sealed, '2026-11-18 missing'].sort());
    const mended = await run(['run', job], MOURNING);
    expect(mended.code, mended.stderr).toBe(0);
    expect(await listConditions(MOURNING)).toEqual(sealed);
    const query = ['query', 'SELECT count() FROM trades', '--job', job];
    expect((await run(query)).stderr).toMatch(/^missing, not in the answer: 2026-11-18, 2026-11-20/m);
    expect((await run(query, MOURNING)).stderr).toMatch(/^missing, not in the answer: 2026-11-20/m);
  });

  it('that is not valid stops a run before it asks anything', async () => {
    const requests = service.requests.length;
    const { code, stdout } = await run(['run', job], 'closed: [tomorrow]');
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({
      error: {
        code: 'CALENDAR_INVALID',
        message: expect.stringContaining('calendar.yaml:1: closed.0: got "tomorrow"'),
      },
    });
    expect(service.requests.length).toBe(requests);
  });
});
