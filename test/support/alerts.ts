/** Outcomes of runs, as `flowdrop run` notes them, for tests of what operators are told. */
import type { RunEnd, RunFacts } from '../../src/alert/cause-table.ts';
import { Fault } from '../../src/core/errors.ts';
import { parseJob } from '../../src/job/parse.ts';
import type { Delivery, RunResult } from '../../src/state/run-result.ts';

/** A Friday evening after the close; the lookback begins on 2026-11-05, whole from the 6th on. */
export const ALERT_NOW = Date.parse('2026-11-20T23:00:00Z');

/** A run of the job `nightly` in which nothing was wrong. */
export function createResult(changes: Partial<RunResult> = {}): RunResult {
  return {
    ...{ job: 'nightly', run_id: 'run-1', dataset: 'trades', store: 'drops' },
    ...{ started_at: '2026-11-20T22:30:00.000Z', finished_at: '2026-11-20T22:59:00.000Z' },
    server_time: new Date(ALERT_NOW).toISOString(),
    ...{ requests: 10, retries: 0, rate_limited: 0, splits: 0, bytes: 1000, row_limit: 10_000 },
    dates: [],
    conditions: { '2026-11-19': 'available', '2026-11-20': 'available' },
    ...{ damaged: {}, lost: [], gaps: [], new_gaps: [], accepted: [], held: [], open: {}, audits: {}, expires: {} },
    clocks: { server: null, own: new Date(ALERT_NOW).toISOString(), conflict: null },
    ...changes,
  };
}

/** What a test changes; `undefined` takes a part away. */
export type Changes<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

export function createOutcome(changes: Changes<RunEnd> = {}): RunEnd {
  return applyChanges({ command: 'run', withReports: true, result: createResult(), deliveries: [] }, changes);
}

export function createRunFacts(changes: Changes<RunFacts> = {}): RunFacts {
  const outcome = createOutcome(changes);
  const conditions = outcome.result?.conditions ?? {};
  const job = createAlertJob('reports: [{template: flow, to: [desk@example.com]}]');
  return applyChanges({ ...outcome, job, nowMs: ALERT_NOW, conditions, accepted: new Set<string>() }, changes);
}

function applyChanges<T extends object>(whole: T, changes: Changes<T>): T {
  const changed = Object.entries({ ...whole, ...changes }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(changed) as T; // Only optional parts can be taken away without the test's failing.
}

export function createDelivery(
  recipients: Readonly<Record<string, 'sent' | 'refused' | 'failed'>>,
  changes: Partial<Delivery> = {},
): Delivery {
  return {
    ...{ report: 'flow', date: '2026-11-20', revision: 1, subject: 'Options flow', alreadySent: 0, written: 0 },
    ...{ leftToOther: false, late: false, pending: false, skipped: null, error: null },
    recipients: Object.entries(recipients).map(([to, outcome]) => ({
      to,
      outcome,
      detail: `the server said ${outcome}`,
    })),
    ...changes,
  };
}

/** @param rest of its file */
export function createAlertJob(rest = '', source = '{api: historical}') {
  return parseJob('nightly.yaml', `name: nightly\nsource: ${source}\ndrop: {to: drops, dataset: trades}\n${rest}\n`);
}

/** What ended a run. */
export function createFailure(
  code: string,
  { message = `it was ${code}`, hint = 'Do something.', isUsage = false } = {},
) {
  return new Fault(code, message, { hint, kind: isUsage ? 'usage' : 'failed' });
}
