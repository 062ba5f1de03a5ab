/**
 * Requests of jobs of groups and of option chains beside the fewest possible, `ceil(groups / limit)`: the compiled worker
 * against the compiled service, three generated sessions, a limit that makes several pages of a date. Counts before and
 * after are included. The first date is exported with an empty state, the next ones with what it taught.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatCount } from '../src/core/units.ts';
import { listClosedSessions } from '../src/service/generate/generate.ts';
import type { RunResult } from '../src/state/run-result.ts';
import { type RunBench, say } from './support/bench.ts';
import { atMost } from './support/goal.ts';
import { runJson, withFolder, withService, workerEnv } from './support/product.ts';

/** Rows of a session: enough for about ten pages of contracts. */
const ROWS = 100_000;
const SESSIONS = 3;
const CHAIN_LIMIT = 150;
const CHAIN_SYMBOL = 'SPY';

const GROUPS = [
  { keys: ['symbol'], limit: 5 },
  { keys: ['option_symbol'], limit: 500 },
  { keys: ['symbol', 'option_symbol'], limit: 500 },
  { keys: ['option_symbol', 'symbol'], limit: 500 },
];
/** Requests beside the fewest: of groups, of a chain's first date, and of its later dates. */
const REACH = { groups: 1.2, first: 1.5, later: 1.2 };

interface Line {
  readonly what: string;
  readonly night: string;
  readonly groups: number;
  readonly fewest: number;
  readonly used: number;
}

export const benchGroups: RunBench = async ({ note }) => {
  const lines: Line[] = [];
  for (const { keys, limit } of GROUPS) {
    const what = `groups by ${keys.join(', then ')}, limit ${limit}`;
    const options = ['--row-limit', String(limit)];
    lines.push(...(await measure(what, options, limit, groupJob(keys), REACH.groups, REACH.groups, note)));
  }
  const what = `chain of ${CHAIN_SYMBOL}, limit ${CHAIN_LIMIT}`;
  const options = ['--chain-limit', String(CHAIN_LIMIT)];
  lines.push(...(await measure(what, options, CHAIN_LIMIT, CHAIN_JOB, REACH.first, REACH.later, note)));
  return [
    `Requests of a date with more groups than an answer: ${formatCount(ROWS)} trades a session, counts and recounts included`,
    '',
    formatTable(
      ['what', 'date', ...['groups', 'fewest', 'used', 'ratio'].map(right)],
      lines.map(({ what: of, night, groups, fewest, used }) => [
        ...[of, night, formatCount(groups), formatCount(fewest), formatCount(used)],
        (used / fewest).toFixed(2),
      ]),
    ),
  ].join('\n');
};

async function measure(
  what: string,
  options: readonly string[],
  limit: number,
  job: string,
  first: number,
  later: number,
  note: Parameters<RunBench>[0]['note'],
): Promise<readonly Line[]> {
  say(`groups: ${what} ...`);
  return await withService(
    ROWS,
    async ({ url }) =>
      await withFolder(async (cwd) => {
        await writeFile(join(cwd, 'groups.yaml'), job);
        const lines: Line[] = [];
        for (const [index, date] of listClosedSessions(Date.now(), SESSIONS).entries()) {
          const dates = ['--from', date, '--to', date];
          const run = (await runJson(cwd, ['backfill', 'groups.yaml', ...dates], workerEnv(url))) as RunResult;
          const groups = run.dates[0]?.rows ?? 0;
          const fewest = Math.ceil(groups / limit);
          const night = index === 0 ? 'first' : 'next';
          lines.push({ what, night, groups, fewest, used: run.requests });
          const goal = `requests / fewest, ${what}, ${night} date of ${fewest} pages`;
          note(atMost(goal, index === 0 ? first : later, run.requests / fewest, (ratio) => ratio.toFixed(2)));
        }
        return lines;
      }),
    ['--generate', String(SESSIONS), ...options],
  );
}

function groupJob(keys: readonly string[]): string {
  const names = keys.join(', ');
  return `name: groups
source:
  api: historical
  sql: SELECT ${names}, concat(substring(toString(time), 1, 10), ' 00:00:00') AS day, sum(size) AS contracts, count() AS trades FROM RawOptionTrades WHERE {window} GROUP BY ${names}, day
  grain: day
  time: day
  split: [${names}]
  types: {contracts: int64, trades: int64}
drop: {to: out, dataset: groups, sort: [${names}]}
`;
}

const CHAIN_JOB = `name: groups
source: {api: chain, symbols: [${CHAIN_SYMBOL}]}
drop: {to: out, dataset: chains}
`;
