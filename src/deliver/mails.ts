/**
 * Sends messages to recipients, and writes the receipt before and after each. Invariants: this run does not resend a
 * message whose fate is unknown; a message that was certainly not delivered is retried a few times, after all others
 * were tried; no recipient waits behind one who cannot be reached.
 */
import { assertNotAborted } from '../core/errors.ts';
import { MailFault, type MailMessage } from '../mail/message.ts';
import type { DeliveredRecipient } from '../state/run-result.ts';
import { type MailingLease, pause } from './receipt.ts';

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

/**
 * Never sends a message again that may have been delivered.
 * @param results what became of each recipient; also when it throws, of those that were settled
 * @throws StoreFault, Fault `INTERRUPTED`, `MAIL_TAKEN_OVER`
 */
export async function sendAll(
  turn: MailingLease,
  outgoing: readonly Outgoing[],
  results: Map<string, DeliveredRecipient>,
): Promise<void> {
  const { run } = turn;
  let patienceMs = run.mailer.patienceMs ?? DEFAULT_PATIENCE_MS;
  let left = await sendRound(turn, outgoing, results);
  for (let retry = 1; left.length > 0; retry += 1) {
    const waitMs = backoffMs(retry, Math.random);
    patienceMs -= waitMs;
    if (patienceMs < 0) break;
    await pause(run, waitMs);
    left = await sendRound(turn, left, results);
  }
  for (const one of left) {
    const { to } = one;
    const reason = results.get(to)?.detail ?? '';
    // To other workers, an undelivered message must not look as if it were still being sent.
    await turn.note([one], 'failed', reason);
    run.log.error({ event: 'mail-failed', fate: 'unreachable', to, reason }, `mail to ${to} failed: ${reason}`);
  }
}

/** @param retry number of the retry, from 1 @param random in [0, 1), for the jitter */
export function backoffMs(retry: number, random: () => number): number {
  return Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 4 ** (retry - 1)) * (0.5 + random() / 2);
}

/** @returns the messages that the next round retries */
async function sendRound(
  turn: MailingLease,
  outgoing: readonly Outgoing[],
  results: Map<string, DeliveredRecipient>,
): Promise<readonly Outgoing[]> {
  const again: Outgoing[] = [];
  let silences = 0;
  for (const [index, next] of outgoing.entries()) {
    assertNotAborted(turn.run.signal);
    const { result, fate } = await sendOne(turn, next, results);
    silences = fate === 'unreachable' || fate === 'unknown' ? silences + 1 : 0;
    if (fate === 'later' || fate === 'unreachable') again.push(next);
    const rest = outgoing.slice(index + 1);
    if (fate === 'settings') {
      // A server that rejects the settings rejects every message.
      for (const { to } of rest) results.set(to, { ...result, to });
      for (const other of [...again, next, ...rest])
        await turn.note([other], 'failed', results.get(other.to)?.detail ?? '');
      return [];
    }
    if (silences >= MAX_SILENCES) {
      for (const { to } of rest) if (!results.has(to)) results.set(to, { ...result, to });
      return [...again, ...rest];
    }
  }
  return again;
}

async function sendOne(
  turn: MailingLease,
  message: Outgoing,
  results: Map<string, DeliveredRecipient>,
): Promise<{ readonly result: DeliveredRecipient; readonly fate: MailFault['fate'] | 'answered' }> {
  const { run, receipt } = turn;
  const { date } = receipt;
  const { to } = message;
  await turn.note([message], 'sending', '');
  try {
    const answer = await run.mailer.send(message.build(), { confirm: async () => await turn.confirm() });
    const { status, detail } = answer;
    const written = 'file' in answer ? { file: answer.file } : {};
    const result = { to, outcome: status, detail, ...written };
    // The outcome holds, even if the write below fails.
    results.set(to, result);
    await turn.note([message], status, detail);
    run.onEvent({ kind: 'mailed', date, to, outcome: status, ...written });
    return { result, fate: 'answered' };
  } catch (error) {
    if (!(error instanceof MailFault)) throw error;
    const { code, fate, message: reason, hint } = error;
    // This run retries deferred mail, and reports it as failed at the end if it stays deferred.
    if (fate === 'later' || fate === 'unreachable')
      run.log.warn(
        { event: 'mail-put-off', code, fate, to, reason },
        `mail to ${to} was deferred and will be retried: ${reason}`,
      );
    else run.log.error({ event: 'mail-failed', code, fate, to, reason }, `mail to ${to} failed: ${reason}`);
    run.onEvent({ kind: 'mailed', date, to, outcome: 'failed' });
    const result = { to, outcome: 'failed' as const, detail: [reason, hint].filter(Boolean).join(' ') };
    results.set(to, result);
    return { result, fate };
  }
}
