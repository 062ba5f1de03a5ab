/**
 * Entry of a measured process: runs one way once and prints what it took as JSON. CPU counts from the start of the way,
 * the peak of memory is the whole process's, runtime included.
 */
import { stat } from 'node:fs/promises';
import type { RunWay, WayInput, WayName } from './way.ts';

const LOAD: Readonly<Record<WayName, () => Promise<RunWay>>> = {
  flowdrop: async () => (await import('../way/flowdrop.ts')).runFlowdrop,
  'flowdrop-serial': async () => (await import('../way/flowdrop.ts')).runFlowdropSerially,
  duckdb: async () => (await import('../way/duckdb.ts')).runDuckDb,
  'hyparquet-writer': async () => (await import('../way/hyparquet-writer.ts')).runHyparquetWriter,
  'parquetjs-lite': async () => (await import('../way/parquetjs-lite.ts')).runParquetJs,
};

const [name, text] = process.argv.slice(2) as [WayName, string]; // Given by `runWay`.
const input = JSON.parse(text) as WayInput;
const run = await LOAD[name]();
const before = process.resourceUsage();
const started = performance.now();
const steps = await run(input);
const wallMs = performance.now() - started;
const after = process.resourceUsage();
const cpuUs = after.userCPUTime + after.systemCPUTime - before.userCPUTime - before.systemCPUTime;
const { size } = await stat(input.out);
// maxRSS is in kilobytes of 1,024 on every platform.
const result = { wallMs, cpuMs: cpuUs / 1000, peakBytes: after.maxRSS * 1024, sizeBytes: size, steps };
process.stdout.write(JSON.stringify(result), () => process.exit(0));
