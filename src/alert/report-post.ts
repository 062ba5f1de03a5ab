/**
 * The summary of a mailed report that is posted: its subject, sentences and numbers, a link, and a picture. Made of the copy
 * in the store, so that a run that was killed after the mail is made up for. Invariant: it says of the numbers what the mail
 * says, marks included, and is small enough for chat tools.
 */
import { pathToFileURL } from 'node:url';
import type { Log } from '../core/log.ts';
import { reportPath } from '../core/report-page.ts';
import { pageKeyOf, type ReportPlace, readArchivedParts } from '../deliver/report-copies.ts';
import type { JobReport } from '../job/job.ts';
import { buildSessionChart } from '../report/draw/chart.ts';
import { LIGHT } from '../report/draw/palette.ts';
import { renderPicture } from '../report/draw/picture.ts';
import { buildWeekChart } from '../report/draw/week-chart.ts';
import { formatNumber } from '../report/key-numbers.ts';
import type { FlowReport } from '../report/model.ts';
import { findNumber, readReportNumber } from '../report/number-values.ts';
import { REPORT_NUMBERS } from '../report/numbers.ts';
import { describeSession } from '../report/text/captions.ts';
import { buildDigestView, type FlowView, listReports } from '../report/text/mail-view.ts';
import { asWeek, describeDays } from '../report/text/week-view.ts';
import type { Store } from '../store/store.ts';
import type { CloudEvent } from './outbox.ts';

/** Base64 makes 24 kB of it; a message to Teams has at most 28 kB. */
export const MAX_PICTURE_BYTES = 18_000;
/** Half the width of the picture, pixels: the largest that stays below that. */
const PICTURE_WIDTH = 300;

/**
 * `undefined` if the store has no readable copy of the report.
 * @param occasion `publicUrl`: address of the status page for readers; `undefined` if they cannot reach it
 * @throws StoreFault
 */
export async function summarizeReport(
  store: Store,
  log: Log,
  report: JobReport,
  place: ReportPlace,
  occasion: { readonly late: boolean; readonly corrected: boolean; readonly publicUrl: string | undefined },
): Promise<CloudEvent['data'] | undefined> {
  const parts = await readArchivedParts(store, log, place);
  if (parts === undefined) return undefined;
  const { late, corrected, publicUrl } = occasion;
  const options = {
    ...{ timezone: report.to[0]?.timezone ?? 'UTC', link: null, late, look: { ...report.look, logo: null } },
    correction: corrected ? { fromRevision: 0, changes: [] } : null,
  };
  const digest = buildDigestView(parts, options);
  const [first] = digest.parts;
  const subject = (report.template !== 'digest' && first?.flow?.subject) || digest.subject;
  const reports = listReports(parts);
  return {
    subject,
    text: [
      subject,
      ...digest.parts.flatMap(({ title, flow }) => describePart(parts.length > 1 ? `${title}: ` : '', flow)),
    ].join('\n'),
    numbers: Object.fromEntries(reports.map((one) => [one.drop.dataset, listNumbers(one)])),
    link: publicUrl === undefined ? null : `${publicUrl}${reportPath(place.job, place)}`,
    page: addressOf(store.url, pageKeyOf(place, '')),
    picture: await drawPicture(reports),
  };
}

/** @param view null: not sealed yet */
function describePart(name: string, view: FlowView | null): readonly string[] {
  if (view === null) return [`${name}not sealed yet.`];
  const { stamp, sentences, lead } = view;
  const after = lead?.netGexAfter ? `; ${lead.netGexAfter} after expiration` : '';
  return [
    ...(stamp.notice === null ? [] : [`${name}${stamp.notice.title} ${stamp.notice.text}`]),
    ...sentences.map((sentence) => `${name}${sentence}`),
    ...(lead === null ? [] : [`${name}Net GEX ${lead.symbol} ${lead.netGex} per 1% move, ${lead.basis}${after}.`]),
  ];
}

/** By name; of a week those that are of it. Without net GEX: of which contracts it is, only the text says. */
function listNumbers(report: FlowReport) {
  const { week } = report;
  const names = REPORT_NUMBERS.filter((name) => {
    const { key, quotient = [key] } = findNumber(name);
    return week ? quotient.every((sum) => Object.hasOwn(week.sums, sum)) : !name.startsWith('net_gex');
  });
  const shown = week ? asWeek(report, week) : report;
  return Object.fromEntries(
    names.map((name) => {
      const { label, unit } = findNumber(name);
      const value = readReportNumber(shown, name);
      return [name, { label, value, text: formatNumber(value, unit) }];
    }),
  );
}

/** The first report's day; null without trades, or if it were too large. */
async function drawPicture(reports: readonly FlowReport[]) {
  const report = reports.find(({ headline, week }) => headline.trades > 0 || week);
  if (report === undefined) return null;
  const { halfHours, headline, week } = report;
  // All charts of a week would be too large.
  const chart = week ? buildWeekChart(week, LIGHT, 1) : buildSessionChart(halfHours, LIGHT);
  const png = await renderPicture(chart, PICTURE_WIDTH);
  if (png.length > MAX_PICTURE_BYTES) return null;
  const finding = week ? describeDays(week) : describeSession(halfHours, headline.total);
  return {
    type: 'image/png',
    alt: `Premium ${week ? 'of each day' : 'per half hour, stacked by sentiment'}. ${finding}`,
    base64: Buffer.from(png).toString('base64'),
  };
}

/** URL of an object, of a store in a directory too. */
export function addressOf(storeUrl: string, key: string): string {
  const root = storeUrl.includes('://') ? storeUrl : pathToFileURL(storeUrl).href;
  return `${root}/${key}`;
}
