/**
 * Runs the check `baseline` of a date that is about to be sealed: fetches the summaries of the sessions before it, some
 * kilobytes each, and lets `seal/baseline.ts` judge. A session that is degraded, a half day, or damaged is not compared
 * with.
 */

import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isHalfDay, previousSessions } from '../calendar/session.ts';
import type { BaselineCheck, Job } from '../job/job.ts';
import { fileKey } from '../ledger/layout.ts';
import type { CheckResult, Manifest } from '../ledger/manifest.ts';
import type { ExportRun } from '../run/run.ts';
import { fetchAndHash } from '../seal/audit.ts';
import { type DayShape, judgeBaseline } from '../seal/baseline.ts';
import { readShape } from '../seal/summary.ts';

type PastRun = Pick<ExportRun, 'engine' | 'ledger' | 'log' | 'calendar' | 'signal'>;

/** Sessions before the date among which those to compare with are looked for, for each one wanted. */
const REACH = 3;

/**
 * @param day what the manifest of the date will say
 * @param summaryPath its summary on this disk
 * @returns one result for each such check of the job
 */
export async function compareWithBaseline(
  deps: PastRun,
  job: Job,
  day: Pick<Manifest, 'date' | 'rows' | 'statistics'>,
  summaryPath: string,
): Promise<readonly CheckResult[]> {
  const checks = job.checks.filter((check): check is BaselineCheck => check.check === 'baseline');
  if (checks.length === 0) return [];
  const most = Math.max(...checks.map(({ sessions }) => sessions));
  const past = await readPast(deps, day.date, most, dirname(summaryPath));
  const today = await readShape(deps.engine, day, summaryPath);
  return checks.map((check) => judgeBaseline(check, today, past.slice(0, check.sessions), deps.calendar));
}

/** Newest first. */
async function readPast(deps: PastRun, date: string, count: number, folder: string): Promise<readonly DayShape[]> {
  const { engine, ledger, calendar } = deps;
  const [earliest = date] = previousSessions(date, count * REACH + 1, calendar);
  const sealed = await ledger.dates();
  const before = sealed.filter((other) => other < date && other >= earliest && !isHalfDay(other, calendar)).reverse();
  const past: DayShape[] = [];
  const path = join(folder, 'baseline.parquet');
  try {
    for (const other of before) {
      if (past.length === count) break;
      const manifest = await ledger.validManifest(other);
      const summary = manifest?.files.find(({ filename }) => filename === manifest.summary);
      if (manifest?.condition !== 'available' || summary === undefined) continue;
      const key = fileKey(manifest.dataset, other, summary.filename);
      const spoilt = await fetchAndHash(deps, key, summary, path);
      const reason = spoilt.join('; ');
      if (reason !== '') {
        deps.log.warn(
          { event: 'baseline-left-out', date: other, reason },
          `${date} is not compared with ${other}: ${reason}`,
        );
        continue;
      }
      past.push(await readShape(engine, manifest, path));
    }
  } finally {
    await rm(path, { force: true });
  }
  return past;
}
