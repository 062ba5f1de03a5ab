/**
 * A process that uses a request budget, for the tests of the pacer: takes starts one after the other and says on stdout
 * when each was decided, by its clock. Commands come on stdin, one JSON value a line; it ends with its input.
 */
import { createInterface } from 'node:readline';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { isFault } from '../../src/core/errors.ts';
import type { BudgetName } from '../../src/source/pace/reservations.ts';
import { openPacer, type Pacer } from '../../src/source/pacer.ts';

export interface PaceWorkerOptions {
  readonly budget: BudgetName;
  readonly stateDir: string;
  readonly apiKey: string;
  readonly requestsPerSecond?: number;
  readonly redisUrl?: string;
}

/** `open`: the budget to use from now on. `take`: so many starts, one after the other. */
export type PaceCommand = { readonly open: PaceWorkerOptions } | { readonly take: number };

export type PaceEvent =
  | { readonly event: 'ready' }
  /** `at`: when the start was decided: the time that the clock was read last before it, in Redis the time after it. */
  | { readonly event: 'start'; readonly at: number }
  | { readonly event: 'done' }
  | { readonly event: 'fault'; readonly code: string; readonly message: string; readonly hint: string | undefined };

let readAt = 0;
const clock: Clock = {
  now() {
    readAt = systemClock.now();
    return readAt;
  },
  sleep: systemClock.sleep,
};
const say = (event: PaceEvent) => process.stdout.write(`${JSON.stringify(event)}\n`);

let pacer: Pacer | undefined;

async function follow(command: PaceCommand): Promise<void> {
  if ('open' in command) {
    await pacer?.close?.();
    const { budget, ...options } = command.open;
    pacer = await openPacer(budget, { clock, ...options });
  } else {
    for (let i = 0; i < command.take; i += 1) {
      readAt = 0;
      await pacer?.acquire();
      // Redis decides by its own clock.
      say({ event: 'start', at: readAt || systemClock.now() });
    }
  }
  say({ event: 'done' });
}

say({ event: 'ready' });
for await (const line of createInterface({ input: process.stdin })) {
  await follow(JSON.parse(line) as PaceCommand).catch((error: unknown) => {
    if (!isFault(error)) throw error;
    say({ event: 'fault', code: error.code, message: error.message, hint: error.hint });
  });
}
await pacer?.close?.();
