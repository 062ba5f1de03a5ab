/**
 * Runs the job's checks on the written file before it is published; `baseline.ts` has the one that needs other dates. `job/resolve-job.ts` defines the checks, and
 * `on_failure` decides what a failed one does. The file cannot show how often the source repeated a row: the caller
 * counts that.
 */
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { sumPasses } from '../engine/passes.ts';
import type { Job, JobCheck } from '../job/job.ts';
import { type CheckResult, describeCheck } from '../ledger/manifest.ts';

/**
 * @param file as SQL reads it
 * @param date partition date of the file
 * @param repeats rows that are not in the file because it has the same version of their id
 * @throws EngineFault
 */
export async function runChecks(
  engine: Pick<Engine, 'rows'>,
  file: string,
  checks: readonly JobCheck[],
  date: string,
  repeats: number,
): Promise<readonly CheckResult[]> {
  const asked = checks.flatMap((check) => {
    const question = measure(check, date);
    return question === undefined ? [] : [{ check, ...question }];
  });
  if (asked.length === 0) return [];
  const measures = asked.map(({ sql }, index) => `toFloat64(${sql}) AS found_${index}`);
  const [row] = await engine.rows<Record<string, number | null>>(`SELECT ${measures.join(', ')} FROM ${file}`);
  // Rows of the file beyond one per id.
  const repeated = asked.some(({ check: { check } }) => check === 'unique-id')
    ? (await sumPasses(engine, file, (pass) => `SELECT count() - uniqExact(id) FROM ${file} WHERE ${pass}`)) + repeats
    : 0;
  return asked.map(({ check: { check, onFailure: on_failure }, sql: _, ...rest }, index) => {
    const found = check === 'unique-id' ? repeated : Number(row?.[`found_${index}`] ?? 0);
    const passed = check === 'min-rows' ? found >= rest.allowed : found <= rest.allowed;
    return { check, on_failure, found, ...rest, passed };
  });
}

/** @throws Fault `CHECK_FAILED` if a check with `on_failure: fail` fails */
export function assertChecks(job: Pick<Job, 'file'>, date: string, results: readonly CheckResult[]): void {
  const failed = results.filter(({ passed, on_failure }) => !passed && on_failure === 'fail');
  if (failed.length === 0) return;
  throw new Fault('CHECK_FAILED', `${date}: ${failed.map(describeCheck).join('; ')}`, {
    hint: `Nothing was published; staged pages are kept. If the data is right, change \`checks\` in ${job.file} (\`on_failure: warn\` seals the date and reports the result) and run again.`,
  });
}

/** The number to measure and its bound; `undefined` if the file alone does not answer it. */
function measure(check: JobCheck, date: string) {
  switch (check.check) {
    case 'min-rows':
      return { sql: 'count()', allowed: check.rows };
    case 'max-nulls': {
      const { column, share } = check;
      const nulls = `countIf(ifNull(toString(${quoteIdentifier(column)}), '') = '')`;
      return { sql: `${nulls} / greatest(count(), 1)`, column, allowed: share };
    }
    case 'premium': {
      const { tolerance } = check;
      const isWrong = `ifNull(abs(premium - price * size * 100) > ${tolerance} * greatest(1, abs(premium)), true)`;
      return { sql: `countIf(${isWrong})`, tolerance, allowed: 0 };
    }
    case 'unique-id':
      // Counted separately, because it must remember every id of the day.
      return { sql: '0', allowed: 0 };
    case 'dates':
      return { sql: `countIf(ifNull(toString(date), '') != ${quoteString(date)})`, allowed: 0 };
    default:
      return undefined;
  }
}
