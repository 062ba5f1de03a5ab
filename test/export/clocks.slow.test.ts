/**
 * Runs under wrong clocks: over a really running service, whose `Date` header is moved on the wire, and with an own clock
 * that is off, steps in the middle, or both. Invariant of every case: what is sealed is what the service holds of a date
 * that is whole and over. As a user meets it (exit code, words, doctor) it is tested in `test/flow/clocks.slow.test.ts`.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { HISTORICAL_PATH } from '../../src/api-contract/published-limits.ts';
import { NO_OVERRIDE } from '../../src/calendar/session.ts';
import { addDays, formatSecond, parseWallClock } from '../../src/calendar/wall-clock.ts';
import type { Clock } from '../../src/core/clock.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { type RunOptions, runExport } from '../../src/export/export.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { createHistoricalSource } from '../../src/source/historical.ts';
import { discardStages, listStages } from '../../src/stage/stage-table.ts';
import { ApiLimits } from '../../src/state/limits.ts';
import { judgeRun } from '../../src/state/run-result.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { KEY, startTestService, type TestService } from '../service/running-service.ts';
import { writeTradeFile } from '../service/trade-file.ts';
import { useCleanups } from '../support/cleanups.ts';
import type { Fault, FaultRule, SeenRequest } from '../support/fault-plan.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { parseSqlJob } from '../support/jobs.ts';
import { createSilentLog } from '../support/log.ts';
import { createPacer } from '../support/pacer.ts';
import { createExportRun, openSql } from '../support/run.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** In the evening it is clipped. */
const CLIPPED = '2026-11-05';
/** Whole in the evening; a day later it is clipped. */
const OLDEST = '2026-11-06';
/** Over and whole by every clock that is a day off. */
const YESTERDAY = '2026-11-19';
const TODAY = '2026-11-20';
const SESSIONS = [CLIPPED, OLDEST, YESTERDAY, TODAY];
/** The exchange is closed on all others, so that a run has little to do. */
const CALENDAR = {
  ...NO_OVERRIDE,
  closed: new Set(
    Array.from({ length: 60 }, (_, day) => addDays('2026-10-20', day)).filter((date) => !SESSIONS.includes(date)),
  ),
};
const EVENING = '2026-11-20T23:00:00Z';
const NOON = '2026-11-20T17:00:00Z';

/** One in five minutes from 09:30 on, the last one seconds before the close of index options. */
const SECONDS = [...Array.from({ length: 81 }, (_, k) => 34_200 + k * 300), 58_495];

const { cleanups, folder: makeFolder, keep } = useCleanups();
const engine = await keep(openEmbeddedEngine());
let service: TestService;
let proxy: FaultProxy;
let folder: string;
/** What the service's clock was moved by. */
let movedMs = 0;

beforeAll(async () => {
  const trades = await writeTradeFile(
    SESSIONS.flatMap((date) =>
      SECONDS.map((second) => ({ id: `${date}-${second}`, time: `${date} ${formatSecond(second)}` })),
    ),
  );
  cleanups.push(() => trades.remove());
  service = await keep(startTestService({ data: [trades.path], asOf: EVENING }));
  proxy = await keep(startFaultProxy(service.url));
});
beforeEach(async () => {
  folder = await makeFolder();
  for (const date of await listStages(engine)) await discardStages(engine, date);
});

/** Of the requests of one run, numbered from 1. */
interface Rule extends FaultRule {
  readonly on: (request: SeenRequest) => boolean;
}

/** Some answers tell another time. */
function shiftDate(shiftMs: number, isOn: (number: number) => boolean): readonly Rule[] {
  return [{ on: ({ number }) => isOn(number), fault: { kind: 'date', shiftMs } }];
}

interface Case {
  /** What time it is, by the service. */
  readonly asOf: string;
  /** How far this machine's clock is off. */
  readonly ownMs?: number;
  /** What every answer says of the time. */
  readonly date?: Omit<Extract<Fault, { kind: 'date' }>, 'kind'>;
  /** Instead of it, what some answers say. */
  readonly rules?: readonly Rule[];
  readonly job?: SqlJob;
  readonly options?: RunOptions;
  readonly clockRule?: 'source';
  /** Called by each request with its number: moves this machine's clock by what it returns, for good. */
  readonly step?: (request: number) => number;
}

const TRADES = parseSqlJob('job.yaml', 'name: trades\nsource: {api: historical}\ndrop: {to: out, dataset: trades}\n');

/** Runs a job under wrong clocks, and holds that nothing wrong was sealed. */
async function runUnder({ asOf, ownMs = 0, date, rules = [], job = TRADES, options = {}, ...rest }: Case) {
  const target = Date.parse(asOf) - Date.parse(EVENING);
  service.advance(target - movedMs);
  movedMs = target;
  let stepMs = ownMs + (await readServiceTime()) - Date.now();
  const note: FaultRule = {
    on: ({ number }) => {
      stepMs += rest.step?.(number - before) ?? 0;
      return false;
    },
    fault: { kind: 'stall' },
  };
  const before = proxy.requests;
  const counted = rules.map((rule) => ({
    ...rule,
    on: (request: SeenRequest) => rule.on({ ...request, number: request.number - before }),
  }));
  proxy.follow([note, ...counted, ...(date ? [{ on: () => true, fault: { kind: 'date', ...date } } as const] : [])]);
  const clock: Clock = { now: () => Date.now() + stepMs, elapsed: () => performance.now(), sleep: async () => {} };
  const url = `${proxy.url}${HISTORICAL_PATH}`;
  const limits = await new ApiLimits(join(folder, 'limits.json'), clock.now()).load();
  const source = createHistoricalSource(
    { url, apiKey: KEY, expectsMeta: true, clockOffsetMs: limits.clockOffsetMs },
    { clock, pacer: createPacer(clock, { requestsPerSecond: 1_000_000 }), log: createSilentLog() },
  );
  const store = await openDirectoryStore(join(folder, 'out'));
  const { clockRule = 'checked' } = rest;
  const opened = openSql(job, source, limits, { clock, calendar: CALENDAR, clockRule });
  const context = createExportRun(opened, { engine, store, folder, clock });
  const { result } = await runExport(context, options);
  const sealed = await new Ledger(store, 'trades').dates();
  for (const one of sealed) {
    const manifest = await new Ledger(store, 'trades').manifest(one);
    // What is not over at the service, or not whole, can be in no drop.
    expect(one > CLIPPED && (asOf === EVENING || one < TODAY), `${one} as of ${asOf}`).toBe(true);
    if (job === TRADES) expect(manifest?.rows, `rows of ${one}`).toBe(SECONDS.length);
    const close = parseWallClock(one, 16.25 * 3600);
    expect(Date.parse(manifest?.sealed_at ?? ''), `sealed_at of ${one}`).toBeGreaterThan(close);
  }
  return {
    ...{ sealed, result, kind: judgeRun(result), requests: proxy.requests - before },
    held: (result.held ?? []).map((held) => held.date),
    reasons: (result.held ?? []).map(({ reason }) => reason).join('\n'),
    conflict: result.clocks.conflict,
  };
}

async function readServiceTime(): Promise<number> {
  const { headers } = await service.ask('SELECT id FROM RawOptionTrades LIMIT 1');
  return Date.parse(headers.get('date') ?? '') + 500;
}

const WHOLE = { kind: undefined, held: [], conflict: null, sealed: [OLDEST, YESTERDAY, TODAY] };

describe('clocks that agree', () => {
  it('seal every whole date, and need no request more than the clock of the source alone', async () => {
    const checked = await runUnder({ asOf: EVENING });
    expect(checked).toMatchObject(WHOLE);
    await rm(join(folder, 'out'), { recursive: true });
    const trusting = await runUnder({ asOf: EVENING, clockRule: 'source' });
    expect(checked.requests).toBe(trusting.requests);
  });

  it.each<[string, Omit<Case, 'asOf'>]>([
    ['are a minute apart', { ownMs: MINUTE, date: { shiftMs: -20_000 } }],
    ['are told by a cache that says how old its answers are', { date: { shiftMs: -HOUR, ageSeconds: 3600 } }],
    ['are odd in the second answer alone', { rules: shiftDate(-DAY, (number) => number === 2) }],
  ])('%s, and it is no conflict', async (_, given) => {
    expect(await runUnder({ asOf: EVENING, ...given })).toMatchObject(WHOLE);
  });
});

describe("the source's clock", () => {
  it.each([
    { name: '40 minutes ahead', asOf: '2026-11-20T21:20:00Z', shiftMs: 40 * MINUTE, held: [TODAY] },
    { name: '5 hours ahead', asOf: NOON, shiftMs: 5 * HOUR, held: [TODAY] },
    { name: 'a day ahead', asOf: NOON, shiftMs: DAY, held: [OLDEST, TODAY] },
    { name: 'a day behind', asOf: EVENING, shiftMs: -DAY, held: [CLIPPED, TODAY] },
  ])('is $name: what the clocks disagree on is held back, the rest is sealed', async ({ asOf, shiftMs, held }) => {
    const run = await runUnder({ asOf, date: { shiftMs } });
    expect(run).toMatchObject({ kind: 'incomplete', held });
    expect(run.sealed).toEqual([OLDEST, YESTERDAY].filter((date) => !held.includes(date)));
    expect(run.conflict).toMatch(/^the source's clock is .* (ahead of|behind) this machine's/);
    expect(run.conflict).toContain(shiftMs > 0 ? 'ahead of' : 'behind');
    expect(run.reasons).toContain(run.conflict?.split('(')[0] ?? 'nothing');
  });

  it.each([400, -400])('is off by %i days: nothing is sealed, and nothing is called expired', async (days) => {
    const run = await runUnder({ asOf: EVENING, date: { shiftMs: days * DAY } });
    expect(run).toMatchObject({ kind: 'incomplete', sealed: [] });
    expect(run.held).toEqual(expect.arrayContaining([YESTERDAY, TODAY]));
    expect(Object.values(run.result.conditions)).not.toContain('expired');
    expect(await runUnder({ asOf: EVENING })).toMatchObject(WHOLE);
  });

  it.each([null, 'yesterday, about noon'])('is sent as %j: this clock and the rows decide', async (text) => {
    const date = { text };
    expect(await runUnder({ asOf: EVENING, date })).toMatchObject(WHOLE);
    await rm(join(folder, 'out'), { recursive: true });
    const fast = await runUnder({ asOf: NOON, date, ownMs: 5 * HOUR });
    expect(fast).toMatchObject({ kind: 'incomplete', held: [TODAY], sealed: [OLDEST, YESTERDAY] });
  });

  it('jumps forward in the middle of a run, and the session that goes on is not sealed', async () => {
    const run = await runUnder({ asOf: NOON, rules: shiftDate(5 * HOUR, (number) => number > 2) });
    expect(run.sealed).toEqual([OLDEST, YESTERDAY]);
    expect(run.conflict).toContain('ahead of');
  });

  it('jumps back in the middle of a run, and what it puts in doubt is held back with its rows staged', async () => {
    const run = await runUnder({ asOf: EVENING, rules: shiftDate(-DAY, (number) => number > 2) });
    expect(run).toMatchObject({ kind: 'incomplete', held: [TODAY] });
    expect(await runUnder({ asOf: EVENING })).toMatchObject(WHOLE);
  });
});

describe("this machine's clock", () => {
  it.each([
    { name: '5 hours ahead', asOf: NOON, ownMs: 5 * HOUR, held: [TODAY], sealed: [OLDEST, YESTERDAY] },
    { name: 'a day ahead', asOf: EVENING, ownMs: DAY, held: [OLDEST], sealed: [YESTERDAY, TODAY] },
    { name: 'an hour ahead', asOf: EVENING, ownMs: HOUR, held: [], sealed: WHOLE.sealed },
    { name: 'a day behind', asOf: EVENING, ownMs: -DAY, held: [CLIPPED, TODAY], sealed: [OLDEST, YESTERDAY] },
  ])('is $name: what both agree on is sealed, the rest told', async ({ asOf, ownMs, held, sealed }) => {
    const run = await runUnder({ asOf, ownMs });
    expect(run).toMatchObject({ kind: held.length > 0 ? 'incomplete' : undefined, held, sealed });
    expect(run.conflict).toContain(ownMs > 0 ? 'behind' : 'ahead of');
  });

  it('jumped back 400 days before the run: the date that is due is told', async () => {
    const options = { range: { from: OLDEST, to: YESTERDAY } };
    await runUnder({ asOf: EVENING, options });
    const run = await runUnder({ asOf: EVENING, ownMs: -400 * DAY });
    expect(run.kind).toBe('incomplete');
    expect(run.held).toContain(TODAY);
    expect(run.sealed).toEqual([OLDEST, YESTERDAY]);
    expect(run.conflict).toContain('400 d ahead of');
  });

  it('jumps back 400 days with the fourth request: what is not sealed by then is told', async () => {
    const run = await runUnder({ asOf: EVENING, step: (request) => (request === 4 ? -400 * DAY : 0) });
    expect(run.kind).toBe('incomplete');
    expect([...new Set([...run.sealed, ...run.held])].sort()).toEqual(expect.arrayContaining(WHOLE.sealed));
    expect(run.conflict).toContain('400 d');
  });

  it('jumped back after the last run, and the run that would find nothing to do asks what time it is', async () => {
    await runUnder({ asOf: EVENING });
    const run = await runUnder({ asOf: EVENING, ownMs: -2 * DAY });
    expect(run.conflict).toContain('2 d ahead of');
  });
});

describe('both clocks are wrong together', () => {
  const sqlOf = (source: string) =>
    parseSqlJob('job.yaml', `name: trades\nsource:\n  api: historical\n${source}\ndrop: {to: out, dataset: trades}\n`);
  const JOBS = [
    ['single trades', TRADES],
    ['SQL of a job', sqlOf('  sql: SELECT id, date, time, symbol FROM RawOptionTrades WHERE {window} AND size >= 1')],
    ['a condition', sqlOf('  where: size >= 10')],
    [
      'groups of an hour',
      sqlOf(
        "  sql: SELECT symbol, concat(substring(toString(time), 1, 13), ':00') AS hour, sum(premium) AS premium FROM RawOptionTrades WHERE {window} GROUP BY symbol, hour\n  grain: hour\n  time: hour\n  split: [symbol]\n  types: {premium: double}",
      ),
    ],
  ] as const;

  it.each(JOBS)('ahead: %s are not sealed of a session that the source shows no end of', async (_, job) => {
    const run = await runUnder({ asOf: NOON, ownMs: 5 * HOUR, date: { shiftMs: 5 * HOUR }, job });
    expect(run).toMatchObject({ kind: 'incomplete', held: [TODAY], conflict: null });
    expect(run.sealed).toEqual([OLDEST, YESTERDAY]);
    expect(run.reasons).toMatch(/^the source has (rows until 11:4\d:\d\d|no rows from its last minutes)/);
  });

  it('ahead: a first date that is held back is on record, so that its loss cannot go unnoticed', async () => {
    const options = { range: { from: TODAY, to: TODAY } };
    const run = await runUnder({ asOf: NOON, ownMs: 5 * HOUR, date: { shiftMs: 5 * HOUR }, options });
    expect(run).toMatchObject({ held: [TODAY], sealed: [] });
    const { entries } = await new Ledger(await openDirectoryStore(join(folder, 'out')), 'trades').conditions();
    expect([...entries.values()]).toMatchObject([{ date: TODAY, condition: 'pending' }]);
  });
});

describe('a session that ends early for a job', () => {
  const thin = parseSqlJob(
    'job.yaml',
    "name: trades\nsource:\n  api: historical\n  where: time < concat(date, ' 13:00:00')\ndrop: {to: out, dataset: trades}\n",
  );

  it('is sealed after one small request more, which shows that the session is over', async () => {
    const run = await runUnder({ asOf: EVENING, job: thin });
    expect(run).toMatchObject(WHOLE);
    await rm(join(folder, 'out'), { recursive: true });
    const trusting = await runUnder({ asOf: EVENING, job: thin, clockRule: 'source' });
    expect(run.requests).toBe(trusting.requests + 1);
  });

  it('is sealed by clocks that agree where the API refuses that request, and by no others', async () => {
    const refuse = {
      on: ({ sql }: { sql: string }) => sql.includes('AS late'),
      fault: { kind: 'status', status: 422, body: 'api', code: 'QUERY_TOO_BROAD' },
    } as const;
    expect(await runUnder({ asOf: EVENING, job: thin, rules: [refuse] })).toMatchObject(WHOLE);
    await rm(join(folder, 'out'), { recursive: true });
    const run = await runUnder({ asOf: EVENING, job: thin, rules: [refuse], ownMs: HOUR });
    expect(run).toMatchObject({ held: [TODAY], sealed: [OLDEST, YESTERDAY] });
  });
});
