/**
 * Decides which process mails a report: one at a time, even if one sleeps and wakes up later. Who holds the receipt, a
 * `Document`, writes its next version; who takes it over writes one with its own name.
 *
 * Invariants:
 * - Nothing is mailed after another process has written a version. A process that mails first writes the recipient, then
 * looks for a higher version; one that takes over first writes its version, upon what the last holder wrote.
 * - Durations are measured by the clock of the process that waits. Times from another clock only show whether waiting
 * is worthwhile.
 *
 * Remaining risk: if a process stops between that last look and the server's answer (microseconds, plus the answer's
 * time), the next one mails the same message again, under the same Message-ID.
 */
import { randomUUID } from 'node:crypto';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import type { Run } from '../run/run.ts';
import type { Document, DocumentVersion } from '../store/document.ts';
import { openReceiptLog, type Receipt, type ReceiptPlace, type RecipientStatus, recordRecipient } from './receipt.ts';

/** A process that has not renewed its lease for this long counts as dead. */
export const LEASE_MS = 120_000;
/** How often a process renews its lease. */
export const RENEWAL_MS = 15_000;
/** A process gives up its own lease this much earlier: the server may need the time to receive the end of a message. */
const MARGIN_MS = 2 * RENEWAL_MS;

const TAKEN_OVER = 'MAIL_TAKEN_OVER';

export function isTakenOver(error: unknown): boolean {
  return isFault(error) && error.code === TAKEN_OVER;
}

/** One process's turn, while it lasts. */
export class MailingLease {
  readonly run: Run;
  /** The receipt as last written, or as being written. */
  receipt: Receipt;
  readonly #document: Document<Receipt>;
  readonly #by: string;
  readonly #stop = new AbortController();
  #version: number;
  /** When the last write that renewed the lease started. */
  #renewed: readonly number[];
  #writing: Promise<unknown> = Promise.resolve();
  #isLost = false;

  /** Created by `takeTurn`. @param renewed when its first version was started */
  constructor(
    run: Run,
    document: Document<Receipt>,
    by: string,
    taken: DocumentVersion<Receipt>,
    receipt: Receipt,
    renewed: readonly number[],
  ) {
    this.run = run;
    this.#document = document;
    this.receipt = receipt;
    this.#version = taken.version;
    this.#by = by;
    this.#renewed = renewed;
    void this.#renew();
  }

  /** Records the status of recipients, in one write. @throws StoreFault; Fault `MAIL_TAKEN_OVER` */
  async note(
    recipients: readonly { readonly to: string; readonly messageId: string }[],
    status: RecipientStatus,
    detail: string,
  ): Promise<void> {
    const at = new Date(this.run.clock.now()).toISOString();
    for (const { to, messageId: message_id } of recipients)
      this.receipt = recordRecipient(this.receipt, to, { status, at, message_id, detail });
    await this.#inOrder(async () => await this.#put());
  }

  /**
   * Checks at the last moment before mailing that it is still this process's turn. An expired lease is renewed if no
   * other process has it. @throws StoreFault; Fault `MAIL_TAKEN_OVER`
   */
  async confirm(): Promise<void> {
    do {
      if (this.#isOverdue()) await this.#inOrder(async () => await this.#put());
      if ((await this.#document.listVersions()).at(-1) !== this.#version) throw this.#lose();
      // The check takes time, and this process may have slept in between.
    } while (this.#isOverdue());
  }

  /** Ends the turn, so that others may take theirs. Never throws: the receipt already has what matters. */
  async end(): Promise<void> {
    this.#stop.abort();
    if (this.#isLost) return;
    // Each entry was written when it happened. The next process goes on from there, after one lease at the latest.
    await this.#inOrder(async () => await this.#put(null)).catch(() => undefined);
  }

  async #renew(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.run.clock.sleep(RENEWAL_MS, signal);
        await this.#inOrder(async () => await this.#put());
      } catch {
        // The turn ended or was lost; or the store is down. If that lasts, the lease expires, and `confirm` finds out.
      }
    }
  }

  /** Writes one after the other: the last one must be the newest. */
  async #inOrder<T>(action: () => Promise<T>): Promise<T> {
    const done = this.#writing.then(action, action);
    this.#writing = done.catch(() => undefined);
    return await done;
  }

  /** @param held null to let other processes take over */
  async #put(held?: null): Promise<void> {
    if (this.#isLost) throw this.#lose();
    const begun = readClocks(this.run);
    const { held: _, ...receipt } = this.receipt;
    const value = held === null ? receipt : hold(receipt, this.#by, this.run);
    const next = { version: this.#version + 1, value };
    if (!(await this.#document.write(next))) throw this.#lose();
    this.#version = next.version;
    this.#renewed = begun;
  }

  /** By the longer of two durations: a lease that expires too early costs a request, too late a second mail. */
  #isOverdue(): boolean {
    return readClocks(this.run).some((ms, at) => ms - (this.#renewed[at] ?? 0) > LEASE_MS - MARGIN_MS);
  }

  #lose(): Fault {
    this.#isLost = true;
    this.#stop.abort();
    return new Fault(TAKEN_OVER, 'another worker has taken over, and mails the rest');
  }
}

function hold(receipt: Receipt, by: string, { clock }: Run): Receipt {
  return { ...receipt, held: { by, at: new Date(clock.now()).toISOString() } };
}

/**
 * Takes the next turn, before anything is computed, so that two workers do not both start.
 * @param prepare builds the first receipt from the newest one; `undefined` if nothing is left to do
 * @returns `other` if another process is mailing it now, `nothing` if nothing is left
 * @throws StoreFault; Fault `RECEIPT_INVALID`, `INTERRUPTED`
 */
export async function takeTurn(
  run: Run,
  place: ReceiptPlace,
  worker: string,
  prepare: (current: Receipt | undefined) => Receipt | undefined,
): Promise<MailingLease | 'other' | 'nothing'> {
  const document = openReceiptLog(run.ledger.store, place);
  const last = await document.read();
  if (prepare(last.value) === undefined) return 'nothing';
  const held = last.value?.held;
  // An earlier process of this worker is dead: two of them cannot open its state folder.
  const isOther = held !== undefined && last.value?.worker !== worker;
  if (isOther && (await isAtWork(run, place.date, document, last.version, held.at))) return 'other';
  const by = randomUUID();
  let renewed = readClocks(run);
  const taken = await document.update((now) => {
    renewed = readClocks(run);
    // Another process has taken its turn in the meantime.
    if (now?.held !== undefined && now.held.by !== held?.by) return undefined;
    // What the last holder wrote before this version counts. After anything it writes later, it mails nothing more.
    const receipt = prepare(now);
    return receipt && hold(receipt, by, run);
  });
  const { value } = taken;
  if (value?.held?.by === by) return new MailingLease(run, document, by, taken, value, renewed);
  return value?.held === undefined ? 'nothing' : 'other';
}

/** Whether the process that holds the receipt is alive. It gets a whole lease to renew, unless it has just done so. */
async function isAtWork(
  run: Run,
  date: string,
  document: Document<Receipt>,
  version: number,
  heldAt: string,
): Promise<boolean> {
  // Two clocks may differ by more than this; then only waiting shows it.
  if (Math.abs(run.clock.now() - Date.parse(heldAt)) < LEASE_MS) return true;
  run.log.info(
    { event: 'mail-watched', date, since: heldAt },
    `${date}: checking whether another worker is still mailing it`,
  );
  await pause(run, LEASE_MS);
  return (await document.read()).version !== version;
}

/** @throws Fault `INTERRUPTED` */
export async function pause({ clock, signal }: Run, ms: number): Promise<void> {
  await clock.sleep(ms, signal).catch((cause: unknown) => {
    assertNotAborted(signal);
    throw cause;
  });
}

/** Milliseconds by two clocks: one never jumps, the other keeps running while the machine sleeps. */
function readClocks({ clock }: Run): readonly number[] {
  return [performance.now(), clock.now()];
}
