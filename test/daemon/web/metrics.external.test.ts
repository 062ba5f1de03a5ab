/**
 * What Prometheus reads of the daemon, and what is shipped for it. The rules are tried by Prometheus's own `promtool`,
 * which `prometheus-start.sh` installs (as root on Debian).
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { NO_OVERRIDE } from '../../../src/calendar/session.ts';
import type { DaemonView } from '../../../src/daemon/daemon.ts';
import type { JobView } from '../../../src/daemon/shapes.ts';
import { createMetrics, measureSessionTimeMs } from '../../../src/daemon/web/metrics.ts';
import { isMissing } from '../../support/external.ts';
import { REPO } from '../../support/flowdrop.ts';
import { findObstacle } from '../../support/server-process.ts';
import {
  HOSTILE,
  makeBadDay,
  makeDates,
  makeGoodDay,
  makeHostileDay,
  makeJob,
  makeRun,
  makeStatus,
  makeView,
  NOW,
} from './views.ts';

const PROMTOOL = fileURLToPath(new URL('../../support/prometheus-start.sh', import.meta.url));
const RULES = join(REPO, 'deploy', 'prometheus');
const DASHBOARD = readFileSync(join(REPO, 'deploy', 'grafana', 'flowdrop.json'), 'utf8');
const HOUR_MS = 3_600_000;

const lacksPromtool = isMissing(
  'promtool',
  await findObstacle('prometheus-start.sh', '/usr/bin/promtool', 'prometheus'),
);

/** Value of a sample, by its name and labels as they are written. */
async function read(
  metrics: ReturnType<typeof createMetrics>,
  view: DaemonView,
  nowMs = NOW,
): Promise<(sample: string) => number | undefined> {
  const lines = (await metrics.text(view, nowMs)).split('\n');
  return (sample) => {
    const line = lines.find((each) => each.startsWith(`${sample} `));
    return line === undefined ? undefined : Number(line.slice(sample.length + 1));
  };
}

function promtool(args: readonly string[], input = '') {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { cwd: RULES, input, encoding: 'utf8' });
  return { status, said: stdout + stderr };
}

describe('the metrics of the daemon', () => {
  it('say how much room the disk of the state folder has, and nothing of a folder that is not there', async () => {
    const free = await read(createMetrics(NO_OVERRIDE, REPO), makeGoodDay());
    const { bavail, bsize } = await statfs(REPO);
    expect(Math.abs((free('flowdrop_state_free_bytes') ?? 0) / (bavail * bsize) - 1)).toBeLessThan(0.2);
    const none = await read(createMetrics(NO_OVERRIDE, '/nonexistent'), makeGoodDay());
    expect(none('flowdrop_state_free_bytes')).toBeNaN();
  });

  it('begin at 0 for every job, and count each run that has ended', async () => {
    const metrics = createMetrics(NO_OVERRIDE, REPO);
    const view = makeView([makeJob('nightly')]);
    const first = await read(metrics, view);
    expect(first('flowdrop_requests_total{job_name="nightly"}')).toBe(0);
    expect(first('flowdrop_runs_total{job_name="nightly",outcome="failed"}')).toBe(0);
    expect(first('flowdrop_run_duration_seconds_count{job_name="nightly"}')).toBe(0);
    metrics.count(makeRun('nightly', 10));
    const none = { dates: [], requests: 0, retries: 0, rate_limited: 0, splits: 0, bytes: 0 };
    metrics.count(makeRun('nightly', 2, { outcome: 'failed', ...none }));
    const later = await read(metrics, view);
    const totals = { requests: 480, rows: 8_412_907, rate_limited: 3, splits: 11, retries: 6 };
    for (const [what, total] of Object.entries(totals))
      expect(later(`flowdrop_${what}_total{job_name="nightly"}`)).toBe(total);
    for (const outcome of ['done', 'failed']) {
      expect(later(`flowdrop_runs_total{job_name="nightly",outcome="${outcome}"}`), outcome).toBe(1);
    }
    expect(later('flowdrop_run_duration_seconds_count{job_name="nightly"}')).toBe(2);
    expect(later('flowdrop_run_duration_seconds_bucket{le="3600",job_name="nightly"}')).toBe(2);
  });

  it('say when a run last ended, and recall the last success from runs and the status, whatever came later', async () => {
    const metrics = createMetrics(NO_OVERRIDE, REPO);
    const lastSuccess = async (changes: Partial<JobView>) =>
      (await read(metrics, makeView([makeJob('nightly', changes)])))(
        'flowdrop_last_success_timestamp_seconds{job_name="nightly"}',
      );
    const end = (hours: number) => (NOW - hours * HOUR_MS + 2_530_000) / 1000;
    const failed = makeRun('nightly', 2, { outcome: 'failed' });
    const runs = [failed, makeRun('nightly', 10)];
    const sample = await read(metrics, makeView([makeJob('nightly', { runs })]));
    expect(sample('flowdrop_last_run_timestamp_seconds{job_name="nightly"}')).toBe(end(2));
    expect(await lastSuccess({ runs })).toBe(end(10));
    for (const status of [null, makeStatus('nightly', { last_success: null })])
      expect(await lastSuccess({ runs: [], status })).toBeUndefined();
    // A failure since then takes nothing back; a run by hand that was done is told by the status.
    expect(await lastSuccess({ runs: [failed] })).toBe(Date.parse('2026-11-19T23:40:02Z') / 1000);
    const byHand = makeStatus('nightly', { last_success: '2026-11-23T17:00:00.000Z' });
    expect(await lastSuccess({ runs: [failed], status: byHand })).toBe(Date.parse('2026-11-23T17:00:00Z') / 1000);
  });

  it('keep no series of a job that is gone, and count it from 0 when it comes back', async () => {
    const metrics = createMetrics(NO_OVERRIDE, REPO);
    const [gone, stays] = [makeJob('gone'), makeJob('stays')];
    for (const { name } of [gone, stays]) metrics.count(makeRun(name, 1));
    const ours = async (...jobs: readonly ReturnType<typeof makeJob>[]) =>
      (await metrics.text(makeView(jobs), NOW)).split('\n').filter((line) => line.includes('job_name="gone"'));
    expect((await ours(gone, stays)).length).toBeGreaterThan(20);
    expect(await ours(stays)).toEqual([]);
    const name = (job: string) => `flowdrop_runs_total{job_name="${job}",outcome="done"}`;
    const back = await read(metrics, makeView([gone, stays]));
    expect([back(name('gone')), back(name('stays'))]).toEqual([0, 1]);
  });

  it('say how it is now: gaps, expiry, the run that goes on, what is broken', async () => {
    const sample = await read(createMetrics(NO_OVERRIDE, REPO), makeBadDay());
    expect(sample('flowdrop_gaps{job_name="nightly-trades"}')).toBe(4);
    expect(sample('flowdrop_next_expiry_seconds{job_name="nightly-trades"}')).toBe(34.5 * 3600);
    expect(sample('flowdrop_dates{job_name="nightly-trades",condition="expired"}')).toBe(1);
    expect(sample('flowdrop_run_active{job_name="nightly-trades"}')).toBe(1);
    expect(sample('flowdrop_run_pace_requests_per_second{job_name="nightly-trades"}')).toBeCloseTo(1150 / 1199);
    expect(sample('flowdrop_run_waiting{job_name="spx-chain"}')).toBe(1);
    expect(sample('flowdrop_job_file_fault{job_name="spx-chain"}')).toBe(1);
    expect(sample('flowdrop_status_fault{job_name="zero-dte"}')).toBe(1);
    expect(sample('flowdrop_events_owed{job_name="nightly-trades"}')).toBe(0);
    expect(sample('flowdrop_events_owed{job_name="zero-dte"}')).toBeUndefined();
    const owed_events = { count: 3, since: '2026-11-23T16:30:00.000Z', reason: null };
    const owing = makeView([makeJob('nightly', { status: makeStatus('nightly', { owed_events }) })]);
    expect((await read(createMetrics(NO_OVERRIDE, REPO), owing))('flowdrop_events_owed{job_name="nightly"}')).toBe(3);
    expect(sample('flowdrop_deadline_missed{job_name="nightly-trades"}')).toBe(0);
    const late = { date: '2026-11-20', deadline: '2026-11-20T22:30:00.000Z', lacks: 'it is not sealed' };
    const missed = makeView([makeJob('nightly', { status: makeStatus('nightly', { late }) })]);
    expect((await read(createMetrics(NO_OVERRIDE, REPO), missed))('flowdrop_deadline_missed{job_name="nightly"}')).toBe(
      1,
    );
    // Not known is not nothing.
    expect(sample('flowdrop_gaps{job_name="zero-dte"}')).toBeUndefined();
    expect(sample('flowdrop_next_expiry_seconds{job_name="spx-chain"}')).toBeUndefined();
    expect(sample('flowdrop_next_run_timestamp_seconds{job_name="zero-dte"}')).toBe((NOW + 9 * 60_000) / 1000);
    expect(sample('process_resident_memory_bytes')).toBeGreaterThan(1_000_000);
  });

  it('take the session that tonight is due for as no gap, until a run has ended that could have sealed it', async () => {
    const dates = makeDates({ '2026-11-20': { condition: 'pending', begins_to_expire: '2026-12-05T05:00:00.000Z' } });
    const at = Date.parse('2026-11-20T22:30:00Z');
    const status = makeStatus('nightly', { dates: [...dates] });
    const gaps = async (runs: readonly ReturnType<typeof makeRun>[], nowMs = at) =>
      (await read(createMetrics(NO_OVERRIDE, REPO), makeView([makeJob('nightly', { status, runs })]), nowMs))(
        'flowdrop_gaps{job_name="nightly"}',
      );
    expect(await gaps([])).toBe(0);
    expect(await gaps([makeRun('nightly', 0, { started_at: new Date(at - 20 * HOUR_MS).toISOString() })])).toBe(0);
    expect(
      await gaps([makeRun('nightly', 0, { started_at: new Date(at - 10 * 60_000).toISOString(), outcome: 'failed' })]),
    ).toBe(1);
    expect(await gaps([], at + 24 * HOUR_MS)).toBe(1);
  });

  it('measure the time without success on days with a session only', () => {
    const from = Date.parse('2026-11-20T23:00:00Z');
    const hours = (until: string) => measureSessionTimeMs(from, Date.parse(until), NO_OVERRIDE) / HOUR_MS;
    expect(hours('2026-11-21T02:00:00Z')).toBe(3);
    expect(hours('2026-11-22T23:00:00Z')).toBe(6);
    expect(hours('2026-11-23T23:00:00Z')).toBe(24);
    // Thanksgiving.
    const wednesday = Date.parse('2026-11-25T23:00:00Z');
    expect(measureSessionTimeMs(wednesday, Date.parse('2026-11-27T23:00:00Z'), NO_OVERRIDE) / HOUR_MS).toBe(24);
  });

  it('have a series for each job and word, and none for what comes from outside', async () => {
    const text = await createMetrics(NO_OVERRIDE, REPO).text(makeHostileDay(), NOW);
    const ours = text.split('\n').filter((line) => line.startsWith('flowdrop_'));
    const names = new Set(ours.flatMap((line) => [...line.matchAll(/[{,]([a-z_]+)="/g)].map(([, name]) => name)));
    expect([...names].sort()).toEqual(['condition', 'job_name', 'le', 'outcome', 'version']);
    const hostile = ours.filter((line) => line.includes('<script>'));
    for (const line of hostile) expect(line).toMatch(/^flowdrop_\w+\{(?:le="[^"]*",)?(?:job_name|version)="/);
    expect(text).toContain(HOSTILE.replaceAll('"', '\\"'));
  });
});

describe('what is shipped for Prometheus and Grafana', () => {
  it('names metrics that there are', async () => {
    const text = await createMetrics(NO_OVERRIDE, REPO).text(makeBadDay(), NOW);
    const known = new Set([...text.matchAll(/^([a-z_]+)(?=[ {])/gm)].map(([name]) => name));
    for (const [file, content] of [
      ['dashboard', DASHBOARD],
      ['rules', readFileSync(join(RULES, 'flowdrop.rules.yml'), 'utf8')],
    ] as const) {
      const named = new Set([...content.matchAll(/\b(?:flowdrop|process|nodejs)_[a-z_]+/g)].map(([name]) => name));
      expect(named.size, file).toBeGreaterThan(6);
      expect(
        [...named].filter((name) => !known.has(name)),
        file,
      ).toEqual([]);
    }
  });

  it('is a dashboard whose panels have ids, places and a data source of the reader', () => {
    const { panels, templating } = JSON.parse(DASHBOARD) as {
      panels: {
        id: number;
        gridPos: { x: number; w: number };
        datasource: { uid: string };
        targets: { expr: string }[];
      }[];
      templating: { list: { name: string }[] };
    };
    expect(templating.list.map(({ name }) => name)).toEqual(['datasource', 'job']);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const { gridPos, datasource, targets } of panels) {
      expect(datasource.uid).toBe(`\${datasource}`);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      expect(targets.length).toBeGreaterThan(0);
    }
  });

  it('is a set of rules that say what to do, in a section that there is', () => {
    const operations = readFileSync(join(REPO, 'docs', 'operations.md'), 'utf8');
    const anchors = [...operations.matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
      title?.toLowerCase().replaceAll(' ', '-'),
    );
    const { groups } = parse(readFileSync(join(RULES, 'flowdrop.rules.yml'), 'utf8')) as {
      groups: { rules: { alert: string; annotations: Record<string, string> }[] }[];
    };
    for (const { alert, annotations } of groups.flatMap(({ rules }) => rules)) {
      expect(Object.keys(annotations).sort(), alert).toEqual(['description', 'runbook', 'summary']);
      expect(anchors, alert).toContain(annotations['runbook']?.split('#')[1]);
    }
  });

  // Skipped where Prometheus cannot be installed: not root, or not Debian; `isMissing` says which.
  it.skipIf(lacksPromtool)(
    'is a set of rules that Prometheus takes, each of which fires when it must',
    { timeout: 300_000 },
    () => {
      const checked = promtool(['check', 'rules', 'flowdrop.rules.yml']);
      expect(checked).toEqual({ status: 0, said: expect.stringContaining('SUCCESS: 12 rules found') });
      const tested = promtool(['test', 'rules', 'flowdrop.rules.test.yml']);
      expect(tested).toEqual({ status: 0, said: expect.stringContaining('SUCCESS') });
      const rules = readFileSync(join(RULES, 'flowdrop.rules.yml'), 'utf8');
      const tests = readFileSync(join(RULES, 'flowdrop.rules.test.yml'), 'utf8');
      for (const [, alert] of rules.matchAll(/- alert: (\w+)/g))
        expect(tests).toMatch(new RegExp(`alertname: ${alert}\\s+exp_alerts`));
    },
  );

  // As above.
  it.skipIf(lacksPromtool)(
    'goes with metrics that Prometheus reads without a complaint',
    { timeout: 300_000 },
    async () => {
      const text = await createMetrics(NO_OVERRIDE, REPO).text(makeBadDay(), NOW);
      const { said } = promtool(['check', 'metrics'], text);
      // Names of prom-client's own that the linter would have otherwise.
      expect(said.split('\n').filter((line) => line.startsWith('flowdrop_') || /error/i.test(line))).toEqual([]);
    },
  );
});
