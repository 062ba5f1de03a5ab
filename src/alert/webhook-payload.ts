/**
 * The document that a webhook gets (version 1): for programs in fields, and in `text` for chat tools that show that field
 * (Slack, Mattermost, Rocket.Chat, Teams). Invariant: no value in `text` can mention people or make a link. Pure.
 */
import { type Alert, type AlertNotice, formatAlertSubject, sortAlerts } from '../report/alert-mail.ts';

export interface AlertPayload {
  readonly version: 1;
  /** The same when the same is told again, so that a receiver can drop a repetition. */
  readonly id: string;
  readonly at: string;
  readonly job: string;
  readonly dataset: string;
  readonly place: string;
  /** Id of the run that tells it, as in the log; absent where none is known. */
  readonly run?: string | undefined;
  readonly text: string;
  readonly alerts: readonly Alert[];
  readonly recovered: readonly (Alert & { readonly until: string })[];
}

/** Chat tools cut longer texts, some refuse them. */
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

/** Slack's own escapes keep `<!channel>` and `<url|name>` from being anything; the others mention by `@`. */
function escapeChat(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replace(/@(?=(?:all|channel|everyone|here)\b)/gi, '@\u200b')
    .replace(/\]\(/g, '] (');
}
