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
import type { Receipt } from '../mail/receipt.ts';
import type { Run } from '../run/run.ts';
import type { Document, DocumentVersion } from '../store/document.ts';
import { openReceiptLog, type ReceiptPlace } from './receipt-log.ts';

/** A process that has not renewed its lease for this long counts as dead. */
export const LEASE_MS = 120_000;
/** How often a process renews its lease. */
export const RENEWAL_MS = 15_000;
/** A process gives up its own lease this much earlier: the server may need the time to receive the end of a message. */
const MARGIN_MS = 2 * RENEWAL_MS;

type MailingRun = Pick<Run, 'ledger' | 'clock' | 'log' | 'signal'>;

export function isTakenOver(error: unknown): boolean {
  return isFault(error) && error.code === TAKEN_OVER;
}

const TAKEN_OVER = 'MAIL_TAKEN_OVER';

/** One process's turn, while it lasts. */
export class MailingLease {
  readonly run: MailingRun;
  /** The receipt as last written, or as being written. */
  receipt: Receipt;
  readonly #document: Document<Receipt>;
  readonly #by: string;
  readonly #stop = new AbortController();
  #version: number;
  /** When the last write that renewed the lease started. */
  #renewed: Instant;
  #writing: Promise<unknown> = Promise.resolve();
  #isLost = false;

  /** Created by `takeTurn`. @param renewed when its first version was started */
  constructor(
    run: MailingRun,
    document: Document<Receipt>,
    taken: { readonly receipt: Receipt; readonly version: number; readonly by: string; readonly renewed: Instant },
  ) {
    this.run = run;
    this.#document = document;
    this.receipt = taken.receipt;
    this.#version = taken.version;
    this.#by = taken.by;
    this.#renewed = taken.renewed;
    void this.#renew();
  }

  /** @throws StoreFault; Fault `MAIL_TAKEN_OVER` */
  async write(receipt: Receipt): Promise<void> {
    this.receipt = receipt;
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
    const begun = readInstant(this.run.clock);
    const { held: _, ...receipt } = this.receipt;
    const value = held === null ? receipt : hold(receipt, this.#by, this.run.clock.now());
    const next = { version: this.#version + 1, value };
    if (!(await this.#document.write(next))) throw this.#lose();
    this.#version = next.version;
    this.#renewed = begun;
  }

  #isOverdue(): boolean {
    return elapsedMs(this.#renewed, readInstant(this.run.clock)) > LEASE_MS - MARGIN_MS;
  }

  #lose(): Fault {
    this.#isLost = true;
    this.#stop.abort();
    return new Fault(TAKEN_OVER, 'another worker has taken over, and mails the rest');
  }
}

function hold(receipt: Receipt, by: string, nowMs: number): Receipt {
  return { ...receipt, held: { by, at: new Date(nowMs).toISOString() } };
}

/**
 * Takes the next turn, before anything is computed, so that two workers do not both start.
 * @param prepare builds the first receipt from the newest one; `undefined` if nothing is left to do
 * @returns `other` if another process is mailing it now, `nothing` if nothing is left
 * @throws StoreFault; Fault `RECEIPT_INVALID`, `INTERRUPTED`
 */
export async function takeTurn(
  run: MailingRun,
  place: ReceiptPlace,
  worker: string,
  prepare: (current: Receipt | undefined) => Receipt | undefined,
): Promise<MailingLease | 'other' | 'nothing'> {
  const { ledger, clock } = run;
  const document = openReceiptLog(ledger.store, place);
  const last = await document.read();
  if (prepare(last.value) === undefined) return 'nothing';
  const held = last.value?.held;
  // An earlier process of this worker is dead: two of them cannot open its state folder.
  const isOther = held !== undefined && last.value?.worker !== worker;
  if (isOther && (await isAtWork(run, place, document, last, held.at))) return 'other';
  const by = randomUUID();
  let renewed = readInstant(clock);
  const { version, value } = await document.update((now) => {
    renewed = readInstant(clock);
    // Another process has taken its turn in the meantime.
    if (now?.held !== undefined && now.held.by !== held?.by) return undefined;
    // What the last holder wrote before this version counts. After anything it writes later, it mails nothing more.
    const receipt = prepare(now);
    return receipt && hold(receipt, by, clock.now());
  });
  if (value?.held?.by === by) return new MailingLease(run, document, { receipt: value, version, by, renewed });
  return value?.held === undefined ? 'nothing' : 'other';
}

/** Whether the process that holds the receipt is alive. It gets a whole lease to renew, unless it has just done so. */
async function isAtWork(
  { clock, log, signal }: MailingRun,
  { date }: ReceiptPlace,
  document: Document<Receipt>,
  last: DocumentVersion<Receipt>,
  heldAt: string,
): Promise<boolean> {
  // Two clocks may differ by more than this; then only waiting shows it.
  if (Math.abs(clock.now() - Date.parse(heldAt)) < LEASE_MS) return true;
  log.info(
    { event: 'mail-watched', date, since: heldAt },
    `${date}: checking whether another worker is still mailing it`,
  );
  await clock.sleep(LEASE_MS, signal).catch((cause: unknown) => {
    assertNotAborted(signal);
    throw cause;
  });
  return (await document.read()).version !== last.version;
}

/** Two clocks: one never jumps, the other keeps running while the machine sleeps. */
interface Instant {
  readonly steadyMs: number;
  readonly wallMs: number;
}

function readInstant(clock: MailingRun['clock']): Instant {
  return { steadyMs: performance.now(), wallMs: clock.now() };
}

/** The longer of the two: a lease that expires too early costs a request, too late a second mail. */
function elapsedMs(from: Instant, to: Instant): number {
  return Math.max(to.steadyMs - from.steadyMs, to.wallMs - from.wallMs);
}
