/**
 * The report as the templates print it: every number is already a text, every text of the data already clean. Pure.
 * Designers change the templates; a change of what is printed starts here. The template engine does the escaping.
 */

import { formatCount, formatDollars } from '../../core/units.ts';
import { type Amount, clearLeanOf, shareOf } from '../amount.ts';
import { buildChangeRows, describePast, describeTotalChange, hasMean, nameSessions } from '../key-numbers.ts';
import type { ExpiryBucket, FlowReport, MoneynessBucket, RebuildQuery } from '../model.ts';
import type { PremiumPart } from '../numbers.ts';
import { type MailRow, printRows } from '../report-table.ts';
import { LEANING, PARTS, UNUSUAL } from '../report-tables.ts';
import { buildBar, toneOf } from './bar.ts';
import { describeParts, describeSession, describeSymbols, describeVolumeAboveOpenInterest } from './captions.ts';
import { listConventions } from './convention.ts';
import { buildExposureView, buildLead, describeStrikes } from './exposure-text.ts';
import { cleanLabel, cleanLine, countOf, formatDay, formatInstant, formatRatio, formatWallClock } from './label.ts';
import { describeGaps } from './lacking.ts';
import { buildExclusionRows, buildTradeRow, buildWatchRow } from './row.ts';
import { buildSentences } from './sentences.ts';
import { buildPreview, buildSubject, describeLean } from './subject.ts';

export interface CorrectionView {
  /** The mailed report cannot be compared, so the whole report is shown. */
  readonly isWhole: boolean;
  readonly fromRevision: string;
  readonly changes: readonly { readonly name: string; readonly before: string; readonly after: string }[];
}

/** What a recipient's mail depends on, besides the report itself. */
export interface ViewOptions {
  /** IANA zone of the reader, for instants (sealed at, created at); trade times stay in the exchange's wall clock. */
  readonly timezone: string;
  /** Presigned download, or null. */
  readonly link: { readonly url: string; readonly expiresAt: string } | null;
  readonly late: boolean;
  /** Files that were too large to attach. */
  readonly leftOut?: readonly string[];
  /** In a correction: what changed since the mailed revision; else null. */
  readonly correction: {
    readonly fromRevision: number;
    readonly changes: readonly { readonly name: string; readonly before: string; readonly after: string }[];
  } | null;
}

/** Every text of the mail; `flow.mjml` lists them for template authors. */
export type FlowView = ReturnType<typeof buildFlowView>;

const UNKNOWN = 'cannot be computed';

/** Bucket names for readers. */
const EXPIRY_NAMES: Readonly<Record<ExpiryBucket['bucket'], string>> = {
  '0DTE': '0DTE',
  week: '1 to 7 days',
  month: '8 to 31 days',
  later: 'Over 31 days',
  unknown: 'Unknown',
};
const MONEYNESS_NAMES: Readonly<Record<MoneynessBucket['bucket'], string>> = {
  ITM: 'In the money',
  ATM: 'At the money',
  OTM: 'Out of the money',
  unknown: 'Unknown',
};

/** @param report the model; it is not changed */
export function buildFlowView(report: FlowReport, options: ViewOptions) {
  const { headline, drop, exposure, comparison } = report;
  const empty = headline.trades === 0;
  const expiries = report.expiries.filter(isShown).map((part) => ({ ...part, title: EXPIRY_NAMES[part.bucket] }));
  const moneyness = report.moneyness.filter(isShown).map((part) => ({ ...part, title: MONEYNESS_NAMES[part.bucket] }));
  return {
    subject: buildSubject(report, { late: options.late, corrected: options.correction !== null }),
    preview: buildPreview(report),
    job: cleanLabel(report.job),
    dataset: cleanLabel(drop.dataset),
    date: cleanLabel(drop.date),
    day: formatDay(drop.date),
    stamp: buildStamp(report, options.timezone),
    late: options.late,
    correction: buildCorrection(options),
    empty,
    premium: headline.total === null ? UNKNOWN : formatDollars(headline.total),
    // Compared with the session before and the mean; empty without history.
    premiumChanges: describeTotalChange(comparison, drop.date),
    trades: countOf(headline.trades, 'trade'),
    contracts: countOf(headline.contracts, 'contract'),
    symbolCount: countOf(report.symbolCount, 'symbol'),
    putCall: formatRatio(headline.putCallByPremium),
    lean: clearLeanOf(headline) === null ? UNKNOWN : describeLean(headline),
    leanTone: toneOf(clearLeanOf(headline)),
    bar: buildBar(headline),
    lead: buildLead(exposure),
    sentences: buildSentences(report),
    keyNumbers: buildChangeRows(comparison),
    sessions: nameSessions(comparison, drop.date),
    hasMean: hasMean(comparison),
    hasHistory: comparison.previousDate !== null || comparison.meanDates.length > 0,
    // Empty if no past session is degraded.
    pastNote: describePast(comparison, drop.date),
    watchlist: report.watchlist.map(buildWatchRow),
    watchlistLeftOut: report.watchlistLeftOut === 0 ? '' : formatCount(report.watchlistLeftOut),
    sessionFinding: describeSession(report.halfHours, headline.total),
    symbolsFinding: describeSymbols(report.topSymbols, report.symbolCount, headline.total),
    symbols: printRows(LEANING, report.topSymbols),
    mostBullish: printRows(LEANING, report.mostBullish),
    mostBearish: printRows(LEANING, report.mostBearish),
    unusual: printRows(
      UNUSUAL,
      report.unusual.map((row) => ({ ...row, meanSessions: comparison.meanDates.length })),
    ),
    volumeFinding: describeVolumeAboveOpenInterest(report.volumeAboveOpenInterest, headline.total),
    expiries: printParts(expiries, headline.total),
    expiryFinding: describeParts(expiries, headline.total),
    moneyness: printParts(moneyness, headline.total),
    moneynessFinding: describeParts(moneyness, headline.total),
    biggest: report.biggestTrades.map(buildTradeRow),
    exposure: buildExposureView(exposure),
    // Empty if there is no chart by strike.
    strikesFinding: exposure.lead === null || exposure.lead.strikes.length === 0 ? '' : describeStrikes(exposure.lead),
    exclusions: buildExclusionRows(headline, report.exclusions),
    unmatchedCancels:
      report.exclusions.unmatchedCancels === 0 ? '' : countOf(report.exclusions.unmatchedCancels, 'cancel message'),
    gaps: describeGaps(report),
    conventions: listConventions(report),
    location: cleanLine(drop.location),
    sha256: cleanLine(drop.sha256),
    link: buildLink(options),
    // Files that were too large to attach; empty if none.
    leftOut: (options.leftOut ?? []).map(cleanLine).join(', '),
    headlineQuery: report.rebuildQueries.find(isHeadline)?.sql ?? '',
    otherQueries: report.rebuildQueries.filter((query) => !isHeadline(query)),
    createdAt: formatInstant(report.createdAt, options.timezone),
  };
}

function printParts(parts: readonly (PremiumPart & { readonly title: string })[], total: Amount): readonly MailRow[] {
  const isNothing = total !== null && total <= 0;
  return printRows(
    PARTS,
    parts.map((part) => ({ ...part, share: isNothing ? 0 : shareOf(part.total, total) })),
  );
}

/** Shows the bucket `unknown` only if it has trades. */
function isShown({ bucket, trades }: ExpiryBucket | MoneynessBucket): boolean {
  return bucket !== 'unknown' || trades > 0;
}

function isHeadline({ table }: RebuildQuery): boolean {
  return table === 'Headline';
}

/** The completeness stamp: the state of the data in short. */
function buildStamp({ drop }: FlowReport, timezone: string) {
  const complete = drop.condition === 'available';
  return {
    label: complete ? 'Complete' : 'Degraded',
    complete,
    condition: drop.condition,
    reason: cleanLine(drop.degraded_reason ?? ''),
    revision: String(drop.revision),
    rows: countOf(drop.rows, 'row'),
    // First and last trade, exchange wall clock; empty on an empty day.
    from: formatWallClock(drop.min_time ?? '', drop.date),
    until: formatWallClock(drop.max_time ?? '', drop.date),
    sealedAt: formatInstant(drop.sealed_at, timezone),
  };
}

/** The correction of a flow report or a digest. */
export function buildCorrection({ correction }: Pick<ViewOptions, 'correction'>): CorrectionView | null {
  if (correction === null) return null;
  const changes = correction.changes.map(({ name, before, after }) => ({
    ...{ name: cleanLabel(name), before: cleanLabel(before), after: cleanLabel(after) },
  }));
  return { isWhole: changes.length === 0, fromRevision: String(correction.fromRevision), changes };
}

/** Prints only HTTP and HTTPS links: we cannot know what a link with another scheme would do. */
function buildLink({ link, timezone }: ViewOptions): ViewOptions['link'] {
  if (link === null || !/^https?:\/\//.test(link.url)) return null;
  return { url: cleanLine(link.url), expiresAt: formatInstant(link.expiresAt, timezone) };
}
