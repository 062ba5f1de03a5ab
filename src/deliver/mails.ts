/**
 * Sends messages to recipients, and writes the receipt before and after each. Invariants: this run does not resend a
 * message whose fate is unknown; a message that was certainly not delivered is retried a few times, after all others
 * were tried; no recipient waits behind one who cannot be reached.
 */
import { assertNotAborted } from '../core/errors.ts';
import { MailFault, type MailMessage } from '../mail/mailer.ts';
import { type RecipientReceipt, recordRecipient } from '../mail/receipt.ts';
import type { Run } from '../run/run.ts';
import type { DeliveredRecipient } from '../state/run-result.ts';
import { isTakenOver, type MailingLease } from './mailing-lease.ts';

/** The context, and the turn in which it mails; the turn has the receipt, which is written entry by entry. */
export interface MailTurn {
  readonly run: Run;
  readonly turn: MailingLease;
}

export interface Outgoing {
  readonly to: string;
  readonly messageId: string;
  /** Built when it is sent: a message with attachments is large, and many recipients share its parts. */
  build(): MailMessage;
}

/**
 * Total time that a run keeps retrying: longer than greylisting (RFC 6647) usually takes, because the next run of a
 * nightly job is a day away.
 */
const DEFAULT_PATIENCE_MS = 600_000;
/** Wait before the second attempt; four times as long before each further one, capped, and jittered downwards. */
const BACKOFF_MS = 5_000;
const MAX_BACKOFF_MS = 120_000;
/**
 * After this many messages in a row without an answer the server counts as down; the rest would only wait for it too.
 */
const MAX_SILENCES = 2;

export interface Sent {
  /** In the order given; after a take-over only those that were settled here. */
  readonly recipients: readonly DeliveredRecipient[];
  /** Another process mails the rest. */
  readonly isTakenOver: boolean;
}

/**
 * Never sends a message again that may have been delivered.
 * @param random in [0, 1), for the jitter @throws StoreFault, Fault `INTERRUPTED`
 */
export async function sendAll(
  mailing: MailTurn,
  outgoing: readonly Outgoing[],
  random: () => number = Math.random,
): Promise<Sent> {
  const results = new Map<string, DeliveredRecipient>();
  const { log } = mailing.run;
  try {
    await sendRounds(mailing, outgoing, results, random);
    const untried = { outcome: 'failed', detail: 'was not tried' } as const;
    return { recipients: outgoing.map(({ to }) => results.get(to) ?? { to, ...untried }), isTakenOver: false };
  } catch (error) {
    if (!isTakenOver(error)) throw error;
    const { date } = mailing.turn.receipt;
    log.warn({ event: 'mail-taken-over', date }, `${date}: another worker has taken over, and mails the rest`);
    const settled = outgoing.flatMap(({ to }) => results.get(to) ?? []).filter(({ outcome }) => outcome !== 'failed');
    return { recipients: settled, isTakenOver: true };
  }
}

async function sendRounds(
  mailing: MailTurn,
  outgoing: readonly Outgoing[],
  results: Map<string, DeliveredRecipient>,
  random: () => number,
): Promise<void> {
  const { clock, signal, mailer } = mailing.run;
  let patienceMs = mailer.patienceMs ?? DEFAULT_PATIENCE_MS;
  let left = await sendRound(mailing, outgoing, results);
  for (let retry = 1; left.length > 0; retry += 1) {
    const waitMs = backoffMs(retry, random);
    patienceMs -= waitMs;
    if (patienceMs < 0) break;
    await clock.sleep(waitMs, signal).catch((cause: unknown) => {
      assertNotAborted(signal);
      throw cause;
    });
    left = await sendRound(mailing, left, results);
  }
  for (const { to, messageId } of outgoing) {
    const result = results.get(to);
    // To other workers, an undelivered message must not look as if it were still being sent.
    if (!left.some((other) => other.to === to)) continue;
    const detail = result?.detail ?? '';
    await note(mailing, to, 'failed', messageId, detail);
    mailing.run.log.error(
      { event: 'mail-failed', fate: 'unreachable', to, reason: detail },
      `mail to ${to} failed: ${detail}`,
    );
  }
}

/** @param retry number of the retry, from 1 */
export function backoffMs(retry: number, random: () => number): number {
  return Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 4 ** (retry - 1)) * (0.5 + random() / 2);
}

/** @returns the messages that the next round retries */
async function sendRound(
  mailing: MailTurn,
  outgoing: readonly Outgoing[],
  results: Map<string, DeliveredRecipient>,
): Promise<readonly Outgoing[]> {
  const again: Outgoing[] = [];
  let silences = 0;
  for (const [index, next] of outgoing.entries()) {
    assertNotAborted(mailing.run.signal);
    const attempt = await sendOne(mailing, next, results);
    const { fate } = attempt;
    silences = fate === 'unreachable' || fate === 'unknown' ? silences + 1 : 0;
    if (fate === 'later' || fate === 'unreachable') again.push(next);
    const rest = outgoing.slice(index + 1);
    if (fate === 'settings') {
      // A server that rejects the settings rejects every message.
      for (const { to } of rest) results.set(to, { ...attempt.result, to });
      for (const other of [...again, next, ...rest]) {
        await note(mailing, other.to, 'failed', other.messageId, results.get(other.to)?.detail ?? '');
      }
      return [];
    }
    if (silences >= MAX_SILENCES) {
      for (const { to } of rest) if (!results.has(to)) results.set(to, { ...attempt.result, to });
      return [...again, ...rest];
    }
  }
  return again;
}

type Fate = MailFault['fate'] | 'answered';

async function sendOne(
  mailing: MailTurn,
  { to, messageId, build }: Outgoing,
  results: Map<string, DeliveredRecipient>,
): Promise<{ readonly result: DeliveredRecipient; readonly fate: Fate }> {
  const { run, turn } = mailing;
  const { date } = turn.receipt;
  await note(mailing, to, 'sending', messageId, '');
  try {
    const answer = await run.mailer.send(build(), { confirm: async () => await turn.confirm() });
    const { status, detail } = answer;
    const written = 'file' in answer ? { file: answer.file } : {};
    const result = { to, outcome: status, detail, ...written };
    // The outcome holds, even if the write below fails.
    results.set(to, result);
    await note(mailing, to, status, messageId, detail);
    run.onEvent({ kind: 'mailed', date, to, outcome: status, ...written });
    return { result, fate: 'answered' };
  } catch (error) {
    if (!(error instanceof MailFault)) throw error;
    // This run retries deferred mail, and reports it as failed at the end if it stays deferred.
    const isPutOff = error.fate === 'later' || error.fate === 'unreachable';
    const entry = { code: error.code, fate: error.fate, to, reason: error.message };
    if (isPutOff)
      run.log.warn(
        { event: 'mail-put-off', ...entry },
        `mail to ${to} was deferred and will be retried: ${error.message}`,
      );
    else run.log.error({ event: 'mail-failed', ...entry }, `mail to ${to} failed: ${error.message}`);
    run.onEvent({ kind: 'mailed', date, to, outcome: 'failed' });
    const result = { to, outcome: 'failed' as const, detail: [error.message, error.hint].filter(Boolean).join(' ') };
    results.set(to, result);
    return { result, fate: error.fate };
  }
}

/** Records the status of a recipient in the store. @throws StoreFault */
export async function note(
  mailing: MailTurn,
  to: string,
  status: RecipientReceipt['status'],
  messageId: string,
  detail: string,
): Promise<void> {
  await noteAll(mailing, [{ to, messageId }], status, detail);
}

/** Records the status of several recipients in one write. @throws StoreFault */
export async function noteAll(
  mailing: MailTurn,
  recipients: readonly { readonly to: string; readonly messageId: string }[],
  status: RecipientReceipt['status'],
  detail: string,
): Promise<void> {
  const { turn, run } = mailing;
  const at = new Date(run.clock.now()).toISOString();
  await turn.write(
    recipients.reduce(
      (receipt, { to, messageId }) => recordRecipient(receipt, to, { status, at, message_id: messageId, detail }),
      turn.receipt,
    ),
  );
}
