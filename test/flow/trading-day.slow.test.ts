/**
 * The segments of a trading day, through the command line with a moved clock: what is sealed when, what it says of itself, and
 * what later rows do to it.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import PostalMime from 'postal-mime';
import { expect, it } from 'vitest';
import { listSessions } from '../../src/calendar/session.ts';
import { addDays, formatSecond, parseSecond, parseWallClock } from '../../src/calendar/wall-clock.ts';
import { createRow, type TableRow } from '../chaos/rows.ts';
import { writeTradeFile } from '../service/trade-file.ts';
import { flowdrop, REPO, readManifest, startService } from '../support/flowdrop.ts';
import { writeJob } from '../support/jobs.ts';
import { createMovedClock } from '../support/moved-clock.ts';
import { useTables } from './table-front.ts';

const DATE = '2026-11-20';
const BEFORE = ['2026-11-16', '2026-11-17', '2026-11-18', '2026-11-19'] as const;
const ROWS = 1_200;
const CURB = ['16:20:00', '16:41:00', '16:59:30'] as const;
/** Of the exchange's clock. */
const at = (time: string, date: string = DATE) => parseWallClock(date, parseSecond(time));
const LOOKBACK_MS = 15 * 86_400_000;

const { cleanups, folder, openTable, keep } = useTables();

let made = 0;
function rowsAt(date: string, times: readonly string[]): readonly TableRow[] {
  made += times.length;
  return times.map((time, k) => createRow(date, made - k, parseSecond(time)));
}

/** The same row with a time of another day. */
function tradeOn(day: string, { id, values }: TableRow): TableRow {
  return { id, values: { ...values, time: `${day} ${String(values['time']).slice(11)}` } };
}

/** A day from 09:30 to 16:15. @param laterSeconds how much later its times are */
function createDay(date: string, laterSeconds = 0, end = '16:14:30'): readonly TableRow[] {
  const [open, close] = [parseSecond('09:30:00'), parseSecond(end)];
  const seconds = Array.from({ length: ROWS }, (_, k) => open + Math.floor((k * (close - open)) / (ROWS - 1)));
  return rowsAt(
    date,
    seconds.map((second) => formatSecond(second + laterSeconds)),
  );
}

/** A table whose rows are visible 15 minutes after their time, and a job over it. */
async function openWorld(rows: readonly TableRow[], settle = '', own: Readonly<Record<string, string>> = {}) {
  const cwd = await folder();
  let left = rows;
  let now = at('16:31:05');
  const source = await openTable([], { now: () => now });
  const clock = await createMovedClock(cwd, now);
  const setJob = async (checks = '') =>
    await writeJob(cwd, { drop: `${settle && `settle: ${settle}`}${checks && `\nchecks:\n${checks}`}` });
  const job = await setJob();
  const outbox = join(cwd, 'outbox');
  const settings = { FLOWDROP_CLOCK: 'checked', FLOWDROP_OUTBOX_DIR: outbox };
  const env = { ...source.env, ...clock.env, ...settings, ...own };
  const type = async (args: readonly string[], code = 0) => await flowdrop(args, { cwd, env, code });
  const mails = async () => (await readdir(outbox).catch(() => [])).filter((name) => name.endsWith('.eml'));
  return {
    async run(time: string, date: string = DATE, args: readonly string[] = ['run'], code = 0) {
      now = at(time, date);
      const tradedAt = ({ values }: TableRow) => {
        const [day = '', clock = ''] = String(values['time']).split(' ');
        return at(clock, day);
      };
      const isVisible = (row: TableRow) => tradedAt(row) + 900_000 <= now;
      const gone = source.table.rows.filter((row) => tradedAt(row) + LOOKBACK_MS < now);
      await source.table.change({ remove: gone.map(({ id }) => id), add: left.filter(isVisible) });
      left = left.filter((row) => !isVisible(row));
      await clock.moveTo(now);
      return await type([...args.slice(0, 1), job, ...args.slice(1)], code);
    },
    setJob,
    manifest: async (date: string = DATE) => await readManifest(join(cwd, 'drops'), date),
    /** Of the date, corrections included. */
    mails: async (date: string = DATE) => (await mails()).filter((name) => name.includes(date)),
    /** The first mail of the date. */
    html: async () => {
      const name = (await mails()).find((one) => one.includes(DATE)) ?? '';
      return (await PostalMime.parse(await readFile(join(outbox, name)))).html;
    },
    plan: async () => await type(['plan', job]),
    status: async () => await type(['status', job]),
  };
}

const withCurb = (dates: readonly string[]) => dates.flatMap((date) => [...createDay(date), ...rowsAt(date, CURB)]);

it('by default a date is sealed after the close, says until when, and is extended once when the curb is over', async () => {
  const world = await openWorld(withCurb([...BEFORE, DATE]));
  await world.run('16:31:05');
  expect(await world.manifest()).toMatchObject({ condition: 'available', revision: 1, rows: ROWS, through: '16:15' });
  expect((await world.manifest(BEFORE[3])).through).toBeUndefined();
  const inPart = `${DATE} is sealed in part: until 16:15 (exchange time)`;
  expect((await world.status()).stdout).toContain(inPart);
  expect((await world.plan()).stdout).toContain(inPart);
  expect(await world.html()).toContain('Complete to 16:15');
  await world.run('16:57:00');
  expect(await world.manifest()).toMatchObject({ revision: 1 });
  const later = await world.run('17:16:05');
  expect(later.stdout).toContain('extended (revision 2): 3 rows of later hours');
  expect(await world.manifest()).toMatchObject({ revision: 2, rows: ROWS + 3, changes: { extended: true, added: 3 } });
  expect((await world.manifest()).through).toBeUndefined();
  expect((await world.status()).stdout).not.toContain('in part');
  expect(await world.mails()).toHaveLength(2);
});

it.each(['curb', 'learned'])('with `settle: %s` there is one seal, after the curb', async (settle) => {
  const world = await openWorld(withCurb([...BEFORE, DATE]), settle);
  await world.run('16:31:05');
  await expect(world.manifest()).rejects.toThrow();
  await world.run('17:16:05');
  const sealed = await world.manifest();
  expect(sealed).toMatchObject({ revision: 1, rows: ROWS + 3 });
  expect(sealed.through).toBeUndefined();
});

it.each(['close', 'curb'])(
  'a half day may have a curb where whole days have one, with `settle: %s`',
  async (settle) => {
    const calendar = join(await folder(), 'calendar.yaml');
    await writeFile(calendar, `early_close: [${DATE}]\n`);
    const rows = [...withCurb(BEFORE), ...createDay(DATE, 0, '13:14:30')];
    const world = await openWorld(rows, settle, { FLOWDROP_CALENDAR_FILE: calendar });
    await world.run('13:31:05');
    if (settle === 'curb') await expect(world.manifest()).rejects.toThrow();
    else {
      expect(await world.manifest()).toMatchObject({ revision: 1, rows: ROWS, through: '13:15' });
      expect((await world.status()).stdout).toContain(`${DATE} is sealed in part: until 13:15 (exchange time)`);
    }
    await world.run('17:16:05');
    expect(await world.manifest()).toMatchObject({ revision: 1, rows: ROWS });
    expect((await world.status()).stdout).not.toContain('in part');
  },
);

it('`settle: learned` does not wait where like sessions had no curb', async () => {
  const world = await openWorld(
    [...BEFORE, DATE].flatMap((date) => createDay(date)),
    'learned',
  );
  await world.run('16:31:05');
  expect(await world.manifest()).toMatchObject({ revision: 1, rows: ROWS });
});

it('an evening that the source dates by its own day extends the date the next day', async () => {
  const rows = [...BEFORE, DATE].flatMap((date) => [...createDay(date), ...rowsAt(date, ['20:16:00', '23:59:00'])]);
  const world = await openWorld(rows);
  await world.run('16:31:05', BEFORE[3]);
  await world.run('16:31:05');
  expect(await world.manifest(BEFORE[3])).toMatchObject({ revision: 2, rows: ROWS + 2, changes: { extended: true } });
  expect(await world.manifest()).toMatchObject({ revision: 1, rows: ROWS, through: '16:15' });
  expect(await world.mails(BEFORE[3])).toHaveLength(2);
});

it('a date at the edge of the lookback says how many rows have left it, where an earlier run has counted them', async () => {
  const evening = rowsAt(DATE, ['20:16:00', '20:30:00', '20:50:00']).map((row) => tradeOn(BEFORE[3], row));
  const world = await openWorld([...evening, ...createDay(DATE)]);
  await world.setJob('  - check: min-rows\n    rows: 1000000');
  const args = ['backfill', '--from', DATE, '--to', DATE];
  // The rows of the evening before leave 15 days later.
  await world.run('20:10:00', '2026-12-04', args, 1);
  await world.setJob();
  const done = await world.run('20:40:00', '2026-12-04', args, 3);
  expect(await world.manifest(), done.stderr).toMatchObject({
    ...{ condition: 'degraded', rows: ROWS + 1 },
    degraded_reason: expect.stringMatching(/^2 rows before 2026-11-19 20:40:\d\d .* an earlier run had them$/),
  });
  expect(done.stdout).toContain('2 rows before 2026-11-19 20:40');
});

/** Weeks after which one continent changes its clocks; in two of them the other has done so. */
const WEEKS = [
  ['2026-03-02', '2026-03-09'],
  ['2026-03-23', '2026-03-30'],
  ['2026-10-26', '2026-11-02'],
] as const;
it.each(WEEKS.flatMap(([first, monday]) => ['own day', 'session'].map((evenings) => ({ first, monday, evenings }))))(
  'the week of $first and Monday $monday, with evenings dated by their $evenings, on a machine in Berlin',
  async ({ first, monday, evenings }) => {
    const week = Array.from({ length: 5 }, (_, day) => addDays(first, day));
    const friday = week[4] ?? '';
    const rows = [...week, monday].flatMap((date) => {
      const evening = rowsAt(date, ['20:16:00', '23:59:00']);
      return [
        ...[...createDay(date), ...rowsAt(date, CURB)],
        ...(evenings === 'session' ? evening.map((row) => tradeOn(addDays(date, -1), row)) : evening),
      ];
    });
    const night = evenings === 'session' ? 2 : 0;
    const world = await openWorld(rows, '', { TZ: 'Europe/Berlin' });
    await world.run('16:30:30', friday, ['backfill', '--from', first, '--to', friday]);
    await expect(world.manifest(friday)).rejects.toThrow();
    await world.run('16:31:05', friday);
    expect(await world.manifest(friday)).toMatchObject({
      rows: ROWS + night,
      condition: 'available',
      through: '16:15',
    });
    expect(await world.manifest(week[3])).toMatchObject({ revision: 1, rows: ROWS + 5 });
    await world.run('17:16:05', friday);
    expect(await world.manifest(friday)).toMatchObject({
      rows: ROWS + 3 + night,
      changes: { extended: true, added: 3 },
    });
    await world.run('16:31:05', monday);
    expect(await world.manifest(friday)).toMatchObject({ rows: ROWS + 5, revision: night === 0 ? 3 : 2 });
    expect(await world.manifest(monday)).toMatchObject({
      rows: ROWS + night,
      condition: 'available',
      through: '16:15',
    });
    for (const date of [friday, monday]) expect(await world.mails(date), date).toHaveLength(2);
  },
);

it('a day whose times are of another time zone is held, with the reason, until a later session has rows', async () => {
  const rows = [...BEFORE.flatMap((date) => createDay(date)), ...createDay(DATE, 5 * 3600), ...createDay('2026-11-23')];
  const world = await openWorld(rows);
  await world.run('16:40:00', BEFORE[3]);
  const held = await world.run('23:40:00', DATE, ['run'], 3);
  expect(held.stdout).toMatch(/begin by 09:30:00: its times may be of another time zone/);
  await expect(world.manifest()).rejects.toThrow();
  await world.run('16:31:05', '2026-11-23');
  const sealed = await world.manifest();
  expect(sealed).toMatchObject({ revision: 1, rows: ROWS });
  expect(sealed.checks).toContainEqual(expect.objectContaining({ check: 'session-end', passed: false }));
});

it('the shipped jobs of chains and trades, at their own times, give a report with the whole chain of its day', async () => {
  const cwd = await folder();
  const clock = await createMovedClock(cwd, at('16:00:00'));
  const symbols = 'SPX SPY QQQ IWM VIX AAPL MSFT NVDA AMZN META GOOGL TSLA'.split(' ');
  const trades = await writeTradeFile(
    createDay(DATE).map(({ id, values }, k) => ({
      ...{ id, symbol: symbols[k % symbols.length], time: String(values['time']) },
      option_symbol: `${symbols[k % symbols.length]}261218C00100000`,
    })),
  );
  cleanups.push(trades.remove);
  // One date to ask for, at the pace that a key has.
  const calendar = join(cwd, 'calendar.yaml');
  await writeFile(calendar, `closed: [${listSessions('2026-11-05', BEFORE[3]).join(', ')}]\n`);
  for (const name of ['option-chain', 'nightly-trades']) {
    const text = await readFile(join(REPO, 'jobs', `${name}.yaml`), 'utf8');
    await writeFile(join(cwd, `${name}.yaml`), text);
    const [, minute = '', hour = ''] = /cron: "(\d+) (\d+) /.exec(text) ?? [];
    const now = at(`${hour}:${minute}:00`);
    const service = await keep(startService(['--data', trades.path, '--as-of', new Date(now).toISOString()]));
    await clock.moveTo(now);
    const own = {
      FLOWDROP_CALENDAR_FILE: calendar,
      FLOWDROP_SNAPSHOTS_PER_SECOND: '1',
      FLOWDROP_OUTBOX_DIR: join(cwd, 'outbox'),
    };
    const env = { ...service.env, ...clock.env, FLOWDROP_CLOCK: 'checked', ...own };
    await flowdrop(['run', join(cwd, `${name}.yaml`)], { cwd, env, code: 0 });
  }
  const mail = (await readdir(join(cwd, 'outbox'))).find((name) => name.includes(`${DATE}.`) && name.endsWith('.eml'));
  const { text = '' } = await PostalMime.parse(await readFile(join(cwd, 'outbox', mail ?? '')));
  expect(text).toMatch(/Net GEX.*whole chain/);
}, 300_000);
