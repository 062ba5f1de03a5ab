/** The server's clock from `Date` headers: which answers count, and what it runs on by. */
import { describe, expect, it } from 'vitest';
import { createServerClock, readTime } from '../../src/source/server-clock.ts';

const NOW = Date.parse('2026-11-20T23:00:00Z');
const HOUR = 3_600_000;
const httpDate = (ms: number) => new Date(ms).toUTCString();

/** A machine whose clock can be set, beside the one that nobody sets. */
function createMachine() {
  let elapsed = 5_000;
  let offset = NOW - elapsed;
  const clock = { now: () => elapsed + offset, elapsed: () => elapsed, sleep: async () => {} };
  return {
    clock,
    pass: (ms: number) => {
      elapsed += ms;
    },
    set: (ms: number) => {
      offset += ms;
    },
  };
}

describe('the server clock', () => {
  it('is what an earlier run knew until an answer tells the time', () => {
    const { clock } = createMachine();
    const server = createServerClock(clock, 1_234);
    expect([server.now(), server.isTold()]).toEqual([NOW + 1_234, false]);
    for (const date of [undefined, 'garbage', '']) server.note(readTime(clock, date, undefined));
    expect(server.isTold()).toBe(false);
    server.note(readTime(clock, httpDate(NOW + HOUR), undefined));
    expect([server.now(), server.isTold()]).toEqual([NOW + HOUR + 500, true]);
  });

  it.each([0, 1, 2, 3])('is not moved by one odd answer after %i others', (before) => {
    const machine = createMachine();
    const server = createServerClock(machine.clock, 0);
    const answer = (ms: number) => server.note(readTime(machine.clock, httpDate(machine.clock.now() + ms), undefined));
    for (let k = 0; k < before; k += 1) answer(0);
    answer(-24 * HOUR);
    if (before > 0) expect(Math.abs(server.now() - machine.clock.now())).toBeLessThan(1_000);
    answer(0);
    expect(Math.abs(server.now() - machine.clock.now())).toBeLessThan(1_000);
  });

  it('follows a server that was set, after three answers', () => {
    const { clock } = createMachine();
    const server = createServerClock(clock, 0);
    for (let k = 0; k < 5; k += 1) server.note(readTime(clock, httpDate(NOW), undefined));
    for (let k = 0; k < 3; k += 1) server.note(readTime(clock, httpDate(NOW + 5 * HOUR), undefined));
    expect(server.now()).toBe(NOW + 5 * HOUR + 500);
  });

  it("does not follow this machine's clock when that is set", () => {
    const machine = createMachine();
    const server = createServerClock(machine.clock, 0);
    server.note(readTime(machine.clock, httpDate(NOW), undefined));
    machine.set(-400 * 24 * HOUR);
    machine.pass(60_000);
    expect(server.now()).toBe(NOW + 60_500);
  });

  it('begins anew after a machine that slept, whose other clock stood still', () => {
    const machine = createMachine();
    const server = createServerClock(machine.clock, 0);
    for (let k = 0; k < 5; k += 1) server.note(readTime(machine.clock, httpDate(NOW), undefined));
    machine.set(8 * HOUR);
    server.note(readTime(machine.clock, httpDate(NOW + 8 * HOUR), undefined));
    expect(server.now()).toBe(NOW + 8 * HOUR + 500);
  });

  it.each([
    ['3600', HOUR],
    ['nonsense', 0],
    [undefined, 0],
  ])('adds the age %s that a cache tells', (age, addedMs) => {
    const { clock } = createMachine();
    expect(readTime(clock, httpDate(NOW), age)?.serverMs).toBe(NOW + addedMs + 500);
  });
});
