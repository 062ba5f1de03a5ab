/**
 * Entry of a measured process: one report from a sealed file, its numbers first and then the mail, and what both took as
 * JSON. Time and CPU count from the opening of the engine; the peak of memory is the whole process's, runtime included.
 */
import { fileURLToPath } from 'node:url';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { buildFlowReport } from '../../src/report/flow-report.ts';
import { renderReport } from '../../src/report/render.ts';

export interface ReportInput {
  readonly date: string;
  readonly path: string;
  readonly rows: number;
  readonly before: readonly { readonly date: string; readonly path: string }[];
  readonly symbols: readonly string[];
}

interface Taken {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly peakBytes: number;
}

export interface ReportResult {
  readonly numbers: Taken;
  readonly mail: Taken;
  readonly htmlBytes: number;
  readonly imageBytes: number;
}

const TEMPLATES = fileURLToPath(new URL('../../templates', import.meta.url));

const { date, path, rows, before, symbols } = JSON.parse(process.argv[2] ?? '') as ReportInput; // Given by `report.ts`.
const started = performance.now();
const cpu = process.cpuUsage();
const engine = await openEmbeddedEngine();
const drop = {
  ...{ dataset: 'trades', date, revision: 1, condition: 'available' as const, rows, path },
  ...{ min_time: `${date} 09:30:00`, max_time: `${date} 16:15:00`, sealed_at: `${date}T22:30:00Z` },
  ...{ sha256: '', location: 's3://bench/trades.parquet' },
};
const options = { symbols, now: new Date(0), job: 'bench', before, marketStructure: null };
const report = await buildFlowReport(engine, drop, options);
const numbers = readTaken();
const mail = await renderReport('flow', [{ title: 'trades', report }], {
  ...{ templatesDir: TEMPLATES, timezone: 'America/New_York', link: null, late: false, correction: null },
});
const result: ReportResult = {
  numbers,
  mail: readTaken(),
  htmlBytes: Buffer.byteLength(mail.html),
  imageBytes: mail.images.reduce((sum, { png }) => sum + png.byteLength, 0),
};
await engine.close();
process.stdout.write(JSON.stringify(result), () => process.exit(0));

function readTaken(): Taken {
  const { user, system } = process.cpuUsage(cpu);
  const { maxRSS } = process.resourceUsage();
  // maxRSS is in kilobytes of 1,024 on every platform.
  return { wallMs: performance.now() - started, cpuMs: (user + system) / 1000, peakBytes: maxRSS * 1024 };
}
