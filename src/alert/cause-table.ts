/**
 * The kinds of causes for alerts, one entry each: how bad it is, its words (what happened, and the next command to type),
 * and when an earlier one is over that a run did not find again. Invariants: text from outside (an API, a mail server, a
 * file) is one line of bounded length without secrets; it is plain text, and the renderers escape it. A cause that a run
 * could not check stays as it was. Pure.
 */
import { EXCHANGE_TIME_ZONE } from '../api-contract/published-limits.ts';
import { formatInstant } from '../core/date-text.ts';
import { capitalize } from '../core/units.ts';
import type { Job } from '../job/job.ts';
import { type Condition, isSealed } from '../plan/conditions.ts';
import { computeLookback, expires, expiresAt } from '../plan/dates.ts';
import type { Delivery, RunResult } from '../state/run-result.ts';

export interface Cause {
  /** Job, kind, and the date, code or recipient concerned. */
  readonly id: string;
  readonly kind: CauseKind;
  readonly date: string | null;
  readonly code: string | null;
  /** Template and recipient of a report. */
  readonly report: { readonly template: string; readonly to: string } | null;
  /** The original message, such as that of an error or a mail server. */
  readonly said: string;
  readonly hint: string;
}

/** How a job's command ended. It may end anywhere, so any part may be absent. */
export interface RunEnd {
  readonly command: 'run' | 'backfill' | 'alert';
  /** Result of the export, if it finished. */
  readonly result?: RunResult | undefined;
  readonly deliveries?: readonly Delivery[] | undefined;
  /** Whether reports were requested. */
  readonly withReports: boolean;
  readonly error?: unknown;
  /** Only `flowdrop alert`: how an earlier run ended that could not report it itself. */
  readonly died?: string | undefined;
  /** Only `flowdrop alert`: why the current job file cannot be used. */
  readonly jobFault?: string | undefined;
  /** Only `flowdrop alert`: whether the current job file was read. */
  readonly isJobFileRead?: boolean;
}

/** The outcome, and the state of the dates after it. */
export interface RunFacts extends RunEnd {
  readonly job: Job;
  /** Now, on the clock by which the source judges its lookback, as far as that is known. */
  readonly nowMs: number;
  readonly conditions: Readonly<Record<string, Condition>>;
  /** Gaps that a person accepted: no reason for an alert. */
  readonly accepted: ReadonlySet<string>;
  /** The newest session that missed its deadline, in words. */
  readonly late?: { readonly date: string; readonly said: string } | undefined;
}

/** `what` happened, and what to do `next`: commands are between backticks. */
export type AlertWords = Readonly<Record<'title' | 'what' | 'next', string>>;

/**
 * - `critical`: rows are lost, or will be unless someone acts
 * - `error`: something failed, but nothing is lost yet
 * - `warning`: worth a look
 */
export const SEVERITIES = ['critical', 'error', 'warning'] as const;

type AlertSeverity = (typeof SEVERITIES)[number];

/** `over`: it ended without a recovery worth reporting, or another cause replaces it. */
export type CauseOutcome = 'open' | 'recovered' | 'over';

/** What is kept of a cause. */
type KnownCause = Pick<Cause, 'date' | 'report'>;

interface CauseRule {
  readonly severity: AlertSeverity;
  tell(cause: ReturnType<typeof cleanCause>): AlertWords;
  /** @param found ids of the causes that the run found */
  judge(cause: KnownCause, facts: RunFacts, found: readonly string[]): CauseOutcome;
}

/** For a date that was complete when sealed: its object is now missing or different. */
export const DROP_DAMAGED = 'DROP_DAMAGED';

/** Errors contain SQL and the beginnings of answers; a mail needs only their beginning. */
const MAX_SAID_CHARACTERS = 600;

const CAUSES = {
  'run-failed': {
    severity: 'error',
    tell: ({ job, code, said, after }) => ({
      title: `The run failed: ${code}`,
      what: said,
      next: after(`\`flowdrop run ${job}\``),
    }),
    judge: judgeSource,
  },
  'run-died': {
    severity: 'error',
    tell: ({ job, said }) => ({
      title: 'A run ended without a result',
      what: `${said || 'How it ended is unknown.'} Fetched rows are staged, and sealed dates stay sealed.`,
      next: `Check its log (\`flowdrop runs ${job} last\`), and the memory and the disk of its machine. To continue: \`flowdrop run ${job}\``,
    }),
    judge: (_, { result }) => recoveredIf(result !== undefined),
  },
  'job-invalid': {
    severity: 'error',
    tell: ({ job, said }) => ({
      title: 'The job file is invalid, and the last valid one is used',
      what: said || 'No reason was given.',
      next: `Correct it, then: \`flowdrop check ${job}\`. Until then the last valid version is used, even after a restart.`,
    }),
    // A run may have read the last valid copy of the file, which the daemon keeps using.
    judge: (_, { isJobFileRead = false, jobFault }) => recoveredIf(isJobFileRead && jobFault === undefined),
  },
  'key-refused': {
    severity: 'critical',
    tell: ({ job, code, said, after }) => ({
      title: `The API refuses the key: ${code}`,
      what: `${said} Nothing is exported until it is accepted; dates keep expiring.`,
      next: after(`\`flowdrop check ${job} --live\`, then \`flowdrop run ${job}\``),
    }),
    judge: judgeSource,
  },
  'clocks-differ': {
    severity: 'error',
    tell: ({ job, said }) => ({
      title: 'The clocks differ',
      what: `${said} Dates that either clock calls unfinished or expired are not sealed until the clocks agree.`,
      next: `Set the clock of this machine by NTP (timedatectl, chrony), then: \`flowdrop doctor ${job}\` and \`flowdrop run ${job}\`. If this clock is right, tell the provider.`,
    }),
    judge: (_, { result }) => recoveredIf(result?.clocks.conflict === null),
  },
  'date-failed': {
    severity: 'error',
    tell: ({ job, code, date, said, expiry, after }) => ({
      title: `${date} could not be sealed: ${code}`,
      what: `${said} Its fetched rows stay staged${expiry('; it expires ')}.`,
      next: after(`\`flowdrop backfill ${job} --failed ${rangeOf(date)}\``),
    }),
    judge(cause, facts, found) {
      const outcome = judgeOpenDate(cause, facts);
      if (outcome !== 'open' || conditionOf(cause, facts) !== 'pending') return outcome;
      // Another cause replaces it: the date fails otherwise.
      return overIf(found.some((id) => id.startsWith(`${facts.job.name}/date-failed/${cause.date}/`)));
    },
  },
  'date-late': {
    severity: 'error',
    tell: ({ job, date, said }) => ({
      title: `${date} has missed its deadline`,
      what: said,
      next: `See why: \`flowdrop runs ${job} last\`, \`flowdrop status ${job}\`. Then: \`flowdrop run ${job}\``,
    }),
    // While it is the newest one, it is found again until it is sealed and mailed.
    judge(cause, facts) {
      if (isDateSealed(cause, facts)) return 'recovered';
      const condition = conditionOf(cause, facts);
      return overIf(facts.accepted.has(cause.date ?? '') || (condition !== undefined && condition !== 'pending'));
    },
  },
  'date-held': {
    severity: 'warning',
    tell: ({ job, date, said, expiry }) => ({
      title: `${date} is held back`,
      what: `The clocks say that the session is over, but ${said} The date may be incomplete, so it is not sealed${expiry('; it expires ')}.`,
      next: `Nothing, if the source only lags: the next run checks again. To check now: \`flowdrop run ${job}\``,
    }),
    judge: judgeOpenDate,
  },
  'date-degraded': {
    severity: 'warning',
    tell: ({ job, dataset, code, date, said, expiry }) =>
      code === DROP_DAMAGED
        ? {
            title: `${date} is damaged in the store`,
            what: `${said} Readers of ${dataset} do not get the sealed rows of ${date}.`,
            next: `Restore the object from a backup or an older version of it, then: \`flowdrop verify ${job} --date ${date}\`. Without one, while the source has the whole date: \`flowdrop backfill ${job} ${rangeOf(date)}\``,
          }
        : {
            title: `${date} is degraded`,
            what: `${dataset} has a drop of ${date}, but it is not known to be complete.${said && ` Reason: ${said}`}`,
            next: `Export it again${expiry(', before ')}: \`flowdrop backfill ${job} --failed ${rangeOf(date)}\``,
          },
    judge(cause, facts) {
      const condition = conditionOf(cause, facts);
      if (condition === 'available') return 'recovered';
      return condition === undefined ? 'open' : 'over';
    },
  },
  'date-doubtful': {
    severity: 'warning',
    tell: ({ job, date, said }) => ({
      title: `${date} is sealed, but a check failed`,
      what: `${capitalize(said)} The drop has every row that the source has; the source itself may lack some.`,
      next: `Ask the provider about ${date}. The next run fetches rows that it adds later: \`flowdrop run ${job}\``,
    }),
    // Said once: the next run seals other dates, and only a restatement checks this one again.
    judge: (_, { result }) => overIf(result !== undefined),
  },
  'date-differs': {
    severity: 'warning',
    tell: ({ job, date, said, expiry }) => ({
      title: `${date} is sealed, and differs from the source`,
      what: `${said} The job's audit rule leaves the sealed rows as they are.`,
      next: `Ask the provider about ${date}. To export what the source has now${expiry(', before ')}: \`flowdrop backfill ${job} --all ${rangeOf(date)}\``,
    }),
    judge({ date }, { accepted, result, nowMs }) {
      // A run that did not compare the date does not know.
      if (date === null) return 'open';
      if (accepted.has(date)) return 'over';
      if (result?.audits[date]?.result === 'equal') return 'recovered';
      return overIf(date < computeLookback(nowMs).clipped);
    },
  },
  'date-missing': {
    severity: 'warning',
    tell: ({ job, date, expiry }) => ({
      title: `${date} is missing at the source`,
      what: `${date} was a trading session, and the source has no rows for it, although it has rows for earlier dates.`,
      next: `Ask the provider; runs check again${expiry(', until ')}. To check now: \`flowdrop backfill ${job} ${rangeOf(date)}\``,
    }),
    judge: judgeOpenDate,
  },
  'date-expired': {
    severity: 'critical',
    tell: ({ job, dataset, date }) => ({
      title: `${date} expired before it was sealed`,
      what: `${date} left the lookback of the API: ${dataset} has no complete drop of it and can no longer get one.`,
      next: `To keep its staged rows, if there are any: \`flowdrop backfill ${job} --seal-degraded ${rangeOf(date)}\``,
    }),
    judge: (cause, facts) => overIf(isDateSealed(cause, facts) || facts.accepted.has(cause.date ?? '')),
  },
  'gap-expires-soon': {
    severity: 'critical',
    tell: ({ job, date, expiry }) => ({
      title: `${date} is not sealed and expires soon`,
      what: `${date} is not sealed${expiry(', and begins to expire ')}: rows that are not fetched by then are lost.`,
      next: `Fetch it now: \`flowdrop backfill ${job} ${rangeOf(date)}\`. To see what blocks it: \`flowdrop plan ${job}\``,
    }),
    judge: judgeOpenDate,
  },
  'report-failed': {
    severity: 'error',
    tell: ({ job, code, date, recipient, said, after }) => ({
      title: recipient
        ? `The report did not reach ${recipient}`
        : `${date === '' ? 'The reports' : `The report of ${date}`} could not be made: ${code}`,
      what: said || 'No reason was given.',
      next: after(`\`flowdrop report ${job}${date && ` --date ${date}`}\`; the next run retries too.`),
    }),
    // No recipient is left: `flowdrop report` mailed them in the meantime.
    judge: (cause, facts) =>
      judgeReport(cause, facts, (delivery) => delivery.date === cause.date && delivery.alreadySent > 0),
  },
  'report-refused': {
    severity: 'warning',
    tell: ({ job, date, recipient, said }) => ({
      title: `${recipient} refuses the report`,
      what: `The mail server answered: ${said} This report is not sent to this address again.`,
      next: `Correct the address in the job file, then: \`flowdrop report ${job} --date ${date} --only ADDRESS\``,
    }),
    // Refused recipients stay on their list.
    judge: (cause, facts) => judgeReport(cause, facts, () => false),
  },
  'report-pending': {
    severity: 'warning',
    tell: ({ job, date }) => ({
      title: `The report of ${date} is pending`,
      what: `${date} is not sealed yet, and reports are made only from sealed dates.`,
      next: `It is mailed by the run that seals the date: \`flowdrop run ${job}\``,
    }),
    judge(cause, facts) {
      const condition = conditionOf(cause, facts);
      if (condition === 'missing' || condition === 'empty' || condition === 'expired') return 'over';
      return recoveredIf(isDateSealed(cause, facts) && facts.deliveries !== undefined);
    },
  },
} as const satisfies Readonly<Record<string, CauseRule>>;

export type CauseKind = keyof typeof CAUSES;

export const CAUSE_KINDS = Object.keys(CAUSES) as CauseKind[];

export function severityOf(kind: CauseKind): AlertSeverity {
  return CAUSES[kind].severity;
}

/** @param redact masks secrets: an answer may repeat the request */
export function describeCause(cause: Cause, job: Job, redact: (text: string) => string): AlertWords {
  return CAUSES[cause.kind].tell(cleanCause(cause, job, redact));
}

/** A cause as its words need it. */
function cleanCause({ date, code, said, report, hint }: Cause, job: Job, redact: (text: string) => string) {
  const first = endSentence(cleanLine(redact(hint)));
  return {
    ...{ job: job.name, dataset: job.drop.dataset, code, date: date ?? '' },
    recipient: cleanText(redact(report?.to ?? '')),
    said: endSentence(cleanText(redact(said))),
    /** `before` and when the date is lost; empty for a source whose dates never expire. */
    expiry: (before: string) =>
      date === null || !expires(job.source) ? '' : `${before}${formatInstant(expiresAt(date), EXCHANGE_TIME_ZONE)}`,
    /** The failure's own hint, then the command. */
    after: (command: string) => (first ? `${first} Then: ${command}` : command),
  };
}

/** Judges an earlier cause that this run did not find again. @param found ids of the causes that it found */
export function judgeCause(
  cause: KnownCause & { readonly kind: CauseKind },
  facts: RunFacts,
  found: readonly string[],
): CauseOutcome {
  const rule: CauseRule = CAUSES[cause.kind];
  return rule.judge(cause, facts, found);
}

function recoveredIf(isRecovered: boolean): CauseOutcome {
  return isRecovered ? 'recovered' : 'open';
}

function overIf(isOver: boolean): CauseOutcome {
  return isOver ? 'over' : 'open';
}

/** An export that sent no request says nothing about the API. */
function judgeSource(_: KnownCause, { result }: RunFacts): CauseOutcome {
  return recoveredIf(result !== undefined && result.requests > 0);
}

/** Of a date that can still be sealed. */
function judgeOpenDate(cause: KnownCause, facts: RunFacts): CauseOutcome {
  const condition = conditionOf(cause, facts);
  if (condition === 'available') return 'recovered';
  return overIf(condition !== undefined && condition !== 'pending');
}

/** @param isReached whether a delivery without this recipient shows that he was reached */
function judgeReport({ report }: KnownCause, { deliveries }: RunFacts, isReached: (delivery: Delivery) => boolean) {
  // Finished reports show that reports can be built again.
  if (report === null) return recoveredIf(deliveries !== undefined);
  for (const delivery of deliveries ?? []) {
    if (delivery.report !== report.template || delivery.leftToOther) continue;
    const outcome = delivery.recipients.find(({ to }) => to === report.to)?.outcome;
    if (outcome === 'sent') return 'recovered';
    // Another cause replaces this one: a failed recipient is now refused, or a refused one now fails.
    if (outcome !== undefined) return 'over';
    if (isReached(delivery)) return 'recovered';
  }
  return 'open';
}

function conditionOf({ date }: KnownCause, { conditions }: RunFacts) {
  return date === null ? undefined : conditions[date];
}

function isDateSealed(cause: KnownCause, facts: RunFacts): boolean {
  const condition = conditionOf(cause, facts);
  return condition !== undefined && isSealed(condition);
}

function rangeOf(date: string): string {
  return `--from ${date} --to ${date}`;
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
