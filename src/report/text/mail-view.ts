/**
 * The report as the templates print it: every number is already a text, every text of the data already clean. Pure.
 * Designers change the templates; a change of what is printed starts here. The template engine does the escaping.
 */

import { formatDay, formatInstant } from '../../core/date-text.ts';
import { formatCount, formatDollars } from '../../core/units.ts';
import { clearLeanOf } from '../amount.ts';
import { buildAccent } from '../draw/accent.ts';
import {
  buildChangeRows,
  describePast,
  describeTotalChange,
  hasMean,
  MAIL_NUMBERS,
  nameSessions,
} from '../key-numbers.ts';
import { type ReportLook, USUAL_LOOK } from '../look.ts';
import type { FlowReport } from '../model.ts';
import { printRows } from '../report-table.ts';
import { DIGEST_SYMBOLS, MOVED } from '../report-tables.ts';
import { chooseSections, MAIL_SECTIONS } from '../section.ts';
import { buildBar, toneOf } from './bar.ts';
import { describeEarnings, describeSession } from './captions.ts';
import { buildLead, describeBasis, describeStrikes } from './exposure-text.ts';
import { cleanLabel, cleanLine, countOf, formatRatio, formatWallClock } from './label.ts';
import { cleanNote } from './note.ts';
import { buildOwnSubject, fillWords } from './own-words.ts';
import { buildWatchRow } from './row.ts';
import { buildSentences, nameDriver } from './sentences.ts';
import { buildPreview, buildSubject, describeCalls, describeLean } from './subject.ts';

export interface CorrectionView {
  /** The mailed report cannot be compared, so the whole report is shown. */
  readonly isWhole: boolean;
  readonly fromRevision: string;
  readonly changes: readonly { readonly name: string; readonly before: string; readonly after: string }[];
}

export type FullReportPlace = { readonly url: string; readonly expiresAt: string | null } | { readonly file: string };

/** What a recipient's mail depends on, besides the report itself. */
export interface ViewOptions {
  /** IANA zone of the reader, for instants (sealed at, created at); trade times stay in the exchange's wall clock. */
  readonly timezone: string;
  /** Presigned download, or null. */
  readonly link: { readonly url: string; readonly expiresAt: string } | null;
  /** How the recipient reaches the full report: a link (null: it does not expire), or an attached file. */
  readonly full?: FullReportPlace | undefined;
  readonly late: boolean;
  /** How the job file wants it to look; absent: as usual. */
  readonly look?: ReportLook | undefined;
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

/** Says of the key numbers what their names cannot. */
const KEY_NOTE = 'Net premium: bought at the ask less sold at the bid; in puts, a plus is bearish.';

/** @param report the model; it is not changed */
export function buildFlowView(report: FlowReport, options: ViewOptions) {
  const { headline, drop, exposure, comparison } = report;
  const empty = headline.trades === 0;
  const occasion = { late: options.late, corrected: options.correction !== null };
  const { subject, sections } = options.look ?? USUAL_LOOK;
  return {
    subject:
      subject === null
        ? buildSubject(report, occasion)
        : buildOwnSubject(subject, [report], { date: drop.date, pending: 0, occasion }),
    ...buildLook([report], drop.date, options),
    sections: chooseSections(MAIL_SECTIONS, (section) => section, sections),
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
    // `59% calls`; empty without premium.
    callShare: describeCalls(headline),
    putCall: formatRatio(headline.putCallByPremium),
    lean: clearLeanOf(headline) === null ? UNKNOWN : describeLean(headline),
    leanTone: toneOf(clearLeanOf(headline)),
    bar: buildBar(headline),
    lead: buildLead(exposure),
    sentences: buildSentences(report),
    keyNumbers: buildChangeRows(comparison, MAIL_NUMBERS),
    sessions: nameSessions(comparison, drop.date),
    hasMean: hasMean(comparison),
    hasHistory: comparison.previousDate !== null,
    keyNote: KEY_NOTE,
    // Empty if no past session is degraded.
    pastNote: describePast(comparison, drop.date),
    watchlist: report.watchlist.map(buildWatchRow),
    // Empty without exposure.
    watchlistBasis: describeBasis(report.watchlist.flatMap(({ exposure: own }) => own ?? [])),
    watchlistLeftOut: report.watchlistLeftOut === 0 ? '' : formatCount(report.watchlistLeftOut),
    sessionFinding: describeSession(report.halfHours, headline.total),
    symbols: printRows(DIGEST_SYMBOLS, report.topSymbols),
    moved: printRows(
      MOVED,
      report.drivers.top.map((row) => ({ ...row, title: nameDriver(row, drop.date) })),
    ),
    // Empty if none are known.
    movedEarnings: describeEarnings(report.earnings, drop.date),
    // Empty if there is no chart by strike.
    strikesFinding: exposure.lead === null || exposure.lead.strikes.length === 0 ? '' : describeStrikes(exposure.lead),
    location: cleanLine(drop.location),
    sha256: cleanLine(drop.sha256),
    full: buildFull(options, drop.date),
    link: buildLink(options, drop.date),
    // Files that were too large to attach; empty if none.
    leftOut: (options.leftOut ?? []).map(cleanLine).join(', '),
    createdAt: formatInstant(report.createdAt, options.timezone, drop.date),
  };
}

/** What the job file says about title, logo and colour, and its note as text. */
export function buildLook(reports: readonly FlowReport[], date: string, { look = USUAL_LOOK }: ViewOptions) {
  const { title, logo, accent, note } = look;
  return {
    // Empty: the template's own words.
    title: title === null ? '' : fillWords(title, reports, date),
    logo: logo && { width: logo.width, height: logo.height },
    accent: buildAccent(accent),
    noteText: cleanNote(note),
  };
}

/** The completeness stamp: the state of the data in short. */
function buildStamp({ drop }: FlowReport, timezone: string) {
  const complete = drop.condition === 'available';
  return {
    label: complete ? (drop.doubts?.length ? 'Complete, unusual' : 'Complete') : 'Degraded',
    complete,
    condition: drop.condition,
    reason: cleanLine(drop.degraded_reason ?? ''),
    revision: String(drop.revision),
    // Readers of the first one need no number.
    isRevised: drop.revision > 1,
    rows: countOf(drop.rows, 'row'),
    // First and last trade, exchange wall clock; empty on an empty day.
    from: formatWallClock(drop.min_time ?? '', drop.date),
    until: formatWallClock(drop.max_time ?? '', drop.date),
    sealedAt: formatInstant(drop.sealed_at, timezone, drop.date),
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

/** Texts that do not apply are empty; null if there is no full report. */
function buildFull({ full, timezone, look = USUAL_LOOK }: ViewOptions, date: string) {
  if (full === undefined) return null;
  const says = look.sections === null ? WHOLE_REPORT : CHOSEN_REPORT;
  if ('file' in full) return { url: '', expiresAt: '', file: cleanLine(full.file), says };
  const expiresAt = full.expiresAt === null ? '' : formatInstant(full.expiresAt, timezone, date);
  return isWebAddress(full.url) ? { url: cleanLine(full.url), expiresAt, file: '', says } : null;
}

/** What the full report has, and what it is if the job file chooses its sections. */
const WHOLE_REPORT = 'All tables, with their formulas and the queries that rebuild them';
const CHOSEN_REPORT = 'More of this day';

/** Prints only HTTP and HTTPS links: we cannot know what a link with another scheme would do. */
function buildLink({ link, timezone }: ViewOptions, date: string): ViewOptions['link'] {
  if (link === null || !isWebAddress(link.url)) return null;
  return { url: cleanLine(link.url), expiresAt: formatInstant(link.expiresAt, timezone, date) };
}

function isWebAddress(url: string): boolean {
  return /^https?:\/\//.test(url);
}
