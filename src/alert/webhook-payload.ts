/**
 * The document that a webhook receives (version 1): fields for programs, and `text` for chat tools that show that field
 * (Slack, Mattermost, Rocket.Chat, Teams). Invariant: no value in `text` can mention people or create a link. Pure.
 */
import { type Alert, type AlertNotice, formatAlertSubject, sortAlerts } from '../report/alert-mail.ts';

export interface AlertPayload {
  readonly version: 1;
  /** The same id if the same news is sent again, so that a receiver can drop the repetition. */
  readonly id: string;
  readonly at: string;
  readonly job: string;
  readonly dataset: string;
  readonly place: string;
  /** Id of the run that sends it, as in the log; absent if unknown. */
  readonly run?: string | undefined;
  readonly text: string;
  readonly alerts: readonly Alert[];
  readonly recovered: readonly (Alert & { readonly until: string })[];
}

/** Chat tools truncate or refuse longer texts. */
const MAX_LINES = 20;

export function buildAlertPayload(notice: AlertNotice, id: string): AlertPayload {
  const { at, job, dataset, place, run } = notice;
  const alerts = sortAlerts(notice.alerts);
  const recovered = notice.recovered.map((alert) => ({ ...alert, until: at }));
  const lines = [
    ...alerts.flatMap((alert) => [
      `[${alert.severity}] ${escapeChat(alert.title)}`,
      `    ${escapeChat(alert.what)}`,
      `    Next: ${escapeChat(alert.next)}`,
    ]),
    ...recovered.map((alert) => `[recovered] ${escapeChat(alert.title)}`),
  ];
  const shown = lines.slice(0, 3 * MAX_LINES);
  const rest = lines.length > shown.length ? [`... and more: flowdrop status ${job}`] : [];
  const text = [escapeChat(`flowdrop ${formatAlertSubject(notice)}`), ...shown, ...rest].join('\n');
  const about = { at, job, dataset, place, run };
  return { version: 1, id, ...about, text, alerts, recovered };
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
