/**
 * One message to operators: the document that a webhook receives, and the mail made from it. Invariants: it
 * decides nothing; in the text for chat tools no value can mention people or create a link. In the mail times are the exchange's, as
 * on the page and in `status`; in the document UTC, as in logs.
 */

import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { countOf } from '../core/units.ts';
import { renderTemplate } from '../report/template.ts';
import { type AlertWords, type Cause, SEVERITIES, severityOf } from './cause-table.ts';

/** A cause in a message. The id stays the same while the cause lasts, and if it returns. */
type Alert = Pick<Cause, 'id' | 'kind' | 'date' | 'code'> & AlertWords & { readonly first_seen: string };

/** The template's file name without extension: `alert.mjml` and `alert.txt`. */
const TEMPLATE = 'alert';
/** If a job fails for many dates at once, a message that lists them all would be too long; chat tools refuse it. */
const MAX_SHOWN = 20;

export type Notice = ReturnType<typeof buildNotice>;

/**
 * Version 1: fields for programs, and `text` for chat tools that show that field (Slack, Mattermost, Rocket.Chat, Teams).
 * @param occasion `id`: the same if the same news is sent again, so that a receiver can drop the repetition; `at`: ISO 8601
 *   in UTC; `place`: address of the job's drops; `run`: id of the run that sends it, as in the log
 * @param found most severe come first; otherwise the order is kept
 * @param over sent earlier, and over now
 */
export function buildNotice(
  occasion: Readonly<Record<'id' | 'at' | 'job' | 'dataset' | 'place', string>> & { readonly run?: string | undefined },
  found: readonly Alert[],
  over: readonly Alert[],
) {
  const { id, at, job, dataset, place, run } = occasion;
  const describe = ({ id: alert, kind, date, code, title, what, next, first_seen: since }: Alert) => {
    return { id: alert, kind, severity: severityOf(kind), date, code, title, what, next, since };
  };
  const rankOf = ({ severity }: ReturnType<typeof describe>) => SEVERITIES.indexOf(severity);
  const alerts = found.map(describe).sort((a, b) => rankOf(a) - rankOf(b));
  const recovered = over.map((alert) => ({ ...describe(alert), until: at }));
  const lines = [
    ...alerts.flatMap((alert) => [
      `[${alert.severity}] ${alert.title}`,
      `    ${alert.what}`,
      `    Next: ${alert.next}`,
    ]),
    ...recovered.map((alert) => `[recovered] ${alert.title}`),
  ];
  const shown = lines.slice(0, 3 * MAX_SHOWN);
  const rest = lines.length > shown.length ? [`... and more: flowdrop status ${job}`] : [];
  const head = { version: 1, id, at, job, dataset, place, run } as const;
  const subject = formatSubject({ job, alerts, recovered });
  const text = [...[`flowdrop ${subject}`, ...shown].map(escapeChat), ...rest].join('\n');
  return { ...head, text, alerts, recovered };
}

/** One line: `[critical] nightly-trades: 2026-11-03 expired before it was sealed (and 2 more)`. */
function formatSubject({ job, alerts, recovered }: Pick<Notice, 'job' | 'alerts' | 'recovered'>): string {
  const [first] = alerts;
  const more = (count: number) => (count > 1 ? ` (and ${count - 1} more)` : '');
  const text = first
    ? `[${first.severity}] ${job}: ${first.title}${more(alerts.length)}`
    : `[recovered] ${job}: ${recovered[0]?.title ?? ''}${more(recovered.length)}`;
  // Printable ASCII looks the same everywhere and cannot hide anything.
  return text
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim()
    .slice(0, 160);
}

/** Slack's escapes disable `<!channel>` and `<url|name>`; the other tools mention people with `@`. */
function escapeChat(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replace(/@(?=(?:all|channel|everyone|here)\b)/gi, '@\u200b')
    .replace(/\]\(/g, '] (');
}

/** @throws Fault `TEMPLATE_INVALID` (kind `usage`) if a template is missing or invalid */
export async function renderNotice(notice: Notice, templatesDir: string) {
  const { job, dataset, place, run, at, alerts, recovered } = notice;
  const subject = formatSubject(notice);
  const counts = [
    alerts.length > 0 ? countOf(alerts.length, 'alert') : '',
    recovered.length > 0 ? `${recovered.length} recovered` : '',
  ];
  /** The finished texts that the templates print. */
  const view = {
    ...{ subject, job, dataset, place, run, at: formatInstant(at, EXCHANGE_TIME_ZONE) },
    preview: alerts[0]?.next.replaceAll('`', '') ?? 'There is nothing left to do.',
    heading: counts.filter(Boolean).join(', '),
    alerts: alerts.slice(0, MAX_SHOWN).map(buildEntry),
    alertsLeftOut: Math.max(0, alerts.length - MAX_SHOWN),
    recovered: recovered.slice(0, MAX_SHOWN).map(buildEntry),
    recoveredLeftOut: Math.max(0, recovered.length - MAX_SHOWN),
  };
  const folders = { shipped: templatesDir, own: null };
  return {
    subject,
    html: await renderTemplate(folders, `${TEMPLATE}.mjml`, view),
    text: await renderTemplate(folders, `${TEMPLATE}.txt`, view),
  };
}

function buildEntry({ id, severity, title, what, next, since }: Notice['alerts'][number]) {
  return {
    ...{ id, severity, title, what },
    label: severity.toUpperCase(),
    /** Pieces of the next step, so that a template can highlight commands. */
    steps: next
      .split('`')
      .map((text, index) => ({ isCommand: index % 2 === 1, text }))
      .filter(({ text }) => text !== ''),
    next: next.replaceAll('`', ''),
    since: formatInstant(since, EXCHANGE_TIME_ZONE),
  };
}
