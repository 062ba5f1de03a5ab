/**
 * Peak memory of an audit that finds three late rows in a sealed date: the restatement takes the rest of the rows from the
 * sealed drop, so it handles as many as an export does and may take no more than an export may. Each step is a process of
 * its own, as each run of the product is.
 */
import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { formatTable } from '../src/cli/terminal/text.ts';
import { formatCount } from '../src/core/units.ts';
import type { AuditInput, AuditResult } from './support/audit-child.ts';
import { type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { withFolder } from './support/product.ts';
import { writeSessionFile } from './support/session-file.ts';

const DATE = '2026-11-19';
const LATE_ROWS = 3;
const MEBIBYTE = 1024 ** 2;
/** What an export may take: `memory.ts`. */
const REACH_BYTES = 1024 ** 3;
const STEPS = ['seal', 'repair'] as const;

export const benchAudit: RunBench = async ({ rows, note }) =>
  await withFolder(async (folder) => {
    const path = join(folder, 'session.parquet');
    const session = await writeSessionFile(path, { date: DATE, rows, scratch: join(folder, 'generated') });
    await mkdir(join(folder, 'audit'));
    const lines: string[][] = [];
    for (const step of STEPS) {
      say(`audit: ${step}`);
      const input = { step, date: DATE, session: path, folder: join(folder, 'audit'), late: LATE_ROWS };
      const result = await measure(input);
      for (const [name, peakBytes] of Object.entries(result)) lines.push([step, name, formatMebibytes(peakBytes)]);
      if (step !== 'repair') continue;
      const what = `peak memory of a repair, ${LATE_ROWS} late of ${formatCount(session.rows)} rows`;
      note(atMost(what, REACH_BYTES, Math.max(...Object.values(result)), formatMebibytes));
    }
    return [
      `Most memory of an audit's repair: ${LATE_ROWS} late rows in a sealed date of ${formatCount(session.rows)}`,
      '',
      formatTable([{ title: 'process' }, { title: 'after' }, { title: 'peak so far', align: 'right' }], lines),
      '',
      'seal: the same date, staged from the same file, for comparison. The start includes the runtime that reads TypeScript.',
    ].join('\n');
  });

async function measure(input: AuditInput): Promise<AuditResult> {
  const entry = fileURLToPath(new URL('support/audit-child.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', entry, JSON.stringify(input)]);
  return JSON.parse(stdout) as AuditResult; // Printed by audit-child.ts.
}

function formatMebibytes(sizeBytes: number): string {
  return `${formatCount(Math.round(sizeBytes / MEBIBYTE))} MiB`;
}
