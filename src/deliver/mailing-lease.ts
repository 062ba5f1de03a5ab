/**
 * Whose turn it is to mail a report: one process at a time, also when one sleeps and wakes up later. A store has no
 * "replace if it is still what I read", so each turn has a number, and its claim is an object that can be made only once.
 * Only the process that made it writes it again: what a process that fell behind still writes, nobody reads.
 *
 * Invariants:
 * - Nothing is mailed after a higher claim was seen. Who takes over makes the claim first and reads the last one's receipt
 *   after; who mails writes the recipient first and looks for a higher claim after. So one of the two sees the other.
 * - Durations are taken by the clock of whoever waits. What another clock wrote only tells whether waiting is worthwhile.
 *
 * What stays: a process that stops between that last look and the server's answer (microseconds, and the answer's time)
 * has mailed what the next one mails again, under the same Message-ID.
 */
import { randomUUID } from 'node:crypto';
import { assertNotAborted, Fault, isFault } from '../core/errors.ts';
import { claimKey, claimsPrefix, parseClaimTurn, receiptKey } from '../ledger/layout.ts';
import { encodeReceipt, parseReceipt, type Receipt } from '../mail/receipt.ts';
import type { DeliverContext } from './delivery.ts';

/** A process that has not said for so long that it is at work is taken for dead. */
export const LEASE_MS = 120_000;
/** How often it says so. */
export const RENEWAL_MS = 15_000;
/** It gives up its own lease earlier by the time that the server may need to hear the end of a message. */
const MARGIN_MS = 2 * RENEWAL_MS;
/** Before claims held the receipt they held who made them: those of dates that are mailed are still in stores. */
const OLD_CLAIM = /^\s*\{"worker":"[^"]*","at":"[^"]*"\}\s*$/;

const JSON_TYPE = { contentType: 'application/json' };

/** Where a receipt is. */
interface ReceiptPlace {
  readonly job: string;
  readonly date: string;
  /** What tells the report from others of the job. */
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
  /** What is written, or is being written. */
  receipt: Receipt;
  readonly #place: ReceiptPlace;
  readonly #by: string;
  readonly #stop = new AbortController();
  #number: number;
  /** When the last write began that said that it is at work. */
  #renewed: Instant;
  #writing: Promise<unknown> = Promise.resolve();
  #isLost = false;

  /** Made by `takeTurn`. @param renewed when its claim was begun */
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
   * Looks whether it is still this process's turn, in the last moment before something is mailed. A lease that ran out is
   * taken anew where nobody else has it. @throws StoreFault; Fault `MAIL_TAKEN_OVER`
   */
  async confirm(): Promise<void> {
    do {
      if (this.#isOverdue()) await this.#inOrder(async () => await this.#put());
      const { job, date, report } = this.#place;
      if (await this.context.store.head(claimKey(job, date, report, this.#number + 1))) throw this.#lose();
      // Asking takes time, and this process may have slept meanwhile.
    } while (this.#isOverdue());
  }

  /** Ends it, and leaves the receipt where it is looked for first. Never throws: what counts is in the claim already. */
  async end(): Promise<void> {
    this.#stop.abort();
    if (this.#isLost) return;
    const { store } = this.context;
    const { job, date, report } = this.#place;
    try {
      await this.#inOrder(async () => await this.#put(null));
      await store.put(receiptKey(job, date, report), { bytes: this.#encode(null) }, JSON_TYPE);
    } catch {
      // Each entry was written when it came about. Whoever goes on finds it in the claim, at the latest after a lease.
    }
  }

  async #renew(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.context.clock.sleep(RENEWAL_MS, signal);
        await this.#inOrder(async () => await this.#put());
      } catch {
        // It ended or was lost; or the store is away, and if that lasts the lease runs out, which `confirm` finds.
      }
    }
  }

  /** One write after the other: the last one must be the newest. */
  async #inOrder<T>(action: () => Promise<T>): Promise<T> {
    const done = this.#writing.then(action, action);
    this.#writing = done.catch(() => undefined);
    return await done;
  }

  /** @param held null when nobody is to be held off any more */
  async #put(held?: null): Promise<void> {
    if (this.#isLost) throw this.#lose();
    const begun = readInstant(this.context.clock);
    const { store } = this.context;
    const { job, date, report } = this.#place;
    if (this.#isOverdue()) {
      // Somebody may be taking over just now: only a claim of one's own tells who has it.
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
 * Takes the next turn, before anything is computed, so that two workers do not both begin.
 * @param prepare the receipt to begin with, from the newest there is; `undefined` when nothing is left to do
 * @returns `other` when somebody else mails it at the moment, `nothing` when nothing is left
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
  // A process of this worker is dead: two of them cannot open its state folder.
  const isOther = held !== undefined && last.receipt?.worker !== worker;
  if (isOther && (await isAtWork(context, place, last, held.at))) return 'other';
  const renewed = readInstant(clock);
  const number = last.number + 1;
  const by = randomUUID();
  const claim = encodeReceipt(hold({ ...receipt, turn: number }, by, clock.now()));
  if (!(await makeClaim(store, claimKey(job, date, report, number), claim))) return 'other';
  if (held !== undefined) {
    // What its holder wrote until this claim counts; whatever it writes from now on, it mails nothing after.
    receipt = prepare((await readClaim(context, place, last.number)).receipt) ?? receipt;
  }
  // For those who look for what is due: they ask for no claims.
  await store.put(receiptKey(job, date, report), { bytes: encodeReceipt({ ...receipt, turn: number }) }, JSON_TYPE);
  return new MailingLease(context, place, { receipt, number, by, renewed });
}

/**
 * Makes a claim that nobody has made. No two have the same bytes, for each names its process: so one that is there and has
 * ours is ours, whatever was answered. A request that something in between sent twice is answered as the second.
 */
async function makeClaim(store: TurnContext['store'], key: string, claim: Uint8Array): Promise<boolean> {
  if (await store.putIfAbsent(key, claim, JSON_TYPE)) return true;
  const made = await store.get(key);
  return made !== undefined && Buffer.compare(made, claim) === 0;
}

/** Whether the process that holds the receipt lives. It is given a whole lease to say so, unless it has just done. */
async function isAtWork(context: TurnContext, place: ReceiptPlace, last: Newest, heldAt: string): Promise<boolean> {
  const { clock, log, signal } = context;
  // Two clocks may differ by more than this; then only waiting tells.
  if (Math.abs(clock.now() - Date.parse(heldAt)) < LEASE_MS) return true;
  const { date } = place;
  log.info({ event: 'mail-watched', date, since: heldAt }, `${date}: looking whether another worker still mails it`);
  await clock.sleep(LEASE_MS, signal).catch((cause: unknown) => {
    assertNotAborted(signal);
    throw cause;
  });
  const now = await readNewest(context, place);
  return now.number !== last.number || now.receipt?.held?.at !== heldAt;
}

interface Newest {
  /** Of the highest claim; 0 when there is none. */
  readonly number: number;
  readonly receipt: Receipt | undefined;
}

/** What the process wrote that mailed last. Costs a listing and a read. @throws Fault `RECEIPT_INVALID` */
async function readNewest(context: TurnContext, place: ReceiptPlace): Promise<Newest> {
  const prefix = claimsPrefix(place.job, place.date, place.report);
  let number = 0;
  for await (const { key } of context.store.list(prefix)) number = Math.max(number, parseClaimTurn(prefix, key));
  return await readClaim(context, place, number);
}

async function readClaim({ store }: TurnContext, place: ReceiptPlace, number: number): Promise<Newest> {
  const { job, date, report } = place;
  const claim = number === 0 ? undefined : await store.get(claimKey(job, date, report, number));
  const isReceipt = claim !== undefined && !OLD_CLAIM.test(Buffer.from(claim).toString('utf8'));
  const bytes = isReceipt ? claim : await store.get(receiptKey(job, date, report));
  return { number, receipt: bytes && parseReceipt(bytes) };
}

/** Two clocks: the one does not leap, the other goes on while the machine sleeps. */
interface Instant {
  readonly steadyMs: number;
  readonly wallMs: number;
}

function readInstant(clock: TurnContext['clock']): Instant {
  return { steadyMs: performance.now(), wallMs: clock.now() };
}

/** The longer of the two: a lease that ran out too early costs a request, one too late a second mail. */
function elapsedMs(from: Instant, to: Instant): number {
  return Math.max(to.steadyMs - from.steadyMs, to.wallMs - from.wallMs);
}
