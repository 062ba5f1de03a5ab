/** What children said of the datasets, and how old it may be. When they are asked is in `loop-faults.test.ts`. */
import { expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createStatuses } from '../../src/daemon/statuses.ts';
import { createSilentLog } from '../support/log.ts';
import { makeStatus } from './web/views.ts';

it('a reading that began before a run had ended is followed by one that knows of it', async () => {
  let rows = 0;
  const waiting: (() => void)[] = [];
  const statuses = createStatuses(
    async (job) => {
      const known = rows;
      await new Promise<void>((resolve) => void waiting.push(resolve));
      return makeStatus(job, { dataset: `rows ${known}` });
    },
    { clock: systemClock, log: createSilentLog() },
  );
  const before = statuses.refresh('nightly');
  rows = 1;
  const after = statuses.refresh('nightly');
  // Whoever asks meanwhile shares it.
  expect(statuses.refresh('nightly')).toBe(after);
  waiting.shift()?.();
  await before;
  await new Promise((resolve) => setImmediate(resolve));
  expect(waiting).toHaveLength(1);
  waiting.shift()?.();
  await after;
  expect(statuses.of('nightly').status?.document.dataset).toBe('rows 1');
});
