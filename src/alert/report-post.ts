/**
 * The summary of a mailed report that is posted: its subject, sentences and numbers, a link, and a picture. Made of the copy
 * in the store, so that a run that was killed after the mail is made up for. Invariant: it says of the numbers what the mail
 * says, marks included, and is small enough for chat tools.
 */
import type { Log } from '../core/log.ts';
import { reportPath } from '../core/report-page.ts';
import { type ArchivePlace, pageKeyOf, readArchivedParts } from '../deliver/archive-report.ts';
import { listReports } from '../deliver/content.ts';
import type { JobReport } from '../job/job.ts';
import { buildSessionChart } from '../report/draw/chart.ts';
import { LIGHT } from '../report/draw/palette.ts';
import { renderPicture } from '../report/draw/picture.ts';
import { formatNumber } from '../report/key-numbers.ts';
import type { FlowReport } from '../report/model.ts';
import { findNumber, readReportNumber } from '../report/number-values.ts';
import { REPORT_NUMBERS } from '../report/numbers.ts';
import { describeSession } from '../report/text/captions.ts';
import {
  buildDigestView,
  buildFlowView,
  type DigestPart,
  type FlowView,
  type ViewOptions,
} from '../report/text/mail-view.ts';
import type { Store } from '../store/store.ts';
import { addressOf, type CloudEvent } from './cloud-event.ts';

/** Base64 makes 24 kB of it; a message to Teams has at most 28 kB. */
export const MAX_PICTURE_BYTES = 18_000;
/** Half the width of the picture, pixels: the largest that stays below that. */
const PICTURE_WIDTH = 300;

interface PostContext {
  readonly store: Store;
  readonly log: Log;
  readonly publicUrl: string | undefined;
}

interface Occasion {
  readonly late: boolean;
  readonly corrected: boolean;
}

/** `undefined` if the store has no readable copy of the report. @throws StoreFault */
export async function summarizeReport(
  context: PostContext,
  report: JobReport,
  place: ArchivePlace,
  occasion: Occasion,
): Promise<CloudEvent['data'] | undefined> {
  const parts = await readArchivedParts(context.store, context.log, place);
  if (parts === undefined) return undefined;
  const options = createOptions(report, occasion);
  const { subject, views } = buildViews(report, parts, options);
  const reports = listReports(parts);
  return {
    subject,
    text: [subject, ...views.flatMap(({ title, view }) => describePart(title, view, views.length > 1))].join('\n'),
    numbers: Object.fromEntries(reports.map((one) => [one.drop.dataset, listNumbers(one)])),
    link: context.publicUrl === undefined ? null : `${context.publicUrl}${reportPath(place.job, place)}`,
    page: addressOf(context.store.url, pageKeyOf(place, '')),
    picture: await drawPicture(reports),
  };
}

function createOptions({ to, look }: JobReport, { late, corrected }: Occasion): ViewOptions {
  return {
    ...{ timezone: to[0]?.timezone ?? 'UTC', link: null, late, look: { ...look, logo: null } },
    correction: corrected ? { fromRevision: 0, changes: [] } : null,
  };
}

interface Part {
  readonly title: string;
  /** Null: not sealed yet. */
  readonly view: FlowView | null;
}

function buildViews(
  { template }: JobReport,
  parts: readonly DigestPart[],
  options: ViewOptions,
): { readonly subject: string; readonly views: readonly Part[] } {
  const [first] = parts;
  if (template === 'flow' && first !== undefined && 'report' in first) {
    const view = buildFlowView(first.report, options);
    return { subject: view.subject, views: [{ title: first.title, view }] };
  }
  const digest = buildDigestView(parts, options);
  return { subject: digest.subject, views: digest.parts.map(({ title, flow }) => ({ title, view: flow })) };
}

function describePart(title: string, view: FlowView | null, isNamed: boolean): readonly string[] {
  const name = isNamed ? `${title}: ` : '';
  if (view === null) return [`${name}not sealed yet.`];
  const { stamp, sentences, lead } = view;
  const reason = stamp.reason === '' ? '' : ` ${stamp.reason}.`;
  return [
    ...(stamp.complete ? [] : [`${name}This day is not verified as complete.${reason}`]),
    ...sentences.map((sentence) => `${name}${sentence}`),
    ...(lead === null ? [] : [`${name}Net GEX ${lead.symbol} ${lead.netGex} per 1% move, ${lead.basis}.`]),
  ];
}

/** By name. Without net GEX: of which contracts it is, only the text says. */
function listNumbers(report: FlowReport) {
  const names = REPORT_NUMBERS.filter((name) => name !== 'net_gex');
  return Object.fromEntries(
    names.map((name) => {
      const { label, unit } = findNumber(name);
      const value = readReportNumber(report, name);
      return [name, { label, value, text: formatNumber(value, unit) }];
    }),
  );
}

/** The first report's day; null without trades, or if it were too large. */
async function drawPicture(reports: readonly FlowReport[]) {
  const report = reports.find(({ headline }) => headline.trades > 0);
  if (report === undefined) return null;
  const { halfHours, headline } = report;
  const png = await renderPicture(buildSessionChart(halfHours, LIGHT), PICTURE_WIDTH);
  if (png.length > MAX_PICTURE_BYTES) return null;
  return {
    type: 'image/png',
    alt: `Premium per half hour, stacked by sentiment. ${describeSession(halfHours, headline.total)}`,
    base64: Buffer.from(png).toString('base64'),
  };
}
