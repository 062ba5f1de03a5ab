/**
 * The mail for operator alerts: subject, HTML and text about a job's new and recovered problems. Invariant: it decides
 * nothing; the notice says which alerts to send. Times are UTC, as in logs.
 */
import { formatInstant } from '../core/date-text.ts';
import { renderHtmlTemplate, renderTextTemplate } from './template.ts';

/**
 * - `critical`: rows are lost, or will be unless someone acts
 * - `error`: something failed, but nothing is lost yet
 * - `warning`: worth a look
 */
export type AlertSeverity = 'critical' | 'error' | 'warning';

export interface Alert {
  /** Stable for its cause: the same while it lasts and if it returns. */
  readonly id: string;
  readonly kind: string;
  readonly severity: AlertSeverity;
  /** Trading date concerned. */
  readonly date: string | null;
  /** Error code concerned. */
  readonly code: string | null;
  readonly title: string;
  readonly what: string;
  /** What to do now; commands are between backticks. */
  readonly next: string;
  /** When it was first seen, ISO 8601 in UTC. */
  readonly since: string;
}

/** All alerts of one mail. */
export interface AlertNotice {
  readonly job: string;
  readonly dataset: string;
  /** Address of the job's drops: the store's with the dataset. */
  readonly place: string;
  /** Id of the run that sends it, as in the log. */
  readonly run?: string | undefined;
  /** ISO 8601 in UTC. */
  readonly at: string;
  readonly alerts: readonly Alert[];
  /** Sent earlier, and over now. */
  readonly recovered: readonly Alert[];
}

/** The template's file name without extension: `alert.mjml` and `alert.txt`. */
const TEMPLATE = 'alert';
/** If a job fails for many dates at once, a mail that lists them all would be too long to read. */
const MAX_SHOWN = 20;

const SEVERITIES: readonly AlertSeverity[] = ['critical', 'error', 'warning'];

/** @throws Fault `TEMPLATE_INVALID` (kind `usage`) if a template is missing or invalid */
export async function renderAlertMail(notice: AlertNotice, templatesDir: string) {
  const view = buildAlertView(notice);
  const folders = { shipped: templatesDir, own: null };
  return {
    subject: view.subject,
    html: await renderHtmlTemplate(folders, TEMPLATE, view),
    text: await renderTextTemplate(folders, TEMPLATE, view),
  };
}

/** Most severe first; otherwise keeps the order. */
export function sortAlerts(alerts: readonly Alert[]): readonly Alert[] {
  return [...alerts].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}

/** One line: `[critical] nightly-trades: 2026-11-03 expired before it was sealed (and 2 more)`. */
export function formatAlertSubject({ job, alerts, recovered }: AlertNotice): string {
  const [first] = sortAlerts(alerts);
  const more = (count: number) => (count > 1 ? ` (and ${count - 1} more)` : '');
  if (first) return toAscii(`[${first.severity}] ${job}: ${first.title}${more(alerts.length)}`);
  return toAscii(`[recovered] ${job}: ${recovered[0]?.title ?? ''}${more(recovered.length)}`);
}

/** The finished texts that the templates print. */
function buildAlertView(notice: AlertNotice) {
  const alerts = sortAlerts(notice.alerts);
  const subject = formatAlertSubject(notice);
  return {
    subject,
    preview: alerts[0]?.next.replaceAll('`', '') ?? 'There is nothing left to do.',
    job: notice.job,
    dataset: notice.dataset,
    place: notice.place,
    run: notice.run,
    at: formatInstant(notice.at, 'UTC'),
    heading: formatHeading(alerts.length, notice.recovered.length),
    alerts: alerts.slice(0, MAX_SHOWN).map(buildEntry),
    alertsLeftOut: Math.max(0, alerts.length - MAX_SHOWN),
    recovered: notice.recovered.slice(0, MAX_SHOWN).map(buildEntry),
    recoveredLeftOut: Math.max(0, notice.recovered.length - MAX_SHOWN),
  };
}

function buildEntry(alert: Alert) {
  return {
    severity: alert.severity,
    label: alert.severity.toUpperCase(),
    title: alert.title,
    what: alert.what,
    /** Pieces of the next step, so that a template can highlight commands. */
    steps: alert.next
      .split('`')
      .map((text, index) => ({ isCommand: index % 2 === 1, text }))
      .filter(({ text }) => text !== ''),
    next: alert.next.replaceAll('`', ''),
    since: formatInstant(alert.since, 'UTC'),
    id: alert.id,
  };
}

function formatHeading(alerts: number, recovered: number): string {
  const parts = [
    alerts > 0 ? `${alerts} ${alerts === 1 ? 'alert' : 'alerts'}` : '',
    recovered > 0 ? `${recovered} recovered` : '',
  ];
  return parts.filter(Boolean).join(', ');
}

/** A printable ASCII subject looks the same everywhere and cannot hide anything. */
function toAscii(text: string): string {
  return text
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, 160);
}
