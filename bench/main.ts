/**
 * `npm run bench [-- NAME...] [--rows N] [--repeat N]`: runs the named benches, all of them without a name, and prints
 * their tables. Each bench is one file that knows nothing of the others; what they measure runs in processes of its own.
 */
import { parseArgs } from 'node:util';
import { DEFAULT_OPTIONS, type RunBench } from './support/bench.ts';
import { describeMachine } from './support/machine.ts';

const BENCHES: Readonly<Record<string, () => Promise<RunBench>>> = {
  export: async () => (await import('./export.ts')).benchExport,
  memory: async () => (await import('./memory.ts')).benchMemory,
  pace: async () => (await import('./pace.ts')).benchPace,
  point: async () => (await import('./point.ts')).benchPoint,
  report: async () => (await import('./report.ts')).benchReport,
  requests: async () => (await import('./requests.ts')).benchRequests,
  seal: async () => (await import('./seal.ts')).benchSeal,
  service: async () => (await import('./service.ts')).benchService,
  settings: async () => (await import('./settings.ts')).benchSettings,
};

/** Rows of the session where `--rows` is not given: a real one has about 7 million, which takes long to make. */
const ROWS: Readonly<Record<string, number>> = { point: 4_000_000, report: 7_000_000, service: 4_000_000 };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string' },
    repeat: { type: 'string', default: String(DEFAULT_OPTIONS.repeat) },
  },
});
// `export` is made of others.
const names = positionals.length > 0 ? positionals : Object.keys(BENCHES).filter((name) => name !== 'export');
const repeat = parseCount('--repeat', values.repeat);

process.stdout.write(`${describeMachine()}\n`);
for (const name of names) {
  const load = BENCHES[name];
  if (!load) throw new Error(`there is no bench "${name}"; there are ${Object.keys(BENCHES).join(', ')}`);
  const bench = await load();
  const rows = values.rows === undefined ? (ROWS[name] ?? DEFAULT_OPTIONS.rows) : parseCount('--rows', values.rows);
  process.stdout.write(`\n${await bench({ rows, repeat })}\n`);
}

function parseCount(flag: string, text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new Error(`${flag} is ${JSON.stringify(text)}; allowed is a whole number above 0`);
}
