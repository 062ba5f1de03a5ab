/**
 * Requests of a real run: the compiled worker against the compiled service, one generated session, an empty state. What
 * it used is compared with the fewest possible, `ceil(rows / row limit)`; counts, cuts and recounts are all in it.
 */
import { formatTable } from '../src/cli/table.ts';
import { formatCount, formatDuration, formatPercent } from '../src/core/units.ts';
import type { RunResult } from '../src/run/result.ts';
import { median, type RunBench, say } from './support/bench.ts';
import { JOB_FILE, KEY, REQUESTS_PER_SECOND, runJson, withFolder, withService } from './support/product.ts';

export const benchRequests: RunBench = async ({ rows, repeat }) => {
  say(`requests: generating ${formatCount(rows)} rows ...`);
  const runs = await withService(rows, async ({ url }) => {
    const found: RunResult[] = [];
    for (let round = 1; round <= repeat; round += 1) {
      say(`requests: run ${round} of ${repeat}`);
      found.push(await withFolder((cwd) => runWorker(cwd, url)));
    }
    return found;
  });
  const right = 'right' as const;
  const columns = ['rows', 'fewest', 'used', 'over', 'retries', 'wall clock', 'rows/s'];
  return [
    `Requests of a run at ${REQUESTS_PER_SECOND} requests a second, so that only the work takes time (${repeat} runs)`,
    '',
    formatTable(
      columns.map((title) => ({ title, align: right })),
      runs.map(describe),
    ),
    '',
    `Median wall clock: ${formatDuration(median(runs.map(tookMs)))}; at the API's one request a second the requests alone take ${formatDuration(median(runs.map((run) => run.requests)) * 1000)}.`,
  ].join('\n');
};

async function runWorker(cwd: string, url: string): Promise<RunResult> {
  const env = {
    FLOWDROP_API_URL: url,
    FLOWDROP_API_KEY: KEY,
    FLOWDROP_REQUESTS_PER_SECOND: String(REQUESTS_PER_SECOND),
    FLOWDROP_LOG_LEVEL: 'warn',
  };
  return (await runJson(cwd, ['run', JOB_FILE, '--no-report'], env)) as RunResult; // What `run --json` prints.
}

function describe(run: RunResult): readonly string[] {
  const rows = run.dates.reduce((sum, date) => sum + date.rows, 0);
  const fewest = run.dates.reduce((sum, date) => sum + Math.ceil(date.rows / run.row_limit), 0);
  return [
    formatCount(rows),
    formatCount(fewest),
    formatCount(run.requests),
    formatPercent(run.requests / fewest - 1),
    formatCount(run.retries),
    formatDuration(tookMs(run)),
    formatCount((rows / tookMs(run)) * 1000),
  ];
}

function tookMs(run: RunResult): number {
  return Date.parse(run.finished_at) - Date.parse(run.started_at);
}
