/**
 * The digest: short reports of several datasets in one mail. Pure. A dataset whose date is not sealed is listed as
 * pending, without numbers: nothing is computed from half a day.
 */
import type { FlowReport } from './model.ts';
import { cleanLabel, formatDay } from './text/label.ts';
import {
  buildCorrection,
  buildFlowView,
  type CorrectionView,
  type FlowView,
  type ViewOptions,
} from './text/mail-view.ts';
import { buildDigestSubject } from './text/subject.ts';

export type DigestPart =
  | { readonly title: string; readonly report: FlowReport }
  | {
      readonly title: string;
      /** The date that is not sealed yet. */
      readonly pending: string;
    };

interface DigestPartView {
  readonly title: string;
  /** The day that is not sealed yet; empty for a part with numbers. */
  readonly pending: string;
  /** Null if and only if the part is pending. */
  readonly flow: FlowView | null;
}

interface DigestView {
  readonly subject: string;
  readonly preview: string;
  readonly date: string;
  readonly day: string;
  readonly late: boolean;
  /** Null unless an earlier digest of the date was mailed. */
  readonly correction: CorrectionView | null;
  readonly parts: readonly DigestPartView[];
}

export function buildDigestView(parts: readonly DigestPart[], options: ViewOptions): DigestView {
  const reports = parts.flatMap((part) => ('report' in part ? [part.report] : []));
  const dates = parts.map((part) => ('report' in part ? part.report.drop.date : part.pending)).sort();
  const date = dates.at(-1) ?? '';
  const views = parts.map((part) => buildPartView(part, options));
  return {
    subject: buildDigestSubject(date, reports, parts.length - reports.length, {
      ...{ late: options.late, corrected: options.correction !== null },
    }),
    preview: views.map((view) => `${view.title}: ${view.flow === null ? 'pending' : view.flow.premium}`).join(', '),
    date: cleanLabel(date),
    day: formatDay(date),
    late: options.late,
    correction: buildCorrection(options),
    parts: views,
  };
}

function buildPartView(part: DigestPart, options: ViewOptions): DigestPartView {
  const title = cleanLabel(part.title);
  return 'report' in part
    ? { title, pending: '', flow: buildFlowView(part.report, options) }
    : { title, pending: formatDay(part.pending), flow: null };
}
