/**
 * The texts of an alert: title, what happened, and the next command to type. Invariant: text from outside (an API, a
 * mail server, a file) is one line of bounded length without secrets; it is plain text, and the renderers escape it.
 * Pure.
 */

import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { expiresAt } from '../plan/dates.ts';
import type { Alert, AlertSeverity } from '../report/alert-mail.ts';
import { type Cause, type CauseKind, DROP_DAMAGED } from './causes.ts';

export type AlertWords = Pick<Alert, 'title' | 'what' | 'next'>;

interface AlertSubject {
  readonly job: string;
  readonly dataset: string;
  /** Whether dates that are not fetched in time are lost. */
  readonly isExpiring: boolean;
  /** Masks secrets: an answer may repeat the request. */
  readonly redact: (text: string) => string;
}

/** Errors contain SQL and the beginnings of answers; a mail needs only their beginning. */
const MAX_SAID_CHARACTERS = 600;

export const SEVERITY_OF: Readonly<Record<CauseKind, AlertSeverity>> = {
  'run-failed': 'error',
  'run-died': 'error',
  'job-invalid': 'error',
  'key-refused': 'critical',
  'clocks-differ': 'error',
  'date-failed': 'error',
  'date-held': 'warning',
  'date-degraded': 'warning',
  'date-doubtful': 'warning',
  'date-differs': 'warning',
  'date-missing': 'warning',
  'date-expired': 'critical',
  'gap-expires-soon': 'critical',
  'report-failed': 'error',
  'report-refused': 'warning',
  'report-pending': 'warning',
};

export function describeCause(cause: Cause, subject: AlertSubject): AlertWords {
  const { job, dataset, redact } = subject;
  const date = cause.date ?? '';
  const said = endSentence(cleanText(redact(cause.said)));
  const hint = endSentence(cleanLine(redact(cause.hint)));
  /** The failure's own hint comes first. */
  const after = (command: string) => (hint ? `${hint} Then: ${command}` : command);
  const recipient = cleanText(redact(cause.report?.to ?? ''));
  const reports = date === '' ? 'The reports' : `The report of ${date}`;
  const range = `--from ${date} --to ${date}`;
  switch (cause.kind) {
    case 'run-failed':
      return {
        title: `The run failed: ${cause.code}`,
        what: said,
        next: after(`\`flowdrop run ${job}\``),
      };
    case 'run-died':
      return {
        title: 'A run ended without a result',
        what: `${said || 'How it ended is unknown.'} Fetched rows are staged, and sealed dates stay sealed.`,
        next: `Check its log, and the memory and the disk of its machine. To continue: \`flowdrop run ${job}\``,
      };
    case 'job-invalid':
      return {
        title: 'The job file is invalid, and the last valid one is used',
        what: said || 'No reason was given.',
        next: `Correct it, then: \`flowdrop check ${job}\`. Until then the last valid version is used, even after a restart.`,
      };
    case 'key-refused':
      return {
        title: `The API refuses the key: ${cause.code}`,
        what: `${said} Nothing is exported until it is accepted; dates keep expiring.`,
        next: after(`\`flowdrop check ${job} --live\`, then \`flowdrop run ${job}\``),
      };
    case 'date-failed':
      return {
        title: `${date} could not be sealed: ${cause.code}`,
        what: `${said} Its fetched rows stay staged${describeExpiry(cause, subject, '; it expires ')}.`,
        next: after(`\`flowdrop backfill ${job} --failed ${range}\``),
      };
    case 'clocks-differ':
      return {
        title: 'The clocks differ',
        what: `${said} Dates that either clock calls unfinished or expired are not sealed until the clocks agree.`,
        next: `Set the clock of this machine by NTP (timedatectl, chrony), then: \`flowdrop doctor ${job}\` and \`flowdrop run ${job}\`. If this clock is right, tell the provider.`,
      };
    case 'date-held':
      return {
        title: `${date} is held back`,
        what: `The clocks say that the session is over, but ${said} The date may be incomplete, so it is not sealed${describeExpiry(cause, subject, '; it expires ')}.`,
        next: `Nothing, if the source only lags: the next run checks again. To check now: \`flowdrop run ${job}\``,
      };
    case 'date-degraded':
      if (cause.code === DROP_DAMAGED) {
        return {
          title: `${date} is damaged in the store`,
          what: `${said} Readers of ${dataset} do not get the sealed rows of ${date}.`,
          next: `Restore the object from a backup or an older version of it, then: \`flowdrop verify ${job} --date ${date}\`. Without one, while the source has the whole date: \`flowdrop backfill ${job} ${range}\``,
        };
      }
      return {
        title: `${date} is degraded`,
        what: `${dataset} has a drop of ${date}, but it is not known to be complete.${said && ` Reason: ${said}`}`,
        next: `Export it again${describeExpiry(cause, subject, ', before ')}: \`flowdrop backfill ${job} --failed ${range}\``,
      };
    case 'date-doubtful':
      return {
        title: `${date} is sealed, but a check failed`,
        what: `${said} The drop has every row that the source has; the source itself may lack some.`,
        next: `Ask the provider about ${date}. The next run fetches rows that it adds later: \`flowdrop run ${job}\``,
      };
    case 'date-differs':
      return {
        title: `${date} is sealed, and differs from the source`,
        what: `${said} The job's audit rule leaves the sealed rows as they are.`,
        next: `Ask the provider about ${date}. To export what the source has now${describeExpiry(cause, subject, ', before ')}: \`flowdrop backfill ${job} --all ${range}\``,
      };
    case 'date-missing':
      return {
        title: `${date} is missing at the source`,
        what: `${date} was a trading session, and the source has no rows for it, although it has rows for earlier dates.`,
        next: `Ask the provider; runs check again${describeExpiry(cause, subject, ', until ')}. To check now: \`flowdrop backfill ${job} ${range}\``,
      };
    case 'date-expired':
      return {
        title: `${date} expired before it was sealed`,
        what: `${date} left the lookback of the API: ${dataset} has no complete drop of it and can no longer get one.`,
        next: `To keep its staged rows, if there are any: \`flowdrop backfill ${job} --seal-degraded ${range}\``,
      };
    case 'gap-expires-soon':
      return {
        title: `${date} is not sealed and expires soon`,
        what: `${date} is not sealed${describeExpiry(cause, subject, ', and begins to expire ')}: rows that are not fetched by then are lost.`,
        next: `Fetch it now: \`flowdrop backfill ${job} ${range}\`. To see what blocks it: \`flowdrop plan ${job}\``,
      };
    case 'report-failed':
      return {
        title: cause.report ? `The report did not reach ${recipient}` : `${reports} could not be made: ${cause.code}`,
        what: said || 'No reason was given.',
        next: after(`\`flowdrop report ${job}${date && ` --date ${date}`}\`; the next run retries too.`),
      };
    case 'report-refused':
      return {
        title: `${recipient} refuses the report`,
        what: `The mail server answered: ${said} This report is not sent to this address again.`,
        next: `Correct the address in the job file, then: \`flowdrop report ${job} --date ${date} --only ADDRESS\``,
      };
    case 'report-pending':
      return {
        title: `The report of ${date} is pending`,
        what: `${date} is not sealed yet, and reports are made only from sealed dates.`,
        next: `It is mailed by the run that seals the date: \`flowdrop run ${job}\``,
      };
    default:
      return cause.kind satisfies never;
  }
}

/** `, before Nov 21, 2026, 00:00 ET`; empty for a source whose dates never expire. */
function describeExpiry({ date }: Cause, { isExpiring }: AlertSubject, before: string): string {
  if (date === null || !isExpiring) return '';
  return `${before}${formatInstant(expiresAt(date), EXCHANGE_TIME_ZONE)}`;
}

/** Outside text often lacks a full stop, but our text follows it. */
function endSentence(text: string): string {
  return text === '' || /[.!?…]$/.test(text) ? text : `${text}.`;
}

/** One line of outside text: it must not look like one of our lines or commands. */
function cleanText(text: string): string {
  return cleanLine(text.replaceAll('`', ' '));
}

/** One line of bounded length. Keeps backticks, because our own hints put commands in them. */
function cleanLine(text: string): string {
  const line = text
    .replace(/[\p{Cc}\p{Zl}\p{Zp} ]+/gu, ' ')
    // Direction marks could change what the text appears to say.
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, '')
    .trim();
  return line.length > MAX_SAID_CHARACTERS ? `${line.slice(0, MAX_SAID_CHARACTERS - 1)}…` : line;
}
