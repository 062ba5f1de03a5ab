/**
 * The digest: short reports of several datasets in one mail. Pure. A dataset whose date is not sealed is listed as
 * pending, without numbers: nothing is computed from half a day.
 */
import { formatDay } from '../core/date-text.ts';
import { USUAL_LOOK } from './look.ts';
import type { FlowReport } from './model.ts';
import { cleanLabel } from './text/label.ts';
import {
  buildCorrection,
  buildFlowView,
  buildLook,
  type CorrectionView,
  type FlowView,
  type ViewOptions,
} from './text/mail-view.ts';
import { buildOwnSubject } from './text/own-words.ts';
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

interface DigestView extends ReturnType<typeof buildLook> {
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

function buildPartView(part: DigestPart, options: ViewOptions): DigestPartView {
  const title = cleanLabel(part.title);
  return 'report' in part
    ? { title, pending: '', flow: buildFlowView(part.report, options) }
    : { title, pending: formatDay(part.pending), flow: null };
}
