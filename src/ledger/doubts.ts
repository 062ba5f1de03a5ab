/**
 * Failed checks in words: why a sealed date is in doubt although it has what the source has. Log, status, report and
 * alert say the same. Pure.
 */
import type { CheckResult, Manifest } from './manifest.ts';

/** Findings of a baseline that are said; the manifest has more. */
const MAX_SAID = 5;

/** Failed checks of a sealed date, one sentence each without a full stop; empty if all passed. */
export function listDoubts({ checks }: Pick<Manifest, 'checks'>): readonly string[] {
  return checks.flatMap((result) => {
    if (result.passed) return [];
    const { findings, found } = result;
    return findings === undefined ? [describeCheck(result)] : listFindings(findings, found);
  });
}

/** Nulls by column that should not be there, whatever their reason; `undefined` without any. */
export function sumNulls({ nulls = [] }: Pick<Manifest, 'nulls'>): Readonly<Record<string, number>> | undefined {
  const sums: Record<string, number> = {};
  for (const { column, rows } of nulls) sums[column] = (sums[column] ?? 0) + rows;
  return nulls.length === 0 ? undefined : sums;
}

/** `check dates: 3 rows have another date, allowed are 0`. */
export function describeCheck({ check, column, found, allowed, tolerance, findings }: CheckResult): string {
  switch (check) {
    case 'min-rows':
      return `check min-rows: ${found} rows, allowed are ${allowed} or more`;
    case 'max-nulls':
      return `check max-nulls: a share of ${found} of "${column ?? ''}" is null or empty, allowed is ${allowed}`;
    case 'premium':
      return `check premium: in ${found} rows the premium is not price x size x 100 within ${tolerance ?? 0}, allowed are ${allowed}`;
    case 'unique-id':
      return `check unique-id: ${found} rows repeat an id in the same version, allowed are ${allowed}`;
    case 'dates':
      return `check dates: ${found} rows have another date, allowed are ${allowed}`;
    default:
      if (findings !== undefined) return `check ${check}: ${listFindings(findings, found).join('; ')}`;
      return `check ${check}: found ${found}, allowed ${allowed}`;
  }
}

function listFindings(findings: CheckResult['findings'] = [], found: number): readonly string[] {
  const said = findings.slice(0, MAX_SAID).map(({ says }) => says);
  return found > said.length ? [...said, `${found - said.length} more in the manifest`] : said;
}
