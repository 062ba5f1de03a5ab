/**
 * Runs the job's checks on the written file before it is published; `baseline.ts` has the one that needs other dates. `job/resolve-job.ts` defines the checks, and
 * `on_failure` decides what a failed one does. The file cannot show how often the source repeated a row: the caller
 * counts that.
 */
import { Fault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier, quoteString } from '../engine/literal.ts';
import { listPasses } from '../engine/passes.ts';
import type { FileCheck, Job } from '../job/job.ts';
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
  checks: readonly FileCheck[],
  date: string,
  repeats: number,
): Promise<readonly CheckResult[]> {
  if (checks.length === 0) return [];
  const measures = checks.map((check, index) => `toFloat64(${measure(check, date)}) AS found_${index}`);
  const [row] = await engine.rows<Record<string, number | null>>(`SELECT ${measures.join(', ')} FROM ${file}`);
  const repeated = checks.some(({ check }) => check === 'unique-id')
    ? (await countRepeated(engine, file)) + repeats
    : 0;
  return checks.map((check, index) => {
    const found = check.check === 'unique-id' ? repeated : Number(row?.[`found_${index}`] ?? 0);
    const allowed = check.check === 'min-rows' ? check.rows : check.check === 'max-nulls' ? check.share : 0;
    return {
      ...{ check: check.check, on_failure: check.onFailure, found },
      ...(check.check === 'max-nulls' ? { column: check.column } : {}),
      ...(check.check === 'premium' ? { tolerance: check.tolerance } : {}),
      allowed,
      passed: check.check === 'min-rows' ? found >= allowed : found <= allowed,
    };
  });
}

/** Rows of the file beyond one per id. */
async function countRepeated(engine: Pick<Engine, 'rows'>, file: string): Promise<number> {
  let repeated = 0;
  for (const pass of await listPasses(engine, file, 'id')) {
    const [found] = await engine.rows<{ n: number }>(`SELECT count() - uniqExact(id) AS n FROM ${file} WHERE ${pass}`);
    repeated += Number(found?.n ?? 0);
  }
  return repeated;
}

/** @throws Fault `CHECK_FAILED` if a check with `on_failure: fail` fails */
export function assertChecks(job: Pick<Job, 'file'>, date: string, results: readonly CheckResult[]): void {
  const failed = results.filter(({ passed, on_failure }) => !passed && on_failure === 'fail');
  if (failed.length === 0) return;
  throw new Fault('CHECK_FAILED', `${date}: ${failed.map(describeCheck).join('; ')}`, {
    hint: `Nothing was published; staged pages are kept. If the data is right, change \`checks\` in ${job.file} (\`on_failure: warn\` seals the date and reports the result) and run again.`,
  });
}

/** Rebuilds the check of a result, to run it again; `undefined` if the file alone does not answer it. */
export function checkOf(result: CheckResult): FileCheck | undefined {
  const onFailure = result.on_failure;
  switch (result.check) {
    case 'min-rows':
      return { check: 'min-rows', rows: result.allowed, onFailure };
    case 'max-nulls':
      return { check: 'max-nulls', column: result.column ?? '', share: result.allowed, onFailure };
    case 'premium':
      return { check: 'premium', tolerance: result.tolerance ?? 0, onFailure };
    case 'unique-id':
    case 'dates':
      return { check: result.check, onFailure };
    default:
      return undefined;
  }
}

function measure(check: FileCheck, date: string): string {
  switch (check.check) {
    case 'min-rows':
      return 'count()';
    case 'max-nulls': {
      const name = quoteIdentifier(check.column);
      return `countIf(ifNull(toString(${name}), '') = '') / greatest(count(), 1)`;
    }
    case 'premium': {
      const off = `abs(premium - price * size * 100) > ${check.tolerance} * greatest(1, abs(premium))`;
      return `countIf(ifNull(${off}, true))`;
    }
    case 'unique-id':
      return '0'; // Counted separately, because it must remember every id of the day.
    case 'dates':
      return `countIf(ifNull(toString(date), '') != ${quoteString(date)})`;
    default:
      return check satisfies never;
  }
}
