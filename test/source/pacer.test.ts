/**
 * The request budget on clocks that the test moves: the pace, its recovery, turns between processes, and what a budget's
 * file may come to. That real processes keep to it is in `pacer-processes.slow.test.ts`, that machines do in
 * `pacer-redis.external.test.ts`.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Clock } from '../../src/core/clock.ts';
import { BUDGETS, type BudgetName, paceOf } from '../../src/source/pace/reservations.ts';
import { createCellPacer, MAX_RETRY_AFTER_MS, openPacer, type Pacer } from '../../src/source/pacer.ts';
import { createFakeClock, type FakeClock, type FakeClockOptions } from '../support/fake-clock.ts';
import { makeFolder } from '../support/flowdrop.ts';
import { createMemoryCell, createPacer, gapsOf } from '../support/pacer.ts';
import { createRandom } from '../support/random.ts';

const KEY = 'apikey_0123456789abcdef';
const INTERVAL_MS = 1010;

/** Of a state's file. */
const numberOf = (name: string) => Number.parseInt(name, 10);

function start(options: FakeClockOptions = {}) {
  const clock = createFakeClock(options);
  return { clock, pacer: createPacer(clock, { requestsPerSecond: 1 }) };
}

async function takeStarts(pacer: Pacer, clock: Clock, count: number): Promise<readonly number[]> {
  const starts: number[] = [];
  for (let i = 0; i < count; i += 1) {
    await pacer.acquire();
    starts.push(clock.now());
  }
  return starts;
}

describe('the pace', () => {
  test('never lets two requests start closer than the interval, whatever the answers take, or after a pause', async () => {
    const seed = 7;
    const random = createRandom(seed);
    const { clock, pacer } = start();
    const starts: number[] = [];
    for (let i = 0; i < 500; i += 1) {
      await pacer.acquire();
      starts.push(clock.now());
      clock.advance(random() < 0.3 ? random() * 5000 : random() * 900);
    }
    const gaps = gapsOf(starts);
    expect(Math.min(...gaps), `seed ${seed}`).toBeGreaterThanOrEqual(1000);
    expect(Math.min(...gaps), `seed ${seed}`).toBeLessThan(1020);
  });

  test('is kept full when answers take two and a half seconds and several are in flight', async () => {
    const { clock, pacer } = start({ waiting: 'all' });
    const starts: number[] = [];
    const ask = async () => {
      for (let i = 0; i < 10; i += 1) {
        await pacer.acquire();
        starts.push(clock.now());
        await clock.sleep(2500);
      }
    };
    await clock.run(Promise.all([ask(), ask(), ask(), ask()]));
    expect(starts).toHaveLength(40);
    expect(Math.min(...gapsOf(starts))).toBeGreaterThanOrEqual(INTERVAL_MS - 0.01);
    expect((starts.at(-1) ?? 0) - (starts[0] ?? 0)).toBeLessThan(39 * INTERVAL_MS * 1.01);
  });

  test('serves the callers of a process in the order they came', async () => {
    const pacer = createPacer(createFakeClock(), { requestsPerSecond: 1 });
    const order: number[] = [];
    await Promise.all(Array.from({ length: 20 }, (_, i) => pacer.acquire().then(() => order.push(i))));
    expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  test('lets an aborted caller go at once, from behind a sleeping one too, without spending its turn', async () => {
    const { clock, pacer } = start({ waiting: 'all' });
    const began = clock.now();
    await pacer.acquire();
    const controller = new AbortController();
    const head = pacer.acquire();
    const stopped = pacer.acquire(controller.signal);
    const next = pacer.acquire();
    controller.abort(new Error('stop'));
    // Time stands still: nobody runs the clock.
    await expect(stopped).rejects.toThrow('stop');
    await expect(pacer.acquire(AbortSignal.abort(new Error('late')))).rejects.toThrow('late');
    await clock.run(Promise.all([head, next]));
    expect(clock.now() - began).toBeCloseTo(2 * INTERVAL_MS, 0);
  });
});

describe('a 429', () => {
  test('is obeyed to the second, also by a caller that sleeps already', async () => {
    const { clock, pacer } = start();
    await pacer.acquire();
    const sleep = clock.sleep;
    let told = false;
    clock.sleep = async (ms, signal) => {
      await sleep(ms, signal);
      if (!told) void pacer.slowDown(30_000);
      told = true;
    };
    const began = clock.now();
    await pacer.acquire();
    expect(clock.now() - began).toBeGreaterThanOrEqual(30_000 + 1000);
    expect(clock.now() - began).toBeLessThan(30_000 + 1020);
  });

  test('alone widens the spacing by two percent, once for all in flight, and lowers no pace', async () => {
    const { clock, pacer } = start();
    await takeStarts(pacer, clock, 3);
    await pacer.slowDown(1_000);
    await pacer.slowDown(1_000);
    expect(pacer.intervalMs()).toBeCloseTo(INTERVAL_MS * 1.02, 6);
    for (const gap of gapsOf(await takeStarts(pacer, clock, 20))) expect(gap).toBeCloseTo(INTERVAL_MS * 1.02, 3);
  });

  test('keeps the next request an interval away from the refused one, even with a shorter Retry-After', async () => {
    const { clock, pacer } = start();
    await takeStarts(pacer, clock, 1);
    clock.advance(900);
    const refused = clock.now();
    await pacer.slowDown(100);
    await pacer.acquire();
    expect(clock.now() - refused).toBeCloseTo(INTERVAL_MS * 1.02, 3);
  });

  test('now and then widens the spacing to a tenth at most, and 2,000 starts without one give a step back', async () => {
    const { clock, pacer } = start();
    for (let i = 0; i < 8; i += 1) {
      await takeStarts(pacer, clock, 10);
      await pacer.slowDown(0);
    }
    expect(pacer.intervalMs()).toBeCloseTo(INTERVAL_MS * 1.1, 6);
    await takeStarts(pacer, clock, 1_999);
    expect(pacer.intervalMs()).toBeCloseTo(INTERVAL_MS * 1.1, 6);
    await takeStarts(pacer, clock, 1);
    expect(pacer.intervalMs()).toBeCloseTo(INTERVAL_MS * 1.08, 6);
    await takeStarts(pacer, clock, 10_000);
    expect(pacer.intervalMs()).toBe(INTERVAL_MS);
  });

  test('within ten starts of another halves the pace, to an eighth at most, and ten good starts take it back', async () => {
    const { clock, pacer } = start();
    await pacer.slowDown(0);
    const spaced = pacer.intervalMs();
    for (const slowdown of [2, 4, 8, 8]) {
      await takeStarts(pacer, clock, 2);
      await pacer.slowDown(0);
      expect(pacer.intervalMs() / spaced).toBe(slowdown);
    }
    const slowdowns: number[] = [];
    for (let i = 0; i < 10; i += 1) {
      await pacer.acquire();
      slowdowns.push(pacer.intervalMs() / spaced);
    }
    expect(slowdowns).toEqual([8, 8, 4, 4, 4, 2, 2, 2, 1, 1]);
    await pacer.slowDown(0);
    expect(pacer.intervalMs()).toBeCloseTo(INTERVAL_MS * 1.04, 6);
  });

  test('met by a request from before the last slow-down does not count again, even after another start', async () => {
    const { clock, pacer } = start();
    const [first = 0, second = 0] = await takeStarts(pacer, clock, 2);
    clock.advance(100);
    await pacer.slowDown(0, first);
    const spaced = pacer.intervalMs();
    const [third = 0] = await takeStarts(pacer, clock, 1);
    clock.advance(100);
    await pacer.slowDown(0, second);
    expect(pacer.intervalMs()).toBe(spaced);
    await pacer.slowDown(0, third);
    expect(pacer.intervalMs()).toBe(spaced * 2);
  });

  test.each([1, 2, 3, 4, 5])(
    'of a server that counts each second costs one request in a hundred, seed %i',
    async (seed) => {
      const { clock, starts, refused } = await askJitteryServer(seed, 20);
      const seconds = (clock.now() - (starts[0] ?? 0)) / 1000;
      expect(refused).toBe(1);
      expect(starts.length / seconds).toBeGreaterThanOrEqual(0.95);
    },
  );

  test('of a server whose network is slower than any spacing costs less than the pace', async () => {
    const { clock, starts, refused } = await askJitteryServer(7, 150);
    // Every second request of a fixed pace would come too early.
    expect(refused).toBeLessThan(20);
    expect((starts.length - refused) / ((clock.now() - (starts[0] ?? 0)) / 1000)).toBeGreaterThan(0.5);
  });
});

/**
 * A hundred requests, four in flight, to a server that answers after 2.5 s and refuses whatever arrives within a second
 * of the arrival before, refused ones included.
 * @param jitterMs each request takes up to this long to arrive
 */
async function askJitteryServer(seed: number, jitterMs: number) {
  const random = createRandom(seed);
  const { clock, pacer } = start({ waiting: 'all' });
  const starts: number[] = [];
  let lastArrival = Number.NEGATIVE_INFINITY;
  let refused = 0;
  const work = async () => {
    while (starts.length < 100) {
      await pacer.acquire();
      const startedAt = clock.now();
      starts.push(startedAt);
      await clock.sleep(5 + random() * jitterMs);
      const isTooSoon = clock.now() - lastArrival < 1_000;
      lastArrival = clock.now();
      if (!isTooSoon) {
        await clock.sleep(2_500);
        continue;
      }
      refused += 1;
      await clock.sleep(5);
      await pacer.slowDown(1_000, startedAt);
    }
  };
  await clock.run(Promise.all([work(), work(), work(), work()]));
  return { clock, starts, refused };
}

describe('turns between processes', () => {
  type Starter = { readonly name: string; readonly count: number; readonly at?: number };

  /** Each starter is a process of its own before one budget. @returns their names in the order of the starts */
  async function order(starters: readonly Starter[]): Promise<readonly string[]> {
    const clock = createFakeClock({ waiting: 'all' });
    const cell = createMemoryCell(clock);
    const pace = paceOf(BUDGETS.historical, MAX_RETRY_AFTER_MS);
    const starts: { readonly name: string; readonly at: number }[] = [];
    const act = async ({ name, count, at = 0 }: Starter) => {
      const pacer = createCellPacer(clock, pace, cell);
      await clock.sleep(at);
      for (let i = 0; i < count; i += 1) {
        await pacer.acquire();
        starts.push({ name, at: clock.now() });
      }
    };
    await clock.run(Promise.all(starters.map(act)));
    expect(Math.min(...gapsOf(starts.map(({ at }) => at)))).toBeGreaterThanOrEqual(INTERVAL_MS - 0.01);
    return starts.map(({ name }) => name);
  }

  test('alternate between equals, however many requests each has', async () => {
    const names = await order([
      { name: 'a', count: 20 },
      { name: 'b', count: 20 },
      { name: 'c', count: 20 },
    ]);
    // The first came before the others, so it has a start more at the beginning.
    for (let i = 1; i + 3 <= names.length - 2; i += 1) {
      expect([...names.slice(i, i + 3)].sort(), `from start ${i}`).toEqual(['a', 'b', 'c']);
    }
  });

  test('come to a process that joins after one round at most', async () => {
    const names = await order([
      { name: 'a', count: 30 },
      { name: 'b', count: 30 },
      { name: 'late', count: 5, at: 10_500 },
    ]);
    expect(names.slice(0, 11)).not.toContain('late');
    expect(names.slice(11, 14)).toContain('late');
  });
});

describe('a budget in a folder', () => {
  let folder: Awaited<ReturnType<typeof makeFolder>>;
  let clock: FakeClock;
  beforeEach(async () => {
    folder = await makeFolder();
    clock = createFakeClock();
  });
  afterEach(() => folder.remove());

  const open = (budget: BudgetName = 'historical', apiKey = KEY) =>
    openPacer(budget, { clock, stateDir: folder.path, apiKey });
  const listStates = async () => {
    const [budget = ''] = await readdir(join(folder.path, 'pace'));
    const states = (await readdir(join(folder.path, 'pace', budget))).sort((a, b) => numberOf(a) - numberOf(b));
    return { path: join(folder.path, 'pace', budget), states };
  };

  test('goes on where another pacer of it stopped, at a start and at a 429', async () => {
    const other = await open();
    await takeStarts(other, clock, 1);
    const began = clock.now();
    await takeStarts(await open(), clock, 1);
    expect(clock.now() - began).toBeCloseTo(INTERVAL_MS, 0);
    await other.slowDown(30_000);
    await takeStarts(await open(), clock, 1);
    expect(clock.now() - began).toBeGreaterThan(30_000);
  });

  test('is touched by the first request, not by opening it', async () => {
    const pacer = await open();
    expect(await readdir(folder.path)).toEqual([]);
    await pacer.acquire();
    expect(await readdir(folder.path)).toEqual(['pace']);
  });

  test('is named without the key, keeps few files, and holds nothing of the key', async () => {
    await takeStarts(await open(), clock, 50);
    const { path, states } = await listStates();
    expect(path).toMatch(/historical-[0-9a-f]{16}$/);
    expect(states.length).toBeLessThanOrEqual(17);
    const texts = await Promise.all(states.map((name) => readFile(join(path, name), 'utf8')));
    expect(texts.filter((text) => text.includes(KEY))).toEqual([]);
  });

  test('of another key or another kind does not slow this one down', async () => {
    const pacers = [
      await open(),
      await open('historical', 'another_key_98765'),
      await open('chain'),
      await open('market-structure'),
    ];
    const began = clock.now();
    await pacers[0]?.slowDown(60_000);
    for (const pacer of pacers.slice(1)) await pacer.acquire();
    expect(clock.now()).toBe(began);
    await pacers[0]?.acquire();
    expect(clock.now() - began).toBe(60_000);
  });

  test('of the option chain grants ten at once after a quiet while, then one a second', async () => {
    const pacer = await open('chain');
    for (const quietMs of [0, 60_000]) {
      clock.advance(quietMs);
      const began = clock.now();
      const starts = await takeStarts(pacer, clock, 15);
      expect(starts.slice(0, 10)).toEqual(Array.from({ length: 10 }, () => began));
      for (const gap of gapsOf(starts.slice(9))) expect(gap).toBeCloseTo(INTERVAL_MS, 0);
    }
    clock.advance(3 * INTERVAL_MS);
    const began = clock.now();
    expect((await takeStarts(pacer, clock, 5)).filter((start) => start === began)).toHaveLength(3);
  });

  test('of the option chain has nothing saved up after a 429', async () => {
    const pacer = await open('chain');
    const began = clock.now();
    await pacer.slowDown(5_000);
    const starts = await takeStarts(pacer, clock, 15);
    expect((starts[0] ?? 0) - began).toBeCloseTo(5_000, 3);
    for (const gap of gapsOf(starts)) expect(gap).toBeCloseTo(INTERVAL_MS * 1.02, 3);
  });

  test.each([
    ['empty', ''],
    ['half-written', '{"version":3,"paced_'],
    ['of another version', '{"version":2}'],
    ['full of impossible numbers', '{"version":3,"slowdown":-1,"paced_until":null}'],
  ])('that was left %s costs one whole interval', async (_name, text) => {
    await takeStarts(await open(), clock, 3);
    clock.advance(60_000);
    const { path, states } = await listStates();
    await writeFile(join(path, states.at(-1) ?? ''), text);
    const began = clock.now();
    const starts = await takeStarts(await open(), clock, 3);
    expect((starts[0] ?? 0) - began).toBeCloseTo(INTERVAL_MS, 0);
    for (const gap of gapsOf(starts)) expect(gap).toBeCloseTo(INTERVAL_MS, 0);
  });

  test('survives what a kill leaves between any two steps of writing', async () => {
    await takeStarts(await open(), clock, 2);
    const { path, states } = await listStates();
    const newest = states.at(-1) ?? '';
    const text = await readFile(join(path, newest), 'utf8');
    // Killed while it wrote the next state; after it wrote it; after it linked it but before it told anybody.
    await writeFile(join(path, 'aaaaaaaaaaaa.tmp'), text.slice(0, 20));
    await writeFile(join(path, 'bbbbbbbbbbbb.tmp'), text);
    await writeFile(join(path, `${numberOf(newest) + 1}.json`), text);
    const began = clock.now();
    const [start = 0] = await takeStarts(await open(), clock, 1);
    expect(start - began).toBeCloseTo(INTERVAL_MS, 0);
    // The fake clock is years away from the files' own times, so they count as abandoned by the next to open it.
    clock.advance(365 * 24 * 3_600_000 * 100);
    await (await open()).acquire();
    expect((await listStates()).states.filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  test('that is taken away while it is used is made again', async () => {
    const pacer = await open();
    await pacer.acquire();
    await rm(join(folder.path, 'pace'), { recursive: true });
    await pacer.acquire();
    expect((await listStates()).states.length).toBeGreaterThan(0);
  });

  test('drops reservations whose time has passed, and those of another time', async () => {
    await takeStarts(await open(), clock, 1);
    const { path, states } = await listStates();
    const state = JSON.parse(await readFile(join(path, states.at(-1) ?? ''), 'utf8')) as Record<string, unknown>;
    const ghosts = [-60_000, -30_000, -1_000].map((byMs) => ({
      id: `ghost ${byMs}`,
      at: clock.now() + byMs,
    }));
    await writeFile(join(path, '999.json'), JSON.stringify({ ...state, reservations: ghosts }));
    const began = clock.now();
    await takeStarts(await open(), clock, 1);
    expect(clock.now() - began).toBeCloseTo(INTERVAL_MS, 0);
    clock.advance(-3_600_000);
    const back = clock.now();
    await takeStarts(await open(), clock, 1);
    expect(clock.now() - back).toBeCloseTo(INTERVAL_MS, 0);
  });

  test('loses one slot to a reservation that nobody uses', async () => {
    const virtual = createFakeClock({ waiting: 'all' });
    const stateDir = folder.path;
    const openVirtual = () => openPacer('historical', { clock: virtual, stateDir, apiKey: KEY });
    // Its process is killed while it sleeps.
    const dead = createFakeClock({ waiting: 'all' });
    dead.set(virtual.now());
    const [alive, killed] = [
      await openVirtual(),
      await openPacer('historical', { clock: dead, stateDir, apiKey: KEY }),
    ];
    await alive.acquire();
    const before = await readdir(stateDir, { recursive: true });
    void killed.acquire();
    await vi.waitFor(async () => expect(await readdir(stateDir, { recursive: true })).not.toEqual(before));
    const began = virtual.now();
    await virtual.run(alive.acquire());
    expect(virtual.now() - began).toBeCloseTo(2 * INTERVAL_MS, 0);
    await virtual.run(alive.acquire());
    expect(virtual.now() - began).toBeCloseTo(3 * INTERVAL_MS, 0);
  });

  test.each([
    ['an hour back', -3_600_000],
    ['a year back', -365 * 24 * 3_600_000],
    ['an hour ahead', 3_600_000],
    ['a year ahead', 365 * 24 * 3_600_000],
  ])('waits one interval at most when the clock is set %s', async (_name, byMs) => {
    const pacer = await open();
    await takeStarts(pacer, clock, 3);
    clock.advance(byMs);
    const began = clock.now();
    const starts = await takeStarts(pacer, clock, 3);
    expect((starts[0] ?? 0) - began).toBeLessThanOrEqual(INTERVAL_MS + 0.01);
    for (const gap of gapsOf(starts)) expect(gap).toBeCloseTo(INTERVAL_MS, 0);
  });

  test.each([
    ['uses up years', { paced_until: 1e13, interval_ms: 1e300 }],
    ['is of no time at all', { paced_until: 1e300, blocked_until: 1e300, interval_ms: 1e300, limited_at: 1e300 }],
  ])('waits one interval at most for a state that %s', async (_name, odd) => {
    await takeStarts(await open(), clock, 1);
    const { path, states } = await listStates();
    const state = JSON.parse(await readFile(join(path, states.at(-1) ?? ''), 'utf8')) as Record<string, unknown>;
    await writeFile(join(path, '999.json'), JSON.stringify({ ...state, ...odd }));
    const began = clock.now();
    await takeStarts(await open(), clock, 1);
    expect(clock.now() - began).toBeLessThanOrEqual(INTERVAL_MS + 0.01);
  });

  test('waits no longer than it was told when the clock is set back after a 429', async () => {
    const pacer = await open();
    await takeStarts(pacer, clock, 1);
    await pacer.slowDown(MAX_RETRY_AFTER_MS);
    clock.advance(-3_600_000);
    const began = clock.now();
    await pacer.acquire();
    expect(clock.now() - began).toBeCloseTo(INTERVAL_MS * 1.02, 0);
  });

  test('that cannot be written is a fault that says what to do, and nothing starts', async () => {
    await writeFile(join(folder.path, 'file'), '');
    const stateDir = join(folder.path, 'file');
    const pacer = await openPacer('historical', { clock, stateDir, apiKey: KEY });
    await expect(pacer.acquire()).rejects.toMatchObject({
      code: 'PACE_UNWRITABLE',
      message: expect.stringContaining(stateDir),
      hint: expect.stringContaining('FLOWDROP_STATE_DIR'),
    });
  });
});
