/**
 * The report as the templates print it: every number is already a text, every text of the data already clean. Pure.
 * Designers change the templates; a change of what is printed starts here. The template engine does the escaping.
 */
import { formatDay, formatInstant } from '../../core/date-text.ts';
import { countOf, formatCount, formatDecimal, formatDollars, formatSignedDollars } from '../../core/units.ts';
import { type Amount, clearLeanOf, leanOf, shareOf } from '../amount.ts';
import { buildAccent } from '../draw/palette.ts';
import { buildChangeRows, describeTotalChange, hasMedian, nameSessions } from '../key-numbers.ts';
import { chooseSections, cleanNote, MAIL_SECTIONS, type ReportLook, USUAL_LOOK } from '../look.ts';
import type { Exclusions, FlowReport, SymbolFlow, Tally, WatchedSymbol } from '../model.ts';
import type { Premium } from '../numbers.ts';
import {
  buildLead,
  describeAfter,
  describeBasis,
  describeEarnings,
  describeMembers,
  describeSession,
  describeStrikes,
} from './captions.ts';
import {
  cleanLabel,
  cleanLine,
  formatPart,
  formatRatio,
  formatTimes,
  formatWallClock,
  isSameDollars,
  NONE,
  nameSymbol,
  type Tone,
  toneOf,
} from './label.ts';
import { buildSentences, nameDriver } from './sentences.ts';
import {
  buildDigestSubject,
  buildOwnSubject,
  buildSubject,
  describeCalls,
  describeLean,
  fillWords,
} from './subject.ts';

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
  const sentences = buildSentences(report);
  const occasion = { late: options.late, corrected: options.correction !== null };
  const { subject, sections } = options.look ?? USUAL_LOOK;
  return {
    subject:
      subject === null
        ? buildSubject(report, occasion)
        : buildOwnSubject(subject, [report], { date: drop.date, pending: 0, occasion }),
    ...buildLook([report], drop.date, options),
    sections: chooseSections(MAIL_SECTIONS, (section) => section, sections),
    preview: buildPreview(report, sentences),
    job: cleanLabel(report.job),
    dataset: cleanLabel(drop.dataset),
    date: cleanLabel(drop.date),
    day: formatDay(drop.date),
    stamp: buildStamp(report, options.timezone),
    late: options.late,
    correction: buildCorrection(options),
    empty,
    premium: headline.total === null ? UNKNOWN : formatDollars(headline.total),
    // Compared with the session before and the median; empty without history.
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
    lead: buildLead(exposure, comparison, drop.date),
    sentences,
    keyNumbers: buildChangeRows(comparison),
    sessions: nameSessions(comparison, drop.date),
    hasMedian: hasMedian(comparison),
    hasHistory: comparison.previousDate !== null,
    keyNote: KEY_NOTE,
    watchlist: report.watchlist.map(buildWatchRow),
    // Empty without exposure.
    watchlistBasis: [
      ...describeMembers(report.watchlist),
      describeBasis(report.watchlist.flatMap(({ exposure: own }) => own ?? [])),
      ...describeAfter(report.watchlist.flatMap(({ exposure: own }) => own ?? [])),
    ].join(' '),
    watchlistLeftOut: report.watchlistLeftOut === 0 ? '' : formatCount(report.watchlistLeftOut),
    sessionFinding: describeSession(report.halfHours, headline.total),
    symbols: report.topSymbols.map(printFlow),
    moved: report.drivers.top.map((row) => ({
      ...{ title: nameDriver(row, drop.date), premium: formatDollars(row.premium) },
      ...printLean(row),
    })),
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

/** The line that mail programs show after the subject: the change of the day, and its cause. */
function buildPreview(report: FlowReport, sentences: readonly string[]): string {
  const changes = describeTotalChange(report.comparison, report.drop.date).join(', ');
  return [changes === '' ? '' : `Premium ${changes}.`, ...sentences].filter(Boolean).slice(0, 3).join(' ');
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
export function buildStamp({ drop }: FlowReport, timezone: string) {
  const complete = drop.condition === 'available';
  const covered = drop.through === undefined ? 'Complete' : `Complete to ${drop.through}`;
  const doubts = (drop.doubts ?? []).map(cleanLine).join('; ');
  const isUsual = complete && doubts === '';
  return {
    label: !complete ? 'Degraded' : isUsual ? covered : `${covered} at the source, unusual`,
    // What readers must know before the numbers; null on a usual day.
    notice: isUsual ? null : describeNotice(complete, cleanLine(drop.degraded_reason ?? ''), doubts),
    // What happened at `sealedAt`.
    done: complete ? 'verified' : 'sealed',
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

function describeNotice(complete: boolean, reason: string, doubts: string) {
  if (complete) return { title: 'Complete at the source, but unlike other days:', text: `${doubts}.` };
  const unlike = doubts === '' ? '' : `It is unlike other days: ${doubts}.`;
  const said = ['Rows may be missing or differ from the source’s.', reason && `${reason}.`, unlike];
  return { title: 'This day is not verified as complete.', text: said.filter(Boolean).join(' ') };
}

/** The correction of a flow report or a digest. */
function buildCorrection({ correction }: ViewOptions) {
  if (correction === null) return null;
  const changes = correction.changes.map(({ name, before, after }) => ({
    name: cleanLabel(name),
    before: cleanLabel(before),
    after: cleanLabel(after),
  }));
  // Without changes, the mailed report cannot be compared, so the whole report is shown.
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

/** Bullish, neutral, bearish, in this order, with widths in whole percent: all 0 if the premium is 0 or unknown. */
export function buildBar(premium: Premium) {
  const bullish = toWidth(premium.bullish, premium.total);
  const bearish = Math.min(toWidth(premium.bearish, premium.total), 100 - bullish);
  const { total } = premium;
  // Premium with an unknown sentiment is not part of the bar.
  const coded = [premium.bullish, premium.neutral, premium.bearish].reduce<Amount>(
    (sum, part) => (sum === null || part === null ? null : sum + part),
    0,
  );
  const isWhole = total !== null && coded !== null && isSameDollars(coded, total);
  const rest = 100 - bullish - bearish;
  const neutral = total === null || total <= 0 ? 0 : isWhole ? rest : Math.min(rest, toWidth(premium.neutral, total));
  const segment = (tone: Tone, name: string, width: number) => {
    return {
      tone,
      name,
      width,
      dollars: formatDollars(premium[tone]),
      share: formatPart(shareOf(premium[tone], total)),
    };
  };
  return [
    segment('bullish', 'Bullish', bullish),
    segment('neutral', 'Neutral', neutral),
    segment('bearish', 'Bearish', bearish),
  ];
}

function toWidth(part: Amount, whole: Amount): number {
  return Math.min(100, Math.max(0, Math.round((shareOf(part, whole) ?? 0) * 100)));
}

/** Bullish minus bearish premium with its sign; `tone` says which is larger. */
function printLean(premium: Pick<Premium, 'bullish' | 'bearish'>) {
  const lean = leanOf(premium);
  return { lean: formatSignedDollars(lean), tone: toneOf(lean) };
}

function printFlow(flow: SymbolFlow) {
  const { symbol, total, putCallByPremium } = flow;
  return {
    ...{ symbol: nameSymbol(symbol), premium: formatDollars(total), putCall: formatRatio(putCallByPremium) },
    ...printLean(flow),
  };
}

const FAR_RATIO = 2;

function buildWatchRow({ symbol, flow, exposure, unusual }: WatchedSymbol) {
  const priced = exposure !== null && exposure.spot !== null;
  const ratio = unusual?.ratio ?? 1;
  return {
    ...{ premium: NONE, putCall: NONE, lean: NONE, tone: toneOf(null) },
    ...(flow && printFlow(flow)),
    symbol: nameSymbol(symbol),
    traded: flow !== null,
    place: flow === null ? NONE : `#${formatCount(flow.place)}`,
    gex: priced ? formatSignedDollars(exposure.netGex) : NONE,
    // Empty where no contract expires this day.
    gexAfter: priced && exposure.endedContracts > 0 ? formatSignedDollars(exposure.netGexAfter) : '',
    zeroGamma: priced && exposure.zeroGamma !== null ? formatDecimal(exposure.zeroGamma) : NONE,
    // Empty also where it is none before and after.
    zeroGammaAfter:
      !priced || exposure.endedContracts === 0 || (exposure.zeroGamma === null && exposure.zeroGammaAfter === null)
        ? ''
        : exposure.zeroGammaAfter === null
          ? 'none'
          : formatDecimal(exposure.zeroGammaAfter),
    // `4.3 ×` its median, if that is twice its median or more, half of it or less: a smaller difference is noise.
    unusual: ratio >= FAR_RATIO || ratio <= 1 / FAR_RATIO ? formatTimes(ratio) : '',
  };
}

/** One row per kind of records left out, between the counted records and the total of the file. */
export function buildExclusionRows(counted: Premium, left: Exclusions) {
  const row = (name: string, { trades, premium }: Tally) => ({
    name,
    trades: formatCount(trades),
    premium: formatDollars(premium),
  });
  return [
    row('Counted above', { trades: counted.trades, premium: counted.total }),
    row('Cancel messages', left.cancelMessages),
    row('Prints they cancel', left.cancelledPrints),
    row('Late reports', left.lateReports),
    ...(left.otherHours.trades === 0 ? [] : [row('Overnight and curb', left.otherHours)]),
    row('Recorded in the file', left.recorded),
  ];
}

export type DigestPart =
  | { readonly title: string; readonly report: FlowReport }
  | {
      readonly title: string;
      /** The date that is not sealed yet. */
      readonly pending: string;
    };

/** The models of the sealed parts. */
export function listReports(parts: readonly DigestPart[]): readonly FlowReport[] {
  return parts.flatMap((part) => ('report' in part ? [part.report] : []));
}

/** The newest date of the parts. */
export function dateOf(parts: readonly DigestPart[]): string {
  const dates = parts.map((part) => ('report' in part ? part.report.drop.date : part.pending));
  return dates.sort().at(-1) ?? '';
}

/** The digest: short reports of several datasets. A pending part has no numbers: nothing is computed from half a day. */
export function buildDigestView(parts: readonly DigestPart[], options: ViewOptions) {
  const reports = listReports(parts);
  const date = dateOf(parts);
  const views = parts.map((part) => buildPartView(part, options));
  const pending = parts.length - reports.length;
  const occasion = { late: options.late, corrected: options.correction !== null };
  const { subject } = options.look ?? USUAL_LOOK;
  return {
    subject:
      subject === null
        ? buildDigestSubject(date, reports, pending, occasion)
        : buildOwnSubject(subject, reports, { date, pending, occasion }),
    ...buildLook(reports, date, options),
    preview: views.map((view) => `${view.title}: ${view.flow === null ? 'pending' : view.flow.premium}`).join(', '),
    date: cleanLabel(date),
    day: formatDay(date),
    late: options.late,
    correction: buildCorrection(options),
    parts: views,
  };
}

function buildPartView(part: DigestPart, options: ViewOptions) {
  const title = cleanLabel(part.title);
  return 'report' in part
    ? { title, pending: '', flow: buildFlowView(part.report, options) }
    : { title, pending: formatDay(part.pending), flow: null };
}
