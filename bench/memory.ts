/**
 * Peak memory of the worker's way, page JSON to verified Parquet, at 1 and at 10 times the rows: it must be flat. Each
 * measurement is a process of its own; the larger one takes the same pages several times with other ids, because fetching
 * 10 million rows takes longer than all benches together.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatBytes, formatCount } from '../src/core/units.ts';
import { formatRatio, median, type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { fetchPages } from './support/pages.ts';
import { withFolder } from './support/product.ts';
import { runWay, type WayResult } from './support/way.ts';

/** Times the rows of the smaller measurement, which the larger one has. */
const COPIES = [1, 10] as const;
const MEBIBYTE = 1024 ** 2;
const REACH_RATIO = 1.25;
const REACH_BYTES = 1024 ** 3;

export const benchMemory: RunBench = async ({ rows, repeat, note }) =>
  await withFolder(async (folder) => {
    const pages = join(folder, 'pages');
    await fetchPages(pages, rows);
    const results = await measureMemory(pages, folder, repeat);
    const [few, many] = COPIES.map((copies) => peakOf(results, copies)) as [number, number]; // Two measurements.
    const sizes = COPIES.map((copies) => formatCount(rows * copies)).reverse();
    note(atMost(`peak memory, ${sizes.join(' rows / ')} rows`, REACH_RATIO, many / few, formatRatio));
    note(atMost(`peak memory, ${sizes[0]} rows`, REACH_BYTES, Math.max(few, many), formatMebibytes));
    return describeMemory(rows, results);
  });

/** Results by copies. */
async function measureMemory(
  pages: string,
  folder: string,
  repeat: number,
): Promise<ReadonlyMap<number, readonly WayResult[]>> {
  const results = new Map<number, WayResult[]>(COPIES.map((copies) => [copies, []]));
  for (let round = 1; round <= repeat; round += 1) {
    for (const copies of COPIES) {
      say(`memory: ${copies} x the pages, ${round} of ${repeat}`);
      const out = join(folder, 'memory.parquet');
      const result = await runWay('flowdrop', { pages, out, copies });
      await rm(out, { force: true });
      results.get(copies)?.push(result);
      say(`  ${Math.round(result.peakBytes / MEBIBYTE)} MiB`);
    }
  }
  return results;
}

function peakOf(results: ReadonlyMap<number, readonly WayResult[]>, copies: number): number {
  return median((results.get(copies) ?? []).map(({ peakBytes }) => peakBytes));
}

function formatMebibytes(sizeBytes: number): string {
  return `${formatCount(Math.round(sizeBytes / MEBIBYTE))} MiB`;
}

function describeMemory(rows: number, results: ReadonlyMap<number, readonly WayResult[]>): string {
  const peak = (copies: number) => peakOf(results, copies);
  const lines = COPIES.map((copies) => {
    const found = results.get(copies) ?? [];
    const wallMs = median(found.map((result) => result.wallMs));
    const cpuMs = median(found.map((result) => result.cpuMs));
    return [
      formatCount(rows * copies),
      String(found.length),
      formatMebibytes(peak(copies)),
      formatRatio(peak(copies) / peak(1)),
      formatCount(((rows * copies) / wallMs) * 1000),
      (cpuMs / 1000 / ((rows * copies) / 1e6)).toFixed(1),
      formatBytes(median(found.map((result) => result.sizeBytes))),
    ];
  });
  return [
    'Peak memory of the whole process (Node, engine and all), page JSON to verified Parquet (medians)',
    '',
    formatTable(['rows', 'runs', 'peak memory', 'ratio', 'rows/s', 'CPU s a million', 'file'].map(right), lines),
    '',
    'reach: ratio 1.25, peak memory 1,024 MiB. The larger one has the same rows several times, with other ids.',
  ].join('\n');
}
