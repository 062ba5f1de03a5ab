/**
 * The mail that tells operators what is wrong with a job, and what is right again: subject, HTML and text. Invariant: it
 * decides nothing; which causes are told, and to whom, comes in with the notice. Times are UTC, as in logs.
 */
import { renderHtmlTemplate, renderTextTemplate } from './template.ts';
import { formatInstant } from './text/label.ts';

/**
 * - `critical`: rows are lost, or will be unless somebody acts
 * - `error`: something failed, and nothing is lost yet
 * - `warning`: worth a look
 */
export type AlertSeverity = 'critical' | 'error' | 'warning';

export interface Alert {
  /** Stable for its cause: the same for as long as it lasts, and when it comes back. */
  readonly id: string;
  readonly kind: string;
  readonly severity: AlertSeverity;
  /** Trading date that it is about. */
  readonly date: string | null;
  /** Error code that it is about. */
  readonly code: string | null;
  readonly title: string;
  readonly what: string;
  /** What to do now; commands stand between backticks. */
  readonly next: string;
  /** When it was seen first, ISO 8601 in UTC. */
  readonly since: string;
}

/** All that is told at once. */
export interface AlertNotice {
  readonly job: string;
  readonly dataset: string;
  /** Where the job's drops are: address of the store with the dataset. */
  readonly place: string;
  /** Id of the run that tells it, as in the log. */
  readonly run?: string | undefined;
  /** ISO 8601 in UTC. */
  readonly at: string;
  readonly alerts: readonly Alert[];
  /** Told earlier, and over now. */
  readonly recovered: readonly Alert[];
}

interface RenderedAlert {
  readonly subject: string;
  readonly html: string;
  readonly text: string;
}

/** The template's file name without extension: `alert.mjml` and `alert.txt`. */
const TEMPLATE = 'alert';
/** A job that fails for many dates at once would make a mail that nobody reads to its end. */
const MAX_SHOWN = 20;

const SEVERITIES: readonly AlertSeverity[] = ['critical', 'error', 'warning'];

/** @throws Fault `TEMPLATE_INVALID` (kind `usage`) when a template is missing or wrong */
export async function renderAlertMail(notice: AlertNotice, templatesDir: string): Promise<RenderedAlert> {
  const view = buildAlertView(notice);
  return {
    subject: view.subject,
    html: await renderHtmlTemplate(templatesDir, TEMPLATE, view),
    text: await renderTextTemplate(templatesDir, TEMPLATE, view),
  };
}

/** Worst first, then in the order in which they came. */
export function sortAlerts(alerts: readonly Alert[]): readonly Alert[] {
  return [...alerts].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}

/** One line that says it all: `[critical] nightly-trades: 2026-11-03 expired before it was sealed (and 2 more)`. */
export function formatAlertSubject({ job, alerts, recovered }: AlertNotice): string {
  const [first] = sortAlerts(alerts);
  const more = (count: number) => (count > 1 ? ` (and ${count - 1} more)` : '');
  if (first) return toAscii(`[${first.severity}] ${job}: ${first.title}${more(alerts.length)}`);
  return toAscii(`[recovered] ${job}: ${recovered[0]?.title ?? ''}${more(recovered.length)}`);
}

/** What the templates print: finished texts only. */
function buildAlertView(notice: AlertNotice) {
  const alerts = sortAlerts(notice.alerts);
  const subject = formatAlertSubject(notice);
  return {
    subject,
    preview: alerts[0]?.next.replaceAll('`', '') ?? 'Nothing is left to do about it.',
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
    /** Pieces of the next step, so that a template can set commands apart. */
    steps: splitCommands(alert.next),
    next: alert.next.replaceAll('`', ''),
    since: formatInstant(alert.since, 'UTC'),
    id: alert.id,
  };
}

function splitCommands(text: string): readonly { readonly isCommand: boolean; readonly text: string }[] {
  return text
    .split('`')
    .map((piece, index) => ({ isCommand: index % 2 === 1, text: piece }))
    .filter((piece) => piece.text !== '');
}

function formatHeading(alerts: number, recovered: number): string {
  const parts = [
    alerts > 0 ? `${alerts} ${alerts === 1 ? 'alert' : 'alerts'}` : '',
    recovered > 0 ? `${recovered} recovered` : '',
  ];
  return parts.filter(Boolean).join(', ');
}

/** A subject of printable ASCII looks the same everywhere, and can hide nothing. */
function toAscii(text: string): string {
  return text
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, 160);
}
