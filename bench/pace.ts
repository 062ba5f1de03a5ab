/**
 * Whether slow answers lower the pace: the compiled worker against the compiled service at the API's one request a
 * second, with a proxy between them that holds every answer back. What counts is the wall clock of the whole run, sealing
 * included, beside its requests at that pace.
 */

import { REQUESTS_PER_SECOND } from '../src/api-contract/published-limits.ts';
import { formatTable } from '../src/cli/terminal/text-table.ts';
import { formatCount, formatDuration } from '../src/core/units.ts';
import type { RunResult } from '../src/state/run-result.ts';
import { startFaultProxy } from '../test/support/fault-proxy.ts';
import { type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { JOB_FILE, KEY, runJson, withFolder, withService } from './support/product.ts';

/** How long every answer takes beside the service's own time. */
const ANSWER_MS = 2_500;
const ROW_LIMIT = 100;

/** Wall clock beside the requests at the pace. */
const REACH = 1.05;

export const benchPace: RunBench = async ({ pages, note }) => {
  const rows = pages * ROW_LIMIT;
  say(`pace: ${pages} pages at ${REQUESTS_PER_SECOND} request a second take about ${formatDuration(pages * 1000)} ...`);
  const run = await withService(
    rows,
    async ({ url }) => {
      const proxy = await startFaultProxy(url, [
        { on: () => true, fault: { kind: 'delay', before: 'head', ms: ANSWER_MS } },
      ]);
      try {
        return await withFolder((cwd) => runWorker(cwd, proxy.url));
      } finally {
        await proxy.close();
      }
    },
    ['--generate', '1', '--row-limit', String(ROW_LIMIT)],
  );
  const tookMs = Date.parse(run.finished_at) - Date.parse(run.started_at);
  const paceMs = (run.requests / REQUESTS_PER_SECOND) * 1000;
  const what = `wall clock / (requests x pace), answers of ${ANSWER_MS / 1000} s, ${formatCount(run.requests)} requests`;
  note(atMost(what, REACH, tookMs / paceMs, (value) => value.toFixed(3)));
  const right = 'right' as const;
  const columns = ['requests', 'at the pace', 'wall clock', 'ratio', 'one at a time'].map((title) => ({
    title,
    align: right,
  }));
  const cells = [
    formatCount(run.requests),
    formatDuration(paceMs),
    formatDuration(tookMs),
    (tookMs / paceMs).toFixed(3),
    formatDuration(run.requests * ANSWER_MS),
  ];
  return [`A run whose answers take ${ANSWER_MS / 1000} s each`, '', formatTable(columns, [cells])].join('\n');
};

async function runWorker(cwd: string, url: string): Promise<RunResult> {
  const env = { FLOWDROP_API_URL: url, FLOWDROP_API_KEY: KEY, FLOWDROP_LOG_LEVEL: 'warn' };
  return (await runJson(cwd, ['run', JOB_FILE, '--no-report'], env)) as RunResult; // What `run --json` prints.
}
