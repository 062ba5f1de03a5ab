/**
 * One request budget for all processes of a machine: real processes, killed and stopped too. The times are those at which
 * each process decided to start, so that a busy machine cannot make a right pace look wrong.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { makeFolder } from '../support/flowdrop.ts';
import { createPaceProcesses, type PaceProcess, startsOf } from '../support/pace-process.ts';
import { gapsOf } from '../support/pacer.ts';
import { createRandom } from '../support/random.ts';

const RATE = 50;
const INTERVAL_MS = (1000 / RATE) * 1.01;

const pool = createPaceProcesses();
let folder: Awaited<ReturnType<typeof makeFolder>>;
beforeEach(async () => {
  folder = await makeFolder();
});
afterEach(async () => {
  await pool.release();
  await folder.remove();
});
afterAll(() => pool.stop());

async function start(count: number, requestsPerSecond = RATE): Promise<readonly PaceProcess[]> {
  const options = { budget: 'historical', stateDir: folder.path, apiKey: 'key', requestsPerSecond } as const;
  return await Promise.all(Array.from({ length: count }, () => pool.open(options)));
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

describe('processes that share a budget', () => {
  test('never start closer than the interval, and keep it full', async () => {
    const processes = await start(4);
    await Promise.all(processes.map((process) => process.follow({ take: 25 })));
    const starts = startsOf(processes);
    expect(starts).toHaveLength(100);
    expect(Math.min(...gapsOf(starts))).toBeGreaterThanOrEqual(INTERVAL_MS);
    expect(median(gapsOf(starts))).toBeLessThan(INTERVAL_MS * 1.5);
  });
});

describe('a process that goes away', () => {
  test('by SIGKILL while it waits holds nobody up', async () => {
    const processes = await start(2, 2);
    const [victim, other] = processes;
    await other?.follow({ take: 1 });
    void victim?.follow({ take: 10 });
    await vi.waitUntil(async () => (await readStates()).some(({ reservations }) => reservations.length === 1), {
      interval: 5,
    });
    await victim?.kill();
    await other?.follow({ take: 1 });
    const [first = 0, second = 0] = other?.starts ?? [];
    // The slot that it had reserved is lost, and no more.
    expect(second - first).toBeGreaterThanOrEqual(505);
    expect(second - first).toBeLessThan(2000);
  });

  test('by SIGSTOP with the next turn is passed over, and takes its turns again later', async () => {
    const processes = await start(2, 10);
    const [sleeper, other] = processes;
    const sleeping = sleeper?.follow({ take: 8 });
    await vi.waitUntil(() => (sleeper?.starts.length ?? 0) >= 2, { interval: 5 });
    sleeper?.child.kill('SIGSTOP');
    await other?.follow({ take: 4 });
    expect(other?.starts).toHaveLength(4);
    // It costs one slot of a tenth of a second.
    expect((other?.starts[3] ?? 0) - (other?.starts[0] ?? 0)).toBeLessThan(5_000);
    expect((other?.starts[0] ?? 0) - (sleeper?.starts.at(-1) ?? 0)).toBeLessThan(5_000);
    sleeper?.child.kill('SIGCONT');
    await sleeping;
    expect(sleeper?.starts).toHaveLength(8);
    expect(Math.min(...gapsOf(startsOf(processes)))).toBeGreaterThanOrEqual(101);
  });

  test('by SIGKILL at any moment, of writing too, leaves a budget that the others keep', async () => {
    const seed = 11;
    const random = createRandom(seed);
    const rate = 400;
    const processes = await start(4, rate);
    const [survivor, ...victims] = processes;
    for (const victim of victims) void victim.follow({ take: 10_000 });
    const surviving = survivor?.follow({ take: 150 });
    for (const victim of victims) {
      await vi.waitUntil(() => victim.starts.length > 5, { interval: 1 });
      const enough = victim.starts.length + Math.floor(random() * 20);
      await vi.waitUntil(() => victim.starts.length > enough, { interval: 1 });
      await victim.kill();
    }
    await surviving;
    expect(survivor?.starts).toHaveLength(150);
    expect(Math.min(...gapsOf(startsOf(processes))), `seed ${seed}`).toBeGreaterThanOrEqual((1000 / rate) * 1.01);
  });
});

type State = { readonly reservations: readonly unknown[] };

async function readStates(): Promise<readonly State[]> {
  const pace = join(folder.path, 'pace');
  const [budget = ''] = await readdir(pace);
  const names = (await readdir(join(pace, budget))).filter((name) => name.endsWith('.json'));
  // A state may be replaced and removed between listing and reading.
  const texts = await Promise.all(
    names.map((name) => readFile(join(pace, budget, name), 'utf8').catch(() => undefined)),
  );
  return texts.flatMap((text) => (text === undefined ? [] : [JSON.parse(text) as State]));
}
