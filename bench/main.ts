/**
 * `npm run bench [-- NAME...] [--rows N] [--sessions N] [--pages N] [--repeat N]`: runs the named benches, all of them without a name,
 * prints their tables as they come, and at the end which numbers were to be reached and whether they are. Each bench is
 * one file that knows nothing of the others; what they measure runs in processes of its own. One that fails does not take
 * the others' tables with it: the exit code is 1 then.
 */
import { parseArgs } from 'node:util';
import { parseCount } from '../test/support/program.ts';
import { type BenchOptions, DEFAULT_OPTIONS, type RunBench } from './support/bench.ts';
import { formatGoals, type Goal } from './support/goal.ts';
import { describeMachine } from './support/machine.ts';

const BENCHES: Readonly<Record<string, () => Promise<RunBench>>> = {
  archive: async () => (await import('./archive.ts')).benchArchive,
  groups: async () => (await import('./groups.ts')).benchGroups,
  close: async () => (await import('./close.ts')).benchClose,
  daemon: async () => (await import('./daemon.ts')).benchDaemon,
  memory: async () => (await import('./memory.ts')).benchMemory,
  moving: async () => (await import('./moving.ts')).benchMoving,
  pace: async () => (await import('./pace.ts')).benchPace,
  point: async () => (await import('./point.ts')).benchPoint,
  report: async () => (await import('./report.ts')).benchReport,
  requests: async () => (await import('./requests.ts')).benchRequests,
  scale: async () => (await import('./scale.ts')).benchScale,
  seal: async () => (await import('./seal.ts')).benchSeal,
  service: async () => (await import('./service.ts')).benchService,
  table: async () => (await import('./table.ts')).benchTable,
};

/** Rows of a session where `--rows` is not given: a real one has about 7 million, which takes long to make. */
const ROWS: Readonly<Record<string, number>> = {
  archive: 400_000,
  close: 7_000_000,
  point: 4_000_000,
  report: 7_000_000,
  service: 4_000_000,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string' },
    sessions: { type: 'string' },
    pages: { type: 'string' },
    repeat: { type: 'string' },
  },
});
const goals: Goal[] = [];
const given = Object.entries(values).map(([name, text]) => [name, parseCount(`--${name}`, text)]);
const options: BenchOptions = { ...DEFAULT_OPTIONS, note: (goal) => goals.push(goal) };

const work = (positionals.length > 0 ? positionals : Object.keys(BENCHES)).map((name) => {
  const load = BENCHES[name];
  if (load) return { name, load };
  throw new Error(`there is no bench "${name}"; there are ${Object.keys(BENCHES).join(', ')}`);
});
process.stdout.write(`${describeMachine()}\n`);
for (const { name, load } of work) {
  try {
    const bench = await load();
    const own = { ...options, rows: ROWS[name] ?? options.rows, ...Object.fromEntries(given) };
    process.stdout.write(`\n${await bench(own)}\n`);
  } catch (error) {
    // Some benches take most of an hour: what was measured before stays told.
    process.exitCode = 1;
    process.stdout.write(`\nthe bench "${name}" failed: ${error instanceof Error ? error.message : String(error)}\n`);
    goals.push({ what: `all of the bench "${name}"`, measured: 'failed', holds: false });
  }
}
if (goals.length > 0) process.stdout.write(`\n${formatGoals(goals)}\n`);
