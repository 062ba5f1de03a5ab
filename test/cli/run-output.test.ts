/** The end of `run` and `backfill` as a person reads it. What a run does is tested in `test/run` and `test/flow`. */
import { expect, it } from 'vitest';
import type { Cli, CliContext } from '../../src/cli/context.ts';
import { printRun } from '../../src/cli/run-output.ts';
import type { DateResult } from '../../src/state/run-result.ts';
import { createResult } from '../support/alerts.ts';

function describe(...dates: readonly DateResult[]): string {
  let shown = '';
  const print: Cli['print'] = (_, text) => {
    shown = [text].flat().join('\n');
  };
  const result = createResult({ dates: [...dates] });
  const clock = { now: () => Date.parse(result.finished_at) };
  const openers = { runId: 'r1', clock, deliversMail: () => true } as CliContext['openers']; // Only these are used.
  printRun({ print, openers }, { result, deliveries: [], error: undefined, shortfall: undefined });
  return shown;
}

const CHANGES = { added: 3, removed: 1, altered: 2, columns_added: [], columns_removed: [] };
const DATE: DateResult = { date: '2026-11-19', status: 'sealed', rows: 5, requests: 1, revision: 1 };

it('a restatement says its revision and what changed', () => {
  expect(describe(DATE)).toMatch(/2026-11-19 +sealed +5/);
  expect(describe({ ...DATE, revision: 2, changes: CHANGES })).toContain(
    'restated (revision 2: 3 added, 1 removed, 2 altered)',
  );
  expect(describe({ ...DATE, revision: 3, changes: { ...CHANGES, columns_added: ['oi'] } })).toContain(
    'restated (revision 3: 3 added, 1 removed, 2 altered, column oi added)',
  );
  expect(describe({ ...DATE, revision: 2, changes: null })).toContain('restated (revision 2) ');
});

it('a date that the source has nothing of has no rows, and one that is the same is unchanged', () => {
  expect(describe({ ...DATE, status: 'missing', rows: 0 })).toMatch(/2026-11-19 +no rows/);
  expect(describe({ ...DATE, status: 'unchanged' })).toMatch(/2026-11-19 +unchanged/);
});

it('a failure names its date once, whether or not its message does', () => {
  const failed = (message: string) =>
    describe({ ...DATE, status: 'failed', error: { code: 'CHECK_FAILED', message, hint: 'Look.' } });
  const line = '\n2026-11-19: check min-rows: 5 rows\n  -> Look.\n';
  expect(failed('2026-11-19: check min-rows: 5 rows')).toContain(line);
  expect(failed('check min-rows: 5 rows')).toContain(line);
});
