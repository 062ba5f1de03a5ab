/**
 * `npm run bench -- export`: everything that an export is measured by, one table after another. Each is a bench of its
 * own; this file only says which belong together.
 */
import { benchMemory } from './memory.ts';
import { benchPoint } from './point.ts';
import { benchRequests } from './requests.ts';
import { benchSeal } from './seal.ts';
import type { RunBench } from './support/bench.ts';

/** A point query means something on a file of many row groups: about a session's rows. */
const POINT_ROWS = 4_000_000;

export const benchExport: RunBench = async (options) => {
  const tables = [
    await benchRequests(options),
    await benchSeal(options),
    await benchMemory(options),
    await benchPoint({ ...options, rows: Math.max(options.rows, POINT_ROWS) }),
  ];
  return tables.join('\n\n');
};
