/**
 * What an idle daemon takes: its own memory, without its children, with 50 jobs over ten years of dates and a month of
 * remembered runs each, after it has read every status and shown every page; and the time of its pages. The daemon is the
 * product's own process; the store has what a status reads: conditions and names of objects.
 */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { previousSessions } from '../src/calendar/session.ts';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import type { JobsDocument } from '../src/daemon/shapes.ts';
import { conditionKey, dropKey, manifestKey } from '../src/ledger/layout.ts';
import { openJobState } from '../src/state/job-state.ts';
import { RunHistory } from '../src/state/run-history.ts';
import { type DaemonProcess, startDaemon, waitFor } from '../test/support/daemon.ts';
import { readResidentMb } from '../test/support/processes.ts';
import { createRunRecord } from '../test/support/run-record.ts';
import { median, type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { withFolder } from './support/product.ts';

const JOBS = 50;
/** Ten years. */
const SESSIONS = 2_520;
const REMEMBERED_RUNS = 30;
/** Looks at each page; a drawn page is sent again within a second. */
const LOOKS = 5;
const PAGE_LIFETIME_MS = 1_100;
/** Of all statuses: each is read by a process. */
const PATIENCE_MS = 900_000;

const MOST_MB = 120;
const MOST_MS = 100;

export const benchDaemon: RunBench = async ({ note }) =>
  await withFolder(async (folder) => {
    const nowMs = Date.now();
    const names = Array.from({ length: JOBS }, (_, index) => `job-${String(index).padStart(2, '0')}`);
    const sessions = previousSessions(new Date(nowMs).toISOString().slice(0, 10), SESSIONS);
    say(`daemon: ${JOBS} jobs, ${SESSIONS} sessions, ${sessions[0]} to ${sessions.at(-1)} ...`);
    await makeStore(join(folder, 'drops'), sessions);
    for (const name of names) await makeJob(folder, name, sessions, nowMs);
    const daemon = await startDaemon(folder, { FLOWDROP_STATE_DIR: join(folder, 'state') });
    try {
      const started = await readResidentMb(daemon.pid);
      const isRead = async () => (await countRead(daemon)) === JOBS;
      if (!(await waitFor(isRead, { patienceMs: PATIENCE_MS, pollMs: PAGE_LIFETIME_MS })))
        throw new Error('not every status was read');
      await daemon.untilIdle();
      const read = await readResidentMb(daemon.pid);
      const pages = await timePages(daemon, ['/', `/jobs/${names[7]}`, '/runs', '/reports', '/api/jobs', '/metrics']);
      // What was looked at is read again.
      await daemon.untilIdle();
      const shown = await readResidentMb(daemon.pid);
      const megabytes = (value: number) => `${value.toFixed(1)} MB`;
      const milliseconds = (value: number) => `${value.toFixed(1)} ms`;
      note(atMost('memory of an idle daemon, 50 jobs of ten years', MOST_MB, Math.max(read, shown), megabytes));
      const slowest = Math.max(...pages.values());
      note(atMost('slowest page of it', MOST_MS, slowest, milliseconds));
      return [
        `An idle daemon with ${JOBS} jobs, ${SESSIONS} dates and ${REMEMBERED_RUNS} remembered runs each (resident memory of its process)`,
        '',
        formatTable(
          ['after', right('memory')],
          [
            ['start', megabytes(started)],
            ['every status was read', megabytes(read)],
            ['every page was shown', megabytes(shown)],
          ],
        ),
        '',
        formatTable(
          ['page', right('median')],
          [...pages].map(([path, ms]) => [path, milliseconds(ms)]),
        ),
      ].join('\n');
    } finally {
      await daemon.stop();
    }
  });

/** What the listings and the conditions of a dataset say; nobody reads the objects themselves. */
async function makeStore(root: string, sessions: readonly string[]): Promise<void> {
  const write = async (key: string, text: string) => {
    await mkdir(dirname(join(root, key)), { recursive: true });
    await writeFile(join(root, key), text);
  };
  const entries = sessions.map((date, index) => ({
    ...{ date, condition: 'available', last_modified_date: date, revision: 1, rows: 7_000_000 + index * 211 },
    ...{ size: 400_000_000 + index, beside: { 'summary.parquet': 180_000, 'counts.parquet': 90_000 } },
  }));
  await write(conditionKey('trades'), JSON.stringify(entries));
  for (const date of sessions) {
    await write(manifestKey('trades', date), '');
    await write(dropKey('trades', date), '');
  }
}

async function makeJob(folder: string, name: string, sessions: readonly string[], nowMs: number): Promise<void> {
  // One store under many names: no two jobs may write to one dataset.
  await mkdir(join(folder, 'stores'), { recursive: true });
  await symlink(join(folder, 'drops'), join(folder, 'stores', name));
  const drop = `drop:\n  to: stores/${name}\n  dataset: trades`;
  const schedule = 'schedule:\n  cron: "0 3 * * *"\n  retry: off';
  await writeFile(join(folder, `${name}.yaml`), `name: ${name}\nsource:\n  api: historical\n${drop}\n${schedule}\n`);
  const state = join(folder, 'state');
  const { runs } = openJobState(state, name);
  await mkdir(runs.records, { recursive: true });
  const history = new RunHistory(state, name);
  const remember = async (date: string, time: string) => {
    const at = `${date}T${time}Z`;
    const id = `${at.replace(/[-:]|\.\d+/g, '')}-000000`;
    const record = createRunRecord({
      ...{ id, run_id: id, job: name, args: ['run', name], started_at: at, updated_at: at, finished_at: at },
      ...{ planned_pages: 465, pages: 467, rows: 7_000_000, requests: 480, splits: 2, bytes: 900_000_000 },
      dates: [{ date, status: 'sealed', rows: 7_000_000, requests: 471, revision: 1 }],
      reports: [{ report: 'flow', date, sent: 2, written: 0, unsent: 0 }],
    });
    await history.write(record);
  };
  for (const date of sessions.slice(1 - REMEMBERED_RUNS)) await remember(date, '23:00:00.000');
  // So that nothing is caught up.
  await remember(...(new Date(nowMs).toISOString().slice(0, -1).split('T') as [string, string]));
}

/** Jobs with a date whose rows are known. Each look makes the daemon read one status more. */
async function countRead({ url }: DaemonProcess): Promise<number> {
  const { jobs } = (await (await fetch(`${url}/api/jobs`)).json()) as JobsDocument;
  return jobs.filter(({ sessions }) => sessions.some(({ rows }) => rows !== null)).length;
}

/** Median time of each page, milliseconds. */
async function timePages({ url }: DaemonProcess, paths: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const took = new Map<string, number[]>(paths.map((path) => [path, []]));
  for (let look = 0; look < LOOKS; look += 1) {
    for (const path of paths) {
      await new Promise((resolve) => setTimeout(resolve, PAGE_LIFETIME_MS));
      const began = performance.now();
      const answer = await fetch(url + path);
      await answer.arrayBuffer();
      if (answer.status !== 200) throw new Error(`${path} answers ${answer.status}`);
      took.get(path)?.push(performance.now() - began);
    }
  }
  return new Map([...took].map(([path, times]) => [path, median(times)]));
}
