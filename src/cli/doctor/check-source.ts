/**
 * Doctor's checks of a source. One request of the cheapest kind shows whether the key is accepted, how far the clocks
 * differ, and which limits the API reports. Another asks for the newest row: no clock can be earlier than it.
 */

import type { HistoricalMeta } from '../../api-contract/historical.ts';
import { LOOKBACK_DAYS, MINIMUM_DATA_DELAY_MINUTES } from '../../api-contract/published-limits.ts';
import { formatWallDate, parseSecond } from '../../calendar/wall-clock.ts';
import { wholeDay } from '../../calendar/window.ts';
import { formatCount } from '../../core/units.ts';
import { FEW_PAGE_ROWS } from '../../export/trades/fetch.ts';
import { isRefusal } from '../../export/trades/session-ends.ts';
import { MAX_CLOCK_SKEW_MS } from '../../plan/clocks.ts';
import { lookbackOf } from '../../plan/dates.ts';
import { visibleSince } from '../../plan/session-end.ts';
import { buildNewest, buildPage } from '../../plan/statement.ts';
import type { OpenedSource } from '../../run/open-source.ts';
import { type Page, SourceFault } from '../../source/source.ts';
import { type Finding, type Findings, fail, ok, warn } from './checks.ts';

/** The `Date` header has whole seconds, and an answer takes time: a smaller difference may be none. */
const NOTABLE_SKEW_MS = 2_000;
/**
 * A run uses the server's clock. But S3 refuses requests signed 15 minutes off, certificates and schedules use this
 * machine's clock, and a clock that is a minute off is not being synchronized.
 */
const BROKEN_SKEW_MS = 60_000;

/** Longest plausible lookback; far more than any plan has. */
const MAX_DAYS = 10_000;
/** Longest plausible delay; rows that are a week late are not the recent ones that the API sells. */
const MAX_DELAY_MINUTES = 7 * 24 * 60;

/** @param name source name in the table of findings @throws SourceFault */
export async function checkSource(name: string, opened: OpenedSource): Promise<Findings> {
  const { url } = opened.source;
  const meta = await ask(opened);
  const accepted =
    opened.kind === 'table'
      ? `the server at ${url} has the table and its columns`
      : `the API at ${url} accepts the key`;
  return [
    ok(name, accepted),
    describeSkew(`${name}: clock`, opened),
    ...(await checkNewest(`${name}: newest row`, opened)),
    ...(meta === undefined ? [] : [describeLimits(`${name}: limits`, meta)]),
  ];
}

/** @returns the limits that the API reports, if it does @throws SourceFault */
async function ask(opened: OpenedSource): Promise<HistoricalMeta | undefined> {
  const { clocks, signal } = opened;
  switch (opened.kind) {
    case 'sql': {
      const statement = buildPage(opened.job, wholeDay(formatWallDate(clocks.ownNow())), 'closed');
      return (await opened.source.ask(statement, { testMode: true, signal })).meta;
    }
    case 'snapshots':
      // One symbol is enough to check access.
      for (const symbol of opened.job.source.symbols.slice(0, 1)) await opened.source.greet(symbol, signal);
      return undefined;
    case 'table':
      await opened.source.describe(signal);
      return undefined;
    default:
      return opened satisfies never;
  }
}

function describeSkew(check: string, { source, clocks }: OpenedSource): Finding {
  if (!clocks.isChecked) {
    return warn(
      check,
      "FLOWDROP_CLOCK=source: the source's clock alone decides what is sealed",
      'Unset it, unless this is a rehearsal against a service whose clock was set.',
    );
  }
  if (!source.tellsTime()) {
    return warn(
      check,
      'the source sends no time (its answers have no valid Date header)',
      'Runs use this clock and the rows of the source. Check the proxies between here and the API.',
    );
  }
  const skewMs = source.serverNow() - clocks.ownNow();
  const away = Math.abs(skewMs);
  const seconds = (away / 1000).toFixed(away < 10_000 ? 1 : 0);
  if (away <= NOTABLE_SKEW_MS) return ok(check, 'this clock and that of the source agree within 2 s');
  return (away > BROKEN_SKEW_MS ? fail : warn)(
    check,
    `this clock is ${seconds} s ${skewMs > 0 ? 'behind' : 'ahead of'} that of the source`,
    'Set the clock of this machine by NTP (timedatectl, chrony). If the clocks are 2 minutes apart, runs hold back the dates they disagree on. S3 refuses requests that are 15 minutes off.',
  );
}

/** The third witness: the newest row must be as old as the clocks expect, neither older nor newer. */
async function checkNewest(check: string, opened: OpenedSource): Promise<Findings> {
  const { calendar, clocks, signal } = opened;
  const date = lookbackOf(opened.job, clocks.earliest(), calendar).lastSettled;
  if (opened.kind !== 'sql' || date === undefined || !clocks.isChecked) return [];
  const sql = buildNewest(opened.job, date, calendar);
  let page: Page;
  try {
    page = await opened.source.ask(sql, { signal });
  } catch (error) {
    if (!(error instanceof SourceFault) || !isRefusal(error)) throw error;
    return [ok(check, 'the API did not return it; runs use the clocks and their own rows')];
  }
  const newest = String(page.firstRow?.['newest'] ?? '');
  const [, day = '', time = ''] = /^(\S+) (\d\d:\d\d:\d\d)/.exec(newest) ?? [];
  if (day < date) {
    const seen = `no rows from the end of ${date}, although the clocks say that the session is over`;
    const next = 'The source lags, or both clocks are fast. Runs hold the date back until its last rows arrive.';
    return [warn(check, seen, next)];
  }
  const rowMs = visibleSince(day, parseSecond(time));
  clocks.see(rowMs);
  const conflict = clocks.conflict();
  if (conflict === undefined || rowMs <= clocks.ownNow() + MAX_CLOCK_SKEW_MS) {
    return [ok(check, `it is from ${newest} (exchange time), which agrees with the clocks`)];
  }
  return [fail(check, conflict, 'Correct the slow clock; until then runs hold dates back.')];
}

function describeLimits(check: string, meta: HistoricalMeta): Finding {
  const { lookback_days: days, minimum_data_delay_minutes: delay, row_limit: rows, entitlement, capped } = meta;
  const seen = [
    days === undefined ? 'lookback unknown' : `${days} days of lookback`,
    `rows at least ${delay} minutes old`,
    `${formatCount(rows)} rows per answer`,
    `entitlement ${entitlement}${capped ? ', rows capped' : ''}`,
  ].join(', ');
  const isLikely = (days === undefined || (days >= 1 && days <= MAX_DAYS)) && delay >= 0 && delay <= MAX_DELAY_MINUTES;
  if (!isLikely) {
    const next = `This cannot be right. Runs use the contract: ${LOOKBACK_DAYS} days and ${MINIMUM_DATA_DELAY_MINUTES} minutes. Tell the provider.`;
    return warn(check, seen, next);
  }
  const notes = [
    days !== undefined &&
      days < LOOKBACK_DAYS &&
      `Dates expire after ${days} days, not ${LOOKBACK_DAYS}: repair failed runs before that.`,
    delay > MINIMUM_DATA_DELAY_MINUTES &&
      `Rows come ${delay} minutes late, not ${MINIMUM_DATA_DELAY_MINUTES}: schedule the job later.`,
    rows < FEW_PAGE_ROWS && 'So few rows in an answer are unusable: runs fail large dates at once. Ask the provider.',
    capped && `The trial caps an answer at ${formatCount(rows)} rows: dates are complete, with more requests.`,
  ].filter((note) => note !== false);
  return notes.length === 0 ? ok(check, seen) : warn(check, seen, notes.join(' '));
}
