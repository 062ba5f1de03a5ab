/**
 * A week, and in `npm run nightly` a fortnight, by a moved clock, from tick to tick of a schedule: late rows after each session, one outage of the API during a
 * session, one holiday, one half day, and the night in which New York's clocks change. What decides whether a day has a tick
 * is the daemon's own; its process, its loop and its kills are in `test/daemon` and `test/flow/week.slow.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  closeSecond,
  isHalfDay,
  isSession,
  listSessions,
  NO_OVERRIDE,
  OPEN_SECOND,
  sessionCloseSecond,
} from '../../src/calendar/session.ts';
import { addDays, formatWallDate, parseWallClock } from '../../src/calendar/wall-clock.ts';
import { expiresAt } from '../../src/plan/dates.ts';
import { createTicks } from '../../src/plan/ticks.ts';
import { readMailed } from '../chaos/judge.ts';
import { createRow, type TableRow } from '../chaos/rows.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { chooseSize } from '../support/nightly.ts';
import type { DrawnLife } from './draw.ts';
import { judgeLife, type TakenInRun } from './judge.ts';
import { type Life, type RunTrouble, type SimulatedRun, World } from './world.ts';

const [FROM, TO] = chooseSize(['2026-10-28', '2026-11-04'] as const, ['2026-10-26', '2026-11-06'] as const);
/** Clocks change on Sunday, November 1. */
const HOLIDAY = '2026-10-28';
const HALF_DAY = '2026-11-04';
/** The API is away around noon: for several stagings, and for the first tick of the day. */
const OUTAGE = '2026-10-29';
const AWAY = [11 * 3600, 14 * 3600] as const;
/** A session before it: what a day looks like is known then, and staging goes by it. */
const EARLIER = '2026-10-23';
/** Sessions after the fortnight, until its dates have expired. */
const LATER = ['2026-11-11', '2026-11-17', '2026-11-23'] as const;
const CALENDAR = {
  ...NO_OVERRIDE,
  earlyClose: new Set([HALF_DAY]),
  closed: new Set([
    HOLIDAY,
    ...listSessions(addDays(FROM, -20), addDays(EARLIER, -1)),
    ...listSessions(addDays(EARLIER, 1), addDays(FROM, -1)),
    ...listSessions(addDays(TO, 1), '2026-12-31').filter((date) => !LATER.some((later) => later === date)),
  ]),
};
const FORTNIGHT = listSessions(FROM, TO, CALENDAR);
const DATES = [EARLIER, ...FORTNIGHT, ...LATER];
/** A minute after the release of a session's last trades, of half days and whole ones: by default it has settled then. */
const CRON = '31 13,16 * * 1-5';
const CORRECT_ABOVE = 0.1;
const TO_ADDRESS = 'desk@example.com';
const JOB = parseSqlJob(
  'fortnight.yaml',
  `name: fortnight
source: {api: historical}
drop: {to: out, dataset: trades}
schedule: {cron: "${CRON}", timezone: America/New_York, stage: 5m}
reports: [{template: flow, to: [${TO_ADDRESS}], correct_above: ${CORRECT_ABOVE}}]
`,
);
/** Of the daemon's own instants each sixth: a staged session is as complete by it. */
const STAGING = '*/30 10-16 * * 1-5';
const ROWS = 400;
/** Of sessions after the fortnight. */
const FEW_ROWS = 20;
/** So few that a session takes longer than two minutes at one request a second. */
const ROW_LIMIT = 5;
const MINUTE_MS = 60_000;
/** What the API holds back. */
const DELAY_MS = 15 * MINUTE_MS;
/** From the release of a session's last row to the mail. */
const MOST_MS = 2 * MINUTE_MS;
/** Requests of a staged session, of the fewest: a day this small has a few more than a large one's 1.03. */
const MOST_SHARE = 1.1;
const EIGHT_SECOND = 8 * 3600;
const TIMEOUT_MS = 900_000;

/**
 * The last row is of the session's last second, in which options on indices trade.
 */
function createSession(date: string, number: number): readonly TableRow[] {
  const equity = closeSecond(date, 'equity', CALENDAR);
  const count = date > TO ? FEW_ROWS : ROWS;
  const rows = Array.from({ length: count }, (_, k) =>
    createRow(date, number * 1000 + k, OPEN_SECOND + Math.floor((k * (equity - OPEN_SECOND)) / count)),
  );
  const ends = [equity - 1, sessionCloseSecond(date, CALENDAR) - 1];
  return [...rows, ...ends.map((second, at) => createRow(date, number * 1000 + ROWS + at, second))];
}

/** Every other session has late rows that change its premium by far more than `correct_above`; the others by less. */
function createLate(date: string, number: number): readonly TableRow[] {
  const isLarge = number % 2 === 0;
  const changes = isLarge
    ? { premium: 400_000_000, size: 9_000 }
    : { premium: 1_000, size: 1, oi: 0, gamma: 0, delta: 0, dex: 0, dei: 0 };
  return [createRow(date, number * 1000 + 900, OPEN_SECOND + 7_000, changes)];
}

function releasedAt(date: string): number {
  return parseWallClock(date, sessionCloseSecond(date, CALENDAR)) + DELAY_MS;
}

/** The ticks of the daemon, which has none on days without a session. */
function listTicks(cron: string): readonly number[] {
  const ticks = createTicks({ cron, timezone: 'America/New_York' });
  const found: number[] = [];
  const isDue = (ms: number) => isSession(formatWallDate(ms), CALENDAR);
  const [first = FROM, last = TO] = [DATES[0], DATES.at(-1)];
  for (let through = parseWallClock(last, 0) + 24 * 60 * MINUTE_MS; ; ) {
    const tick = ticks.newest(parseWallClock(first, 0), through, isDue);
    if (tick === undefined) return found.reverse();
    found.push(tick);
    through = tick - MINUTE_MS;
  }
}

describe('a fortnight', () => {
  let world: World;
  let life: Life;
  const runs: SimulatedRun[] = [];
  /** Requests of a date's stagings. */
  const staged = new Map<string, number>();
  const mails: (TakenInRun & { readonly byMs: number })[] = [];
  beforeAll(async () => {
    world = await World.open();
    life = await world.begin({
      ...{ startMs: parseWallClock(EARLIER, EIGHT_SECOND), job: JOB, rowLimit: ROW_LIMIT, calendar: CALENDAR },
    });
    await world.table.restart(DATES.flatMap(createSession), () => life.now());
    const late = FORTNIGHT.map((date, number) => ({
      atMs: parseWallClock(addDays(date, 1), EIGHT_SECOND),
      rows: createLate(date, number),
    }));
    const stagings = new Set(listTicks(STAGING));
    for (const tick of [...listTicks(CRON), ...stagings].sort((a, b) => a - b)) {
      for (const { atMs, rows } of late.filter(({ atMs: due }) => due > life.now() && due <= tick)) {
        life.moveTo(atMs);
        await world.table.change({ remove: [], add: rows });
      }
      life.moveTo(tick);
      const date = formatWallDate(tick);
      const [from, until] = AWAY.map((second) => parseWallClock(OUTAGE, second)) as [number, number];
      const isAway = tick >= from && tick < until;
      const away: RunTrouble = { api: () => ({ kind: 'status', status: 503, body: 'html' }) };
      if (stagings.has(tick)) {
        const requests = world.requests;
        await life.stage(isAway ? away : undefined);
        if (!isAway) staged.set(date, (staged.get(date) ?? 0) + world.requests - requests);
        continue;
      }
      const before = world.mail.taken.length;
      const run = await life.run(isAway ? away : undefined);
      mails.push(...world.mail.taken.slice(before).map((mail) => ({ ...mail, run: runs.length, byMs: run.endMs })));
      runs.push(run);
    }
  }, TIMEOUT_MS);
  afterAll(async () => {
    await life.remove();
    await world.close();
  });

  const sealed = (run: SimulatedRun) => (run.finished?.result?.dates ?? []).filter(({ status }) => status === 'sealed');

  it('has a holiday, a half day, and two lengths of the night in UTC', () => {
    expect(FORTNIGHT).toHaveLength(chooseSize(5, 9));
    expect(isHalfDay(HALF_DAY, CALENDAR)).toBe(true);
    const [before, after] = ['2026-10-30', '2026-11-02'].map((date) => new Date(releasedAt(date)).getUTCHours());
    expect([before, after]).toEqual([20, 21]);
  });

  it.each(FORTNIGHT)('seals and mails %s within two minutes of the release of its last row', (date) => {
    const first = runs.find((run) => sealed(run).some((one) => one.date === date && one.revision === 1));
    const mail = mails.find(({ messageId }) => readMailed(messageId).date === date);
    const released = releasedAt(date);
    for (const atMs of [first?.endMs, mail?.byMs]) {
      expect(atMs).toBeGreaterThanOrEqual(released);
      expect(atMs).toBeLessThanOrEqual(released + MOST_MS);
    }
  });

  it('is staged while it runs, at few requests more than the fewest', () => {
    const fewest = Math.ceil((ROWS + 2) / ROW_LIMIT);
    for (const date of FORTNIGHT) {
      const ahead = staged.get(date) ?? 0;
      const last = runs.flatMap(sealed).find((one) => one.date === date)?.requests ?? 0;
      console.log(`${date}: ${ahead} request(s) of stagings, ${last} of the run; ${fewest} are the fewest`);
      expect([date, ahead > fewest * 0.8, ahead + last <= fewest * MOST_SHARE]).toEqual([date, true, true]);
    }
  });

  it('compares nothing while the API is away, and seals that date all the same', () => {
    const away = runs.filter(({ faults }) => faults.length > 0);
    expect(away).toHaveLength(1);
    expect(away[0]?.finished?.result?.audits).toEqual({});
    expect(away[0]?.log.some(({ event }) => event === 'audit-failed')).toBe(true);
  });

  it('restates each date once its late rows are there, and mails only what changed by more than the job says', () => {
    const restated = runs.flatMap((run) => sealed(run).filter(({ revision = 0 }) => revision > 1));
    expect(restated.map(({ date, revision }) => `${date} r${revision}`).sort()).toEqual(
      FORTNIGHT.map((date) => `${date} r2`),
    );
    const corrected = mails.flatMap(({ messageId }) => /\.(\d{4}-\d\d-\d\d)\.r2\./.exec(messageId)?.[1] ?? []);
    expect(corrected.sort()).toEqual(FORTNIGHT.filter((_, number) => number % 2 === 0));
  });

  it('leaves every date equal to the source when it has expired, and each mail sent once', async () => {
    expect(life.now()).toBeGreaterThan(expiresAt(FORTNIGHT.at(-1) ?? ''));
    const drawn: Pick<DrawnLife, 'job' | 'dates' | 'cared' | 'recipients'> = {
      ...{ job: JOB, dates: DATES, cared: new Set(FORTNIGHT), recipients: [TO_ADDRESS] },
    };
    const versions = (date: string) => world.table.versions(date);
    const verdict = await judgeLife({ drawn, storeFolder: life.storeFolder, runs, mails, versions });
    expect(verdict).toEqual({ problems: [], equal: DATES.length, stale: 0, lost: 0 });
    expect(new Set(mails.map(({ messageId }) => messageId)).size).toBe(mails.length);
  });
});
