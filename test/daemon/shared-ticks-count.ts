/**
 * What daemons that share a schedule have done, counted from outside: the logs of all their starts, the store, the mail
 * server and Redis. Invariant: nothing is taken from what the test itself did, but which ticks there were and who was hit.
 */
import { join } from 'node:path';
import { Redis } from 'ioredis';
import PostalMime from 'postal-mime';
import { queryDuckDb } from '../support/drop.ts';
import { listFiles, readJson } from '../support/flowdrop.ts';
import type { RedisServer } from '../support/redis-server.ts';
import { pickNewest } from '../support/store-keys.ts';
import { listRuns, ROWS_A_SESSION, type SharedTicks } from './shared-ticks.ts';
import { formatTick } from './shared-ticks-plan.ts';

export interface SharedCount {
  /** What is not as it must be; empty when all is well. */
  readonly problems: readonly string[];
  /** Lines for people. */
  readonly lines: readonly string[];
}

export async function countSharedTicks(lived: SharedTicks, redis: RedisServer): Promise<SharedCount> {
  const { dates, ticks, starts, store, mail } = lived;
  const runs = ticks.map((tick) => ({ tick, seen: starts.flatMap((start) => listRuns(start, tick.dueAtMs)) }));
  const all = starts.flatMap(({ daemon }) => daemon.of('started'));
  const every = runs.flatMap(({ seen }) => seen);
  const known = new Set(every.map(({ run }) => run));
  const cut = runs.filter(({ tick }) => tick.takenOverAfterMs !== undefined);
  const endsOf = (outcome: string) => runs.map(({ seen }) => seen.filter((run) => run.outcome === outcome).length);
  const name = ({ tick }: (typeof runs)[number]) => formatTick(tick.dueAtMs);
  const ended = runs.filter(({ seen }) => seen.some(({ outcome }) => outcome === 'done'));
  const doubled = runs.filter(({ seen }) => seen.filter(({ outcome }) => outcome === 'done').length > 1);
  // Each cut in a run costs one start more, and nothing else does.
  const odd = runs.filter((each) => each.seen.length !== (cut.includes(each) ? 2 : 1));
  const foreign = all.filter(({ run }) => !known.has(String(run)));
  const cutShort = every.filter(({ outcome }) => outcome !== 'done');

  const files = await listFiles(store);
  const manifests = files.filter((file) => /^_flowdrop\/trades\/session=[\d-]+\/manifest\.json$/.test(file));
  const sealed = manifests.map((file) => file.split('/')[2]?.slice('session='.length) ?? '');
  const unlike: string[] = [];
  for (const file of manifests) {
    const { rows, revision } = await readJson<{ rows: number; revision: number }>(store, file);
    if (rows !== ROWS_A_SESSION || revision !== 1) unlike.push(`${file}: ${rows} rows, revision ${revision}`);
  }
  const history = files.filter((file) => file.includes('/history/'));
  const parquet = join(store, 'trades', 'session=*', 'trades.parquet');
  const [rows] = await queryDuckDb(
    `SELECT count(*)::INT AS n, count(DISTINCT id)::INT AS ids FROM read_parquet('${parquet}')`,
  );
  const expectedRows = dates.length * ROWS_A_SESSION;
  const archived = files.filter((file) => /^_flowdrop\/reports\/.*\/rev=\d+\/report\.html$/.test(file));
  const receipts = pickNewest(files.filter((file) => file.startsWith('_flowdrop/reports/')));
  const mails = await Promise.all(mail.messages.map(({ source }) => PostalMime.parse(source)));
  const mailed = mails.map(({ subject }) => /\d{4}-\d\d-\d\d/.exec(subject ?? '')?.[0] ?? '').toSorted();
  const messageIds = mails.map(({ messageId }) => String(messageId));
  const memory = await readRedis(redis);
  const due = ticks.map(({ dueAtMs }) => String(dueAtMs)).toSorted();
  const unusual = starts
    .flatMap(({ daemon }) => daemon.lines.filter(({ level }) => Number(level) >= 40))
    .map(({ event, outcome }) => [event, outcome].filter((part) => part !== undefined).join(' '));

  const problems = [
    ...runs.filter((each) => !ended.includes(each)).map((each) => `lost: ${name(each)}`),
    ...doubled.map((each) => `doubled: ${name(each)}`),
    ...odd.map((each) => `begun ${each.seen.length} times: ${name(each)} (${each.tick.hit ?? 'nothing befell it'})`),
    ...foreign.map(({ tick }) => `a run of a tick that was none: ${tick}`),
    ...differ('sealed', sealed, dates),
    ...unlike,
    ...history.map((file) => `a day was sealed twice: ${file}`),
    ...(rows?.['n'] === expectedRows && rows['ids'] === expectedRows ? [] : [`rows: ${JSON.stringify(rows)}`]),
    ...differ('mailed', mailed, dates),
    ...differ('Message-IDs', [...new Set(messageIds)], messageIds),
    ...(archived.length === dates.length ? [] : [`${archived.length} reports in the archive`]),
    ...(receipts.length === dates.length ? [] : [`${receipts.length} receipts in the archive`]),
    ...differ('ticks in Redis', memory.done, due),
    ...memory.held.map((time) => `Redis has a tick that is not given back: ${formatTick(Number(time))}`),
  ];
  const waits = ticks.flatMap(({ takenOverAfterMs }) => takenOverAfterMs ?? []);
  const total = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);
  return {
    problems,
    lines: [
      `daemons: ${starts.length} starts in ${new Set(starts.map(({ place }) => place)).size} places; ` +
        `runs by place: ${tally(every.map(({ start }) => `${start.name[0]}`))}; ` +
        `by reason: ${tally(every.map(({ reason }) => reason))}`,
      `befell: ${tally(ticks.flatMap(({ hit }) => hit ?? []))}`,
      `taken over after ${waits.map((ms) => (ms / 1000).toFixed(1)).join(', ') || 'nothing'} s`,
      `log lines of warnings and errors: ${tally(unusual)}`,
      `runs begun ${all.length} = ${ticks.length} ticks + ${cut.length} cut in the middle and begun again by another daemon; ` +
        `cut short ${cutShort.length}`,
      `ticks run to their end once: ${endsOf('done').filter((count) => count === 1).length} of ${ticks.length}; ` +
        `lost ${ticks.length - ended.length}, doubled ${doubled.length}, still held in Redis ${memory.held.length}`,
      `dates sealed once: ${new Set(sealed).size - unlike.length} of ${dates.length}, sealed again ${history.length}; ` +
        `rows ${rows?.['n']}, different ${rows?.['ids']}, of ${expectedRows}`,
      `reports mailed once: ${new Set(mailed).size} of ${dates.length}, mails ${mailed.length}, archived ${archived.length}; ` +
        `requests answered ${total(ticks.map(({ requests }) => requests))}`,
    ],
  };
}

/** What Redis knows of the shared job: its ticks that are over, and those that somebody still holds. */
async function readRedis({ url }: RedisServer) {
  const client = new Redis(url);
  try {
    const [key = ''] = await client.keys('flowdrop:schedule:*');
    const { done, open } = JSON.parse((await client.get(key)) ?? '') as { done: number[]; open: object };
    return { done: done.map(String), held: Object.keys(open) };
  } finally {
    client.disconnect();
  }
}

/** Both lists sorted; each value as often. */
function differ(what: string, found: readonly string[], expected: readonly string[]): readonly string[] {
  const [a, b] = [countEach(found), countEach(expected)];
  return [...new Set([...found, ...expected])].flatMap((value) =>
    a.get(value) === b.get(value) ? [] : `${what}: ${value} ${a.get(value) ?? 0} times, not ${b.get(value) ?? 0}`,
  );
}

function countEach(values: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function tally(values: readonly string[]): string {
  return [...countEach(values)].map(([value, count]) => `${value} ${count}`).join(', ') || 'none';
}
