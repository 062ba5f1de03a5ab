/**
 * What the pace reaches at the API's one request a second, when every answer is slow: the compiled worker against the
 * compiled service, with a proxy between them that holds every answer back. What counts is the wall clock of the whole
 * run, sealing included, beside its requests at that pace. A second run meets a server that counts arrivals in a sliding
 * second and a network that jitters: what one early arrival costs.
 */

import { REQUESTS_PER_SECOND } from '../src/api-contract/published-limits.ts';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatCount, formatDuration } from '../src/core/units.ts';
import type { RunResult } from '../src/state/run-result.ts';
import type { ScriptedPlan, SeenRequest } from '../test/support/fault-plan.ts';
import { startFaultProxy } from '../test/support/fault-proxy.ts';
import { createRandom } from '../test/support/random.ts';
import { type RunBench, say } from './support/bench.ts';
import { atLeast, atMost } from './support/goal.ts';
import { JOB_FILE, KEY, runJson, withFolder, withService } from './support/product.ts';

/** How long every answer takes beside the service's own time. */
const ANSWER_MS = 2_500;
const ROW_LIMIT = 100;
const JITTERY_PAGES = 100;
/** Each request arrives up to this much later: more than the pace's guard of 10 ms allows for. */
const JITTER_MS = 20;
const SEED = 12;
/** A page asks for columns, everything else for aggregates. */
const PAGE_SQL = /^SELECT \w+, \w+, /;

/** Wall clock beside the requests at the pace. */
const REACH = 1.05;
/** Requests a second where the server refuses what comes too close. */
const JITTERY_REACH = 0.95;

const SLOW: ScriptedPlan = [{ on: () => true, fault: { kind: 'delay', before: 'head', ms: ANSWER_MS } }];

export const benchPace: RunBench = async ({ pages, note }) => {
  const { run, tookMs } = await runSlowly(pages, SLOW);
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
  return [
    `A run whose answers take ${ANSWER_MS / 1000} s each`,
    '',
    formatTable(['requests', 'at the pace', 'wall clock', 'ratio', 'one at a time'].map(right), [slow]),
    '',
    `The same before a server that refuses what arrives within a second of the arrival before; a network of 0 to ${JITTER_MS} ms`,
    '',
    await measureJitter(Math.min(pages, JITTERY_PAGES), note),
  ].join('\n');
};

async function measureJitter(pages: number, note: Parameters<RunBench>[0]['note']): Promise<string> {
  const server = createStrictServer();
  const { run } = await runSlowly(pages, server.plan);
  const { arrivals, refused } = server.count();
  // Counts, cuts and recounts wait for each other's answers; the pages between them keep the pace.
  const first = arrivals.findIndex(({ isPage }) => isPage);
  const last = arrivals.findLastIndex(({ isPage }) => isPage);
  const tookMs = (arrivals[last]?.atMs ?? 0) - (arrivals[first]?.atMs ?? 0);
  const perSecond = (last - first) / (tookMs / 1000);
  const what = `sliding second, network of 0 to ${JITTER_MS} ms, answers of ${ANSWER_MS / 1000} s`;
  note(atLeast(`requests a second, ${what}`, JITTERY_REACH, perSecond, (value) => value.toFixed(3)));
  const mostRefused = Math.max(1, Math.floor(arrivals.length / 100));
  note(atMost(`429 in ${formatCount(arrivals.length)} requests, ${what}`, mostRefused, refused, String));
  const cells = [formatCount(run.requests), String(refused), perSecond.toFixed(3)];
  return formatTable(['requests', '429', 'requests a second'].map(right), [cells]);
}

/**
 * Answers as late as the other run's, but refuses a request that arrives within a second of the one before, refused ones
 * included. The jitter is added to the time at which a request came: loopback has none of its own.
 */
function createStrictServer() {
  const random = createRandom(SEED);
  const arrivals: { readonly atMs: number; readonly isPage: boolean }[] = [];
  let refused = 0;
  const isTooSoon = ({ sql }: SeenRequest) => {
    const lastMs = arrivals.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY;
    const atMs = performance.now() + random() * JITTER_MS;
    arrivals.push({ atMs, isPage: PAGE_SQL.test(sql) });
    if (atMs - lastMs >= 1000 / REQUESTS_PER_SECOND) return false;
    refused += 1;
    return true;
  };
  const refusal = { kind: 'status', status: 429, body: 'api', retryAfter: { seconds: 1, as: 'number' } } as const;
  return { plan: [{ on: isTooSoon, fault: refusal }, ...SLOW], count: () => ({ arrivals, refused }) };
}

async function runSlowly(pages: number, plan: ScriptedPlan) {
  say(`pace: ${pages} pages at ${REQUESTS_PER_SECOND} request a second take about ${formatDuration(pages * 1000)} ...`);
  const run = await withService(
    pages * ROW_LIMIT,
    async ({ url }) => {
      const proxy = await startFaultProxy(url, plan);
      try {
        return await withFolder((cwd) => runWorker(cwd, proxy.url));
      } finally {
        await proxy.close();
      }
    },
    ['--generate', '1', '--row-limit', String(ROW_LIMIT)],
  );
  return { run, tookMs: Date.parse(run.finished_at) - Date.parse(run.started_at) };
}

async function runWorker(cwd: string, url: string): Promise<RunResult> {
  const env = { FLOWDROP_API_URL: url, FLOWDROP_API_KEY: KEY, FLOWDROP_LOG_LEVEL: 'warn' };
  return (await runJson(cwd, ['run', JOB_FILE, '--no-report'], env)) as RunResult; // What `run --json` prints.
}
