/** Which waiting job gets a free place, over random queues: what expires goes first, and nobody starves. */
import { describe, expect, it } from 'vitest';
import { chooseNext, MAX_WAIT_MS } from '../../src/daemon/run-places.ts';
import { createRandom } from '../support/random.ts';

const MINUTE = 60_000;
const START = Date.parse('2026-11-20T22:30:00Z');
const NEVER = Number.POSITIVE_INFINITY;
const wait = (job: string, sinceMs: number, tickMs = sinceMs, expiresAtMs = NEVER) => ({
  ...{ job, sinceMs, tickMs, expiresAtMs },
});

describe('the next run', () => {
  it('is of the job whose date expires soonest, then of the one that was due first', () => {
    const [a, b, c] = [wait('a', START, 3, START + 1), wait('b', START, 2, START), wait('c', START, 1)];
    expect(chooseNext([a, b, c], START)?.job).toBe('b');
    expect(chooseNext([wait('a', START, 3), wait('b', START, 2), c], START)?.job).toBe('c');
    expect(chooseNext([], START)).toBeUndefined();
  });

  it('of those that came together is by expiry however long they wait', () => {
    const waiting = [wait('a', START, 1), wait('b', START + 40, 2, START + MINUTE)];
    expect(chooseNext(waiting, START + 5 * MAX_WAIT_MS)?.job).toBe('b');
  });

  it('is not decided for ever by a clock that was a year ahead', () => {
    const waiting = [wait('a', START + 365 * 24 * 60 * MINUTE), wait('b', START, START, START)];
    expect(chooseNext(waiting, START)?.job).toBe('a');
  });

  it.each(Array.from({ length: 50 }, (_, seed) => seed))(
    'of a random queue passes nobody who has waited for an hour, and before that only who expires later (seed %i)',
    (seed) => {
      const random = createRandom(seed);
      let waiting: ReturnType<typeof wait>[] = [];
      let nowMs = START;
      let longestMs = 0;
      for (let step = 0; step < 400; step += 1) {
        nowMs += random() * 20 * MINUTE;
        // One that never expires is among many whose dates do.
        const job = `job-${step}`;
        const expiresAtMs = random() < 0.8 ? nowMs + random() * 86_400_000 : NEVER;
        if (waiting.length < 12) waiting.push(wait(job, nowMs, nowMs - random() * MINUTE, expiresAtMs));
        if (random() < 0.1) continue;
        const chosen = chooseNext(waiting, nowMs);
        if (!chosen) continue;
        waiting = waiting.filter((one) => one !== chosen);
        longestMs = Math.max(longestMs, nowMs - chosen.sinceMs);
        const passed = waiting.filter(({ sinceMs }) => nowMs - sinceMs >= MAX_WAIT_MS);
        expect(passed.filter(({ sinceMs }) => sinceMs <= chosen.sinceMs - MINUTE)).toEqual([]);
        if (nowMs - chosen.sinceMs >= MAX_WAIT_MS) continue;
        expect(waiting.filter((other) => other.expiresAtMs < chosen.expiresAtMs)).toEqual([]);
      }
      // An hour, and then those of the eleven others that came before, ten minutes each on the average.
      expect(longestMs).toBeLessThan(MAX_WAIT_MS + 12 * 20 * MINUTE);
      expect(longestMs).toBeGreaterThan(0);
    },
  );
});
