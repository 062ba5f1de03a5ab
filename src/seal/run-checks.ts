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

/** A check that the date's file answers alone, as results and manifests describe it. */
type Question = Pick<CheckResult, 'check' | 'on_failure' | 'allowed' | 'column' | 'tolerance'>;

/** The question that a check of the job asks. */
export function questionOf(check: JobCheck): Question {
  return {
    check: check.check,
    on_failure: check.onFailure,
    ...(check.check === 'max-nulls' ? { column: check.column } : {}),
    ...(check.check === 'premium' ? { tolerance: check.tolerance } : {}),
    allowed: check.check === 'min-rows' ? check.rows : check.check === 'max-nulls' ? check.share : 0,
  };
}

/**
 * @param file as SQL reads it
 * @param questions those that the file alone does not answer are left out
 * @param date partition date of the file
 * @param repeats rows that are not in the file because it has the same version of their id
 * @throws EngineFault
 */
export async function runChecks(
  engine: Pick<Engine, 'rows'>,
  file: string,
  questions: readonly Question[],
  date: string,
  repeats: number,
): Promise<readonly CheckResult[]> {
  const asked = questions.flatMap((question) => {
    const sql = measure(question, date);
    return sql === undefined ? [] : [{ question, sql }];
  });
  if (asked.length === 0) return [];
  const measures = asked.map(({ sql }, index) => `toFloat64(${sql}) AS found_${index}`);
  const [row] = await engine.rows<Record<string, number | null>>(`SELECT ${measures.join(', ')} FROM ${file}`);
  // Rows of the file beyond one per id.
  const repeated = asked.some(({ question }) => question.check === 'unique-id')
    ? (await sumPasses(engine, file, (pass) => `SELECT count() - uniqExact(id) FROM ${file} WHERE ${pass}`)) + repeats
    : 0;
  return asked.map(({ question: { check, on_failure, column, tolerance, allowed } }, index) => {
    const found = check === 'unique-id' ? repeated : Number(row?.[`found_${index}`] ?? 0);
    const passed = check === 'min-rows' ? found >= allowed : found <= allowed;
    return { check, on_failure, found, column, tolerance, allowed, passed };
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

/** `undefined` if the file alone does not answer it. */
function measure({ check, column = '', tolerance = 0 }: Question, date: string): string | undefined {
  switch (check) {
    case 'min-rows':
      return 'count()';
    case 'max-nulls':
      return `countIf(ifNull(toString(${quoteIdentifier(column)}), '') = '') / greatest(count(), 1)`;
    case 'premium':
      return `countIf(ifNull(abs(premium - price * size * 100) > ${tolerance} * greatest(1, abs(premium)), true))`;
    case 'unique-id':
      return '0'; // Counted separately, because it must remember every id of the day.
    case 'dates':
      return `countIf(ifNull(toString(date), '') != ${quoteString(date)})`;
    default:
      return undefined;
  }
}
