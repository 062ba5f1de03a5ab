/**
 * What `doctor` asks a source: one request of the cheapest kind, which shows whether the key is accepted, how far the
 * clocks are apart, and what limits the API tells of itself.
 */
import { formatWallDate } from '../../calendar/wall-clock.ts';
import { wholeDay } from '../../calendar/window.ts';
import type { Clock } from '../../core/clock.ts';
import { formatCount } from '../../core/units.ts';
import { buildPage } from '../../plan/statement.ts';
import type { HistoricalMeta } from '../../wire/historical.ts';
import { LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../../wire/limits.ts';
import type { OpenedSource } from '../opened.ts';
import { type Finding, type FindingStatus, ok, tryCheck } from './finding.ts';

/** The `Date` header has whole seconds, and an answer takes its time: what is within this may be no difference at all. */
const NOTABLE_SKEW_MS = 2_000;
/**
 * A run goes by the server's clock, but S3 refuses requests signed 15 minutes off, certificates and schedules go by this
 * machine's, and a clock that is a minute off is not being set by anybody.
 */
const BROKEN_SKEW_MS = 60_000;

export interface SourceDeps {
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

/** @param name of the source, for the table */
export async function checkSource(name: string, opened: OpenedSource, deps: SourceDeps): Promise<readonly Finding[]> {
  const { source } = opened;
  return await tryCheck(name, async () => {
    const meta = await ask(opened, deps);
    const accepted =
      opened.kind === 'table'
        ? `the server at ${source.url} has the table and its columns`
        : `the API at ${source.url} accepts the key`;
    return [
      ok(name, accepted),
      describeSkew(`${name}: clock`, source.serverNow() - deps.clock.now()),
      ...(meta === undefined ? [] : [describeLimits(`${name}: limits`, meta)]),
    ];
  });
}

/** @returns what the API says of its limits, where it does @throws SourceFault */
async function ask(opened: OpenedSource, { clock, signal }: SourceDeps): Promise<HistoricalMeta | undefined> {
  switch (opened.kind) {
    case 'sql': {
      const statement = buildPage(opened.job, wholeDay(formatWallDate(clock.now())), 'closed');
      return (await opened.source.ask(statement, { testMode: true, ...(signal ? { signal } : {}) })).meta;
    }
    case 'snapshots':
      // One is enough to be let in.
      for (const symbol of opened.job.source.symbols.slice(0, 1)) await opened.source.greet(symbol, signal);
      return undefined;
    case 'table':
      await opened.source.describe(signal);
      return undefined;
    default:
      return opened satisfies never;
  }
}

function describeSkew(check: string, skewMs: number): Finding {
  const away = Math.abs(skewMs);
  const seconds = (away / 1000).toFixed(away < 10_000 ? 1 : 0);
  if (away <= NOTABLE_SKEW_MS) return ok(check, 'this clock and that of the source agree within 2 s');
  return {
    check,
    status: away > BROKEN_SKEW_MS ? 'fail' : 'warn',
    seen: `this clock is ${seconds} s ${skewMs > 0 ? 'behind' : 'ahead of'} that of the source`,
    next: 'Have this machine set its clock by NTP (timedatectl, chrony); S3 refuses requests that are 15 minutes off.',
  };
}

function describeLimits(check: string, meta: HistoricalMeta): Finding {
  const { lookback_days: days, minimum_data_delay_minutes: delay, row_limit: rows, entitlement, capped } = meta;
  const seen = [
    days === undefined ? 'no lookback told' : `${days} days of lookback`,
    `rows at least ${delay} minutes old`,
    `${formatCount(rows)} rows an answer`,
    `entitlement ${entitlement}${capped ? ', rows capped' : ''}`,
  ].join(', ');
  const notes = [
    ...(days !== undefined && days < LOOKBACK_DAYS
      ? [`Dates expire after ${days} days, not ${LOOKBACK_DAYS}: let no run fail for longer.`]
      : []),
    ...(delay > MINIMUM_DATA_DELAY_MINUTES
      ? [`Rows come ${delay} minutes late, not ${MINIMUM_DATA_DELAY_MINUTES}: schedule the job later.`]
      : []),
    ...(capped ? [`The trial caps an answer at ${formatCount(rows)} rows: dates come whole, in more requests.`] : []),
  ];
  const status: FindingStatus = notes.length === 0 ? 'ok' : 'warn';
  return { check, status, seen, ...(notes.length === 0 ? {} : { next: notes.join(' ') }) };
}
