/**
 * Seconds and memory from a sealed day to the report: to its finished numbers, and to the finished mail with its charts.
 * The day is generated, with some thousands of cancelled and late trades in it, and has five sessions before it. Each
 * round is a process of its own, as each run of the product is.
 */
import { join } from 'node:path';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatBytes, formatCount } from '../src/core/units.ts';
import { openEmbeddedEngine } from '../src/engine/embedded.ts';
import { writeSummary } from '../src/seal/summary.ts';
import { median, type RunBench, runChild, say } from './support/bench.ts';
import { withFolder } from './support/product.ts';
import type { ReportInput, ReportResult } from './support/report-child.ts';
import { type SessionFile, writeSessionFile } from './support/session-file.ts';

const DATE = '2026-11-19';
const BEFORE = ['2026-11-18', '2026-11-17', '2026-11-16', '2026-11-13', '2026-11-12'];
/** Symbols that somebody watches: each costs an exposure in full. */
const SYMBOLS = ['SPY', 'QQQ', 'NVDA', 'SPX', 'TSLA'];
/** Seconds from the sealed day to the numbers, at a full night's rows. */
const REACH_S = 5;

export const benchReport: RunBench = async ({ rows, repeat }) =>
  await withFolder(async (folder) => {
    const path = join(folder, 'trades.parquet');
    const summary = join(folder, 'summary.parquet');
    const session = await writeSessionFile(path, { date: DATE, rows, scratch: join(folder, 'engine') });
    await summarise(path, summary);
    // The sessions before have the same numbers: what their files hold makes no difference to the time.
    const before = BEFORE.map((date) => ({ date, path: summary }));
    const results: ReportResult[] = [];
    for (let round = 1; round <= repeat; round += 1) {
      say(`report: ${round} of ${repeat}`);
      const result = await measure({ date: DATE, path, rows: session.rows, before, symbols: SYMBOLS });
      results.push(result);
      say(`  ${JSON.stringify(result)}`);
    }
    return describe(session, results);
  });

async function summarise(path: string, summary: string): Promise<void> {
  const engine = await openEmbeddedEngine();
  try {
    await writeSummary(engine, { path, date: DATE }, summary);
  } finally {
    await engine.close();
  }
}

async function measure(input: ReportInput): Promise<ReportResult> {
  return JSON.parse(await runChild('report-child.ts', [JSON.stringify(input)])) as ReportResult; // What it prints.
}

function describe(session: SessionFile, results: readonly ReportResult[]): string {
  const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
  const lines = (['numbers', 'mail'] as const).map((step) => [
    step === 'numbers' ? 'to the numbers' : 'to the mail',
    String(results.length),
    seconds(median(results.map((result) => result[step].wallMs))),
    seconds(median(results.map((result) => result[step].cpuMs))),
    formatBytes(median(results.map((result) => result[step].peakBytes))),
  ]);
  return [
    `From a sealed day to the report: ${formatCount(session.rows)} rows, ${formatBytes(session.sizeBytes)} of Parquet (medians; each from the opening of the engine on)`,
    '',
    formatTable(['step', ...['runs', 'wall', 'CPU', 'peak memory'].map(right)], lines),
    '',
    `reach: the numbers in ${REACH_S} s at 7 million rows. HTML of ${formatBytes(results[0]?.htmlBytes ?? 0)}, pictures of ${formatBytes(results[0]?.imageBytes ?? 0)}.`,
  ].join('\n');
}
