/**
 * Decides which process mails a report: one at a time, even if one sleeps and wakes up later. A store has no
 * compare-and-swap, so each turn has a number, and its claim is an object that can be created only once. Only the
 * process that created a claim rewrites it: nothing reads what a process that fell behind still writes.
 *
 * Invariants:
 * - Nothing is mailed after a higher claim was seen. A process that takes over first creates its claim, then reads the
 * last claim's receipt. A process that mails first writes the recipient, then looks for a higher claim. So one of the
 * two sees the other.
 * - Durations are measured by the clock of the process that waits. Times from another clock only show whether waiting
 * is worthwhile.
 *
 * Remaining risk: if a process stops between that last look and the server's answer (microseconds, plus the answer's
 * time), the next one mails the same message again, under the same Message-ID.
 */
import { randomUUID } from 'node:crypto';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import { claimKey, claimsPrefix, parseClaimTurn, receiptKey } from '../ledger/layout.ts';
import { encodeReceipt, parseReceipt, type Receipt } from '../mail/receipt.ts';
import type { DeliverContext } from './delivery.ts';

/** A process that has not renewed its lease for this long counts as dead. */
export const LEASE_MS = 120_000;
/** How often a process renews its lease. */
export const RENEWAL_MS = 15_000;
/** A process gives up its own lease this much earlier: the server may need the time to receive the end of a message. */
const MARGIN_MS = 2 * RENEWAL_MS;

const JSON_TYPE = { contentType: 'application/json' };

/** Place of a receipt in the store. */
interface ReceiptPlace {
  readonly job: string;
  readonly date: string;
  /** Distinguishes the report from the job's others. */
  readonly report: string;
}

type TurnContext = Pick<DeliverContext, 'store' | 'clock' | 'log' | 'signal'>;

export function isTakenOver(error: unknown): boolean {
  return isFault(error) && error.code === TAKEN_OVER;
}

const TAKEN_OVER = 'MAIL_TAKEN_OVER';

/** One process's turn, while it lasts. */
export class MailingLease {
  readonly context: TurnContext;
  /** The receipt as last written, or as being written. */
  receipt: Receipt;
  readonly #place: ReceiptPlace;
  readonly #by: string;
  readonly #stop = new AbortController();
  #number: number;
  /** When the last write that renewed the lease started. */
  #renewed: Instant;
  #writing: Promise<unknown> = Promise.resolve();
  #isLost = false;

  /** Created by `takeTurn`. @param renewed when its claim was started */
  constructor(
    context: TurnContext,
    place: ReceiptPlace,
    claim: { readonly receipt: Receipt; readonly number: number; readonly by: string; readonly renewed: Instant },
  ) {
    this.context = context;
    this.#place = place;
    this.receipt = claim.receipt;
    this.#number = claim.number;
    this.#by = claim.by;
    this.#renewed = claim.renewed;
    void this.#renew();
  }

  /** @throws StoreFault; Fault `MAIL_TAKEN_OVER` */
  async write(receipt: Receipt): Promise<void> {
    this.receipt = receipt;
    await this.#inOrder(async () => await this.#put());
  }

  /**
   * Checks at the last moment before mailing that it is still this process's turn. An expired lease is claimed again if
   * no other process has it. @throws StoreFault; Fault `MAIL_TAKEN_OVER`
   */
  async confirm(): Promise<void> {
    do {
      if (this.#isOverdue()) await this.#inOrder(async () => await this.#put());
      const { job, date, report } = this.#place;
      if (await this.context.store.head(claimKey(job, date, report, this.#number + 1))) throw this.#lose();
      // The check takes time, and this process may have slept in between.
    } while (this.#isOverdue());
  }

  /**
   * Ends the turn, and writes the receipt to where readers look first. Never throws: the claim already has what
   * matters.
   */
  async end(): Promise<void> {
    this.#stop.abort();
    if (this.#isLost) return;
    const { store } = this.context;
    const { job, date, report } = this.#place;
    try {
      await this.#inOrder(async () => await this.#put(null));
      await store.put(receiptKey(job, date, report), { bytes: this.#encode(null) }, JSON_TYPE);
    } catch {
      // Each entry was written when it happened. The next process finds it in the claim, after one lease at the latest.
    }
  }

  async #renew(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.context.clock.sleep(RENEWAL_MS, signal);
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
    const begun = readInstant(this.context.clock);
    const { store } = this.context;
    const { job, date, report } = this.#place;
    if (this.#isOverdue()) {
      // Another process may be taking over right now: only a new claim shows who has the turn.
      const next = claimKey(job, date, report, this.#number + 1);
      if (!(await makeClaim(store, next, this.#encode(held, this.#number + 1)))) throw this.#lose();
      this.#number += 1;
    } else {
      await store.put(claimKey(job, date, report, this.#number), { bytes: this.#encode(held) }, JSON_TYPE);
    }
    this.#renewed = begun;
  }

  #encode(held?: null, turn = this.#number): Uint8Array {
    const { held: _, ...receipt } = this.receipt;
    return encodeReceipt(
      held === null ? { ...receipt, turn } : hold({ ...receipt, turn }, this.#by, this.context.clock.now()),
    );
  }

  #isOverdue(): boolean {
    return elapsedMs(this.#renewed, readInstant(this.context.clock)) > LEASE_MS - MARGIN_MS;
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
  context: TurnContext,
  place: ReceiptPlace,
  worker: string,
  prepare: (current: Receipt | undefined) => Receipt | undefined,
): Promise<MailingLease | 'other' | 'nothing'> {
  const { store, clock } = context;
  const { job, date, report } = place;
  const last = await readNewest(context, place);
  let receipt = prepare(last.receipt);
  if (receipt === undefined) return 'nothing';
  const { held } = last.receipt ?? {};
  // An earlier process of this worker is dead: two of them cannot open its state folder.
  const isOther = held !== undefined && last.receipt?.worker !== worker;
  if (isOther && (await isAtWork(context, place, last, held.at))) return 'other';
  const renewed = readInstant(clock);
  const number = last.number + 1;
  const by = randomUUID();
  const claim = encodeReceipt(hold({ ...receipt, turn: number }, by, clock.now()));
  if (!(await makeClaim(store, claimKey(job, date, report, number), claim))) return 'other';
  if (held !== undefined) {
    // What the holder wrote before this claim counts. After anything it writes later, it mails nothing more.
    receipt = prepare((await readClaim(context, place, last.number)).receipt) ?? receipt;
  }
  // For processes that look for what is due: they do not read claims.
  await store.put(receiptKey(job, date, report), { bytes: encodeReceipt({ ...receipt, turn: number }) }, JSON_TYPE);
  return new MailingLease(context, place, { receipt, number, by, renewed });
}

/**
 * Creates a claim that does not exist yet. No two have the same bytes, because each names its process: an existing
 * claim with our bytes is ours, even if the answer said otherwise. If a proxy sent the request twice, the answer is
 * that of the second one.
 */
async function makeClaim(store: TurnContext['store'], key: string, claim: Uint8Array): Promise<boolean> {
  if (await store.putIfAbsent(key, claim, JSON_TYPE)) return true;
  const made = await store.get(key);
  return made !== undefined && Buffer.compare(made, claim) === 0;
}

/** Whether the process that holds the receipt is alive. It gets a whole lease to renew, unless it has just done so. */
async function isAtWork(context: TurnContext, place: ReceiptPlace, last: Newest, heldAt: string): Promise<boolean> {
  const { clock, log, signal } = context;
  // Two clocks may differ by more than this; then only waiting shows it.
  if (Math.abs(clock.now() - Date.parse(heldAt)) < LEASE_MS) return true;
  const { date } = place;
  log.info(
    { event: 'mail-watched', date, since: heldAt },
    `${date}: checking whether another worker is still mailing it`,
  );
  await clock.sleep(LEASE_MS, signal).catch((cause: unknown) => {
    assertNotAborted(signal);
    throw cause;
  });
  const now = await readNewest(context, place);
  return now.number !== last.number || now.receipt?.held?.at !== heldAt;
}

interface Newest {
  /** Number of the highest claim; 0 if there is none. */
  readonly number: number;
  readonly receipt: Receipt | undefined;
}

/** What the last mailing process wrote. Costs a listing and a read. @throws Fault `RECEIPT_INVALID` */
async function readNewest(context: TurnContext, place: ReceiptPlace): Promise<Newest> {
  const prefix = claimsPrefix(place.job, place.date, place.report);
  let number = 0;
  for await (const { key } of context.store.list(prefix)) number = Math.max(number, parseClaimTurn(prefix, key));
  return await readClaim(context, place, number);
}

async function readClaim({ store }: TurnContext, place: ReceiptPlace, number: number): Promise<Newest> {
  const { job, date, report } = place;
  const claimAt = claimKey(job, date, report, number);
  const claim = number === 0 ? undefined : await store.get(claimAt);
  const key = claim === undefined ? receiptKey(job, date, report) : claimAt;
  const bytes = claim ?? (await store.get(key));
  return { number, receipt: bytes && parseReceipt(bytes, { job, date, where: `${store.url}/${key}` }) };
}

/** Two clocks: one never jumps, the other keeps running while the machine sleeps. */
interface Instant {
  readonly steadyMs: number;
  readonly wallMs: number;
}

function readInstant(clock: TurnContext['clock']): Instant {
  return { steadyMs: performance.now(), wallMs: clock.now() };
}

/** The longer of the two: a lease that expires too early costs a request, too late a second mail. */
function elapsedMs(from: Instant, to: Instant): number {
  return Math.max(to.steadyMs - from.steadyMs, to.wallMs - from.wallMs);
}
