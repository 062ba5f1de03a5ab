/**
 * What the pace reaches at the API's one request a second, when every answer is slow: the compiled worker against the
 * compiled service, with a proxy between them that holds every answer back. What counts is the wall clock of the whole
 * run, sealing included, beside its requests at that pace.
 */
import { REQUESTS_PER_SECOND } from '../src/api-contract/published-limits.ts';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatCount, formatDuration } from '../src/core/units.ts';
import type { RunResult } from '../src/state/run-result.ts';
import type { ScriptedPlan } from '../test/support/fault-plan.ts';
import { startFaultProxy } from '../test/support/fault-proxy.ts';
import { type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { JOB_FILE, KEY, runJson, withFolder, withService } from './support/product.ts';

/** How long every answer takes beside the service's own time. */
const ANSWER_MS = 2_500;
const ROW_LIMIT = 100;
/** Wall clock beside the requests at the pace. */
const REACH = 1.05;
const SLOW: ScriptedPlan = [{ on: () => true, fault: { kind: 'delay', before: 'head', ms: ANSWER_MS } }];

export const benchPace: RunBench = async ({ pages, note }) => {
  say(`pace: ${pages} pages at ${REQUESTS_PER_SECOND} request a second take about ${formatDuration(pages * 1000)} ...`);
  const options = ['--generate', '1', '--row-limit', String(ROW_LIMIT)];
  const run = await withService(pages * ROW_LIMIT, ({ url }) => runSlowly(url), options);
  const tookMs = Date.parse(run.finished_at) - Date.parse(run.started_at);
  const paceMs = (run.requests / REQUESTS_PER_SECOND) * 1000;
  const what = `wall clock / (requests x pace), answers of ${ANSWER_MS / 1000} s, ${formatCount(run.requests)} requests`;
  note(atMost(what, REACH, tookMs / paceMs, (value) => value.toFixed(3)));
  const slow = [
    formatCount(run.requests),
    formatDuration(paceMs),
    formatDuration(tookMs),
    (tookMs / paceMs).toFixed(3),
    formatDuration(run.requests * ANSWER_MS),
  ];
  const titles = ['requests', 'at the pace', 'wall clock', 'ratio', 'one at a time'];
  return `A run whose answers take ${ANSWER_MS / 1000} s each\n\n${formatTable(titles.map(right), [slow])}`;
};

async function runSlowly(url: string): Promise<RunResult> {
  const proxy = await startFaultProxy(url, SLOW);
  const env = { FLOWDROP_API_URL: proxy.url, FLOWDROP_API_KEY: KEY, FLOWDROP_LOG_LEVEL: 'warn' };
  try {
    return (await withFolder((cwd) => runJson(cwd, ['run', JOB_FILE, '--no-report'], env))) as RunResult; // Its document.
  } finally {
    await proxy.close();
  }
}
