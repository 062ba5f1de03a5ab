/**
 * The receipt of a report of a date: who was mailed which revision, and which process is mailing. It is a document of the
 * store, which several workers may change. Invariant: a recipient is recorded as `sending` before the message leaves and
 * as `sent` or `refused` after. So a killed process repeats at most the one message whose fate is unknown, under the same
 * Message-ID. One process mails a report at a time, even if one sleeps and wakes up later: who holds the receipt writes its
 * next version, and who takes it over writes one with its own name.
 *
 * - Nothing is mailed after another process has written a version. A process that mails first writes the recipient, then
 * looks for a higher version; one that takes over first writes its version, upon what the last holder wrote.
 * - Durations are measured by the clock of the process that waits. Times from another clock only show whether waiting
 * is worthwhile.
 *
 * Remaining risk: if a process stops between that last look and the server's answer (microseconds, plus the answer's
 * time), the next one mails the same message again, under the same Message-ID.
 */
import { createHash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { describeError, Fault } from '../core/errors.ts';
import { receiptPrefix } from '../ledger/layout.ts';
import { pause, type Run } from '../run/run.ts';
import { Document } from '../store/document.ts';
import type { Store } from '../store/store.ts';
import type { ReportPlace } from './report-copies.ts';

const recipientSchema = z
  .object({
    /**
     * - `waiting`: to be mailed, not started
     * - `sending`: started, with an unknown result
     * - `written`: to a folder, and not received until a mail server takes it
     * - `failed`: certainly not delivered yet
     * - `skipped`: not to be mailed, for the reason in `detail`
     */
    status: z.enum(['waiting', 'sending', 'sent', 'written', 'refused', 'failed', 'skipped']),
    /** When the status was set, ISO 8601 in UTC. */
    at: z.iso.datetime(),
    /** Empty while no message has been started for this recipient. */
    message_id: z.string(),
    /** The mail server's answer, or the reason why nothing is mailed; empty while unknown. */
    detail: z.string(),
  })
  .readonly();

/** Revisions. More than a million, about the minutes in two years, means a damaged file. */
const countSchema = z.int().positive().max(1_000_000);

const receiptSchema = z
  .object({
    report: z.string().min(1),
    job: z.string().min(1),
    date: z.iso.date(),
    revision: countSchema,
    /** The worker that wrote it. */
    worker: z.string(),
    /**
     * Present while a process mails: others leave the rest to it as long as it renews its lease. `by`: the process, as two of
     * one worker differ; `at`: when it last renewed the lease, by its own clock.
     */
    held: z.object({ by: z.string(), at: z.iso.datetime() }).optional(),
    /** By address, as returned by `formatRecipientKey`. */
    recipients: z.record(z.string(), recipientSchema).readonly(),
    /** By address: the latest earlier revision that this recipient was mailed. */
    mailed_before: z.record(z.string(), countSchema).readonly().optional(),
    /** The same of what was only written to a folder. */
    written_before: z.record(z.string(), countSchema).readonly().optional(),
    /** An operator chose the date: it does not count as the first date that runs reported on. */
    by_hand: z.boolean().optional(),
  })
  .readonly();

export type Receipt = z.infer<typeof receiptSchema>;

/** Hexadecimal digits of the hash in a Message-ID: 128 bits, so collisions are practically impossible. */
const MESSAGE_ID_HASH_DIGITS = 32;
/** Keeps the Message-ID far below the limit of 998 characters per header line. */
const MESSAGE_ID_JOB_CHARACTERS = 40;

/**
 * Reading it throws Fault `RECEIPT_INVALID` for one that is damaged, or of another job or date: without a readable receipt
 * nothing is sent, because everyone might be mailed twice.
 */
export function openReceiptLog(store: Store, { job, date, report }: Omit<ReportPlace, 'revision'>): Document<Receipt> {
  return new Document(store, {
    prefix: receiptPrefix(job, date, report),
    suffix: '.json',
    kept: 3,
    parse: (bytes, where) => parseReceipt(bytes, where, job, date),
    format: (receipt) => Buffer.from(`${JSON.stringify(receipt, null, 2)}\n`),
  });
}

/**
 * The receipt of a revision: the existing one, taken over by this worker, or a new one without mailed recipients.
 * @param before the date's receipt, of any revision
 * @param delivers whether what was only written to a folder waits for a person to send it
 */
export function openReceipt(
  identity: Pick<Receipt, 'report' | 'job' | 'date' | 'revision' | 'worker'>,
  before: Receipt | undefined,
  isByHand: boolean,
  delivers: boolean,
): Receipt {
  // A date that a run has reported on keeps counting as such.
  const byHand = isByHand && (before === undefined || before.by_hand === true) ? { by_hand: true } : {};
  if (before === undefined) return { ...identity, recipients: {}, ...byHand };
  if (before.revision === identity.revision) {
    const { by_hand: _, ...kept } = before;
    return { ...kept, worker: identity.worker, ...byHand };
  }
  const mailed: Record<string, number> = { ...before.mailed_before };
  const written: Record<string, number> = { ...before.written_before };
  const recipients: Record<string, Receipt['recipients'][string]> = {};
  const detail = `was not mailed revision ${before.revision}`;
  for (const [key, entry] of Object.entries(before.recipients)) {
    const { status, at } = entry;
    if (status === 'sent') {
      mailed[key] = before.revision;
      delete written[key];
      continue;
    }
    if (status === 'written') written[key] = before.revision;
    // A test send of the new revision must not make a run forget them.
    recipients[key] = delivers && status === 'written' ? entry : { status: 'failed', at, message_id: '', detail };
  }
  return {
    ...{ ...identity, recipients },
    ...(Object.keys(mailed).length > 0 ? { mailed_before: mailed } : {}),
    ...(Object.keys(written).length > 0 ? { written_before: written } : {}),
    ...byHand,
  };
}

/**
 * The earlier revision that this recipient was mailed; `undefined` if none.
 * @param delivers whether this one will be received; else, what is in the folder counts, too
 */
export function findMailedBefore(receipt: Receipt, address: string, delivers: boolean): number | undefined {
  const key = formatRecipientKey(address);
  return (delivers ? undefined : receipt.written_before?.[key]) ?? receipt.mailed_before?.[key];
}

/** Whether the mail of the date for this recipient is only in a folder: the newest, or one that nothing has changed since. */
export function isOnlyWritten({ recipients, written_before }: Receipt, address: string): boolean {
  const key = formatRecipientKey(address);
  const status = recipients[key]?.status;
  return status === 'written' || (status === 'skipped' && written_before?.[key] !== undefined);
}

/** Whether the receipt has ever named this recipient: a recipient added to the list later is owed no past date. */
export function isKnownRecipient(receipt: Receipt, address: string): boolean {
  return formatRecipientKey(address) in receipt.recipients || findMailedBefore(receipt, address, true) !== undefined;
}

/** Adds or replaces this recipient's entry. */
function recordRecipient(receipt: Receipt, address: string, entry: Receipt['recipients'][string]): Receipt {
  return { ...receipt, recipients: { ...receipt.recipients, [formatRecipientKey(address)]: entry } };
}

/**
 * Addresses still to be mailed this revision, each once, in the given order. `sending` counts as pending: the process
 * ended between the message and the receipt, or no answer came. A repetition that can be recognised is better than a
 * lost report. @param delivers whether there is a server, which is owed to those whose mail is only in a folder
 */
export function pendingRecipients(
  receipt: Receipt | undefined,
  revision: number,
  addresses: readonly string[],
  delivers: boolean,
) {
  const known = receipt?.revision === revision ? receipt.recipients : {};
  const keys = addresses.map(formatRecipientKey);
  return addresses.filter((_, at) => {
    const key = keys[at] ?? '';
    if (keys.indexOf(key) !== at) return false;
    if (delivers && receipt && isOnlyWritten(receipt, key)) return true;
    return ['waiting', 'sending', 'failed'].includes(known[key]?.status ?? 'waiting');
  });
}

/**
 * Marks these recipients as `waiting`, before anything is computed for them. A message with an unknown result stays
 * `sending`.
 */
export function claimRecipients(receipt: Receipt, addresses: readonly string[], at: string): Receipt {
  return addresses.reduce((claimed, address) => {
    const known = claimed.recipients[formatRecipientKey(address)];
    const entry = known?.status === 'sending' ? known : { status: 'waiting' as const, message_id: '', detail: '' };
    return recordRecipient(claimed, address, { ...entry, at });
  }, receipt);
}

/** Number of recipients who were sent this revision. */
export function countSent(receipt: Receipt | undefined, revision: number): number {
  if (receipt?.revision !== revision) return 0;
  return Object.values(receipt.recipients).filter(({ status }) => status === 'sent').length;
}

/** `Desk@Example.com` and `desk@example.com` are one recipient, who must not get a report twice. */
export function formatRecipientKey(address: string): string {
  return address.trim().toLowerCase();
}

/**
 * The same id for the same mail, whichever worker sends it and however often: mail systems use it to drop repetitions.
 * It shows job, date and revision, and hides the recipient in a hash.
 * @param domain right side of the id, the sender's
 */
export function buildMessageId(
  { report, job, date, revision }: ReportPlace,
  recipient: string,
  domain: string,
): string {
  // JSON separates the parts: no two identities give the same text.
  const identityText = JSON.stringify([report, job, date, revision, formatRecipientKey(recipient)]);
  const hash = createHash('sha256').update(identityText).digest('hex').slice(0, MESSAGE_ID_HASH_DIGITS);
  const readable = job.replace(/[^A-Za-z0-9-]+/g, '-').slice(0, MESSAGE_ID_JOB_CHARACTERS);
  return `${readable}.${date}.r${revision}.${hash}@${domain}`;
}

function parseReceipt(bytes: Uint8Array, where: string, job: string, date: string): Receipt {
  const invalid = (what: string, cause?: unknown) =>
    new Fault('RECEIPT_INVALID', `${where} ${what}, so the report of ${date} is mailed to nobody`, {
      hint: 'Restore or correct the file in the store. If you delete its folder, everyone is mailed again.',
      cause,
    });
  let receipt: Receipt;
  try {
    receipt = receiptSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error).replaceAll('\n', ' ') : describeError(error);
    throw invalid(`is not a receipt (${why})`, error);
  }
  if (receipt.job === job && receipt.date === date) return receipt;
  throw invalid(`is the receipt of ${receipt.job} ${receipt.date}`);
}

/** A process that has not renewed its lease for this long counts as dead. */
export const LEASE_MS = 120_000;
/** How often a process renews its lease. */
export const RENEWAL_MS = 15_000;
/** A process gives up its own lease this much earlier: the server may need the time to receive the end of a message. */
const MARGIN_MS = 2 * RENEWAL_MS;
/** Of a machine that sleeps again and again, or a store that keeps nothing. */
const MAX_CONFIRMATIONS = 20;

/** One process's turn, while it lasts. */
export type MailingLease = ReturnType<typeof startTurn>;

/** @param taken the version that this process has just written @param begun when that write was started */
function startTurn(
  run: Run,
  document: Document<Receipt>,
  by: string,
  taken: { readonly version: number; readonly value: Receipt },
  begun: readonly number[],
) {
  const ending = new AbortController();
  let { version, value: receipt } = taken;
  /** When the last write that renewed the lease started. */
  let renewed = begun;
  let writing: Promise<unknown> = Promise.resolve();
  let isLost = false;

  const lose = (): Fault => {
    isLost = true;
    ending.abort();
    return new Fault('MAIL_TAKEN_OVER', 'another worker has taken over, and mails the rest');
  };
  /** Writes one after the other: the last one must be the newest. @param isOver lets other processes take over */
  const put = async (isOver = false): Promise<void> => {
    const done = writing
      .catch(() => undefined)
      .then(async () => {
        if (isLost) throw lose();
        const started = readClocks(run);
        const { held: _, ...rest } = receipt;
        const next = { version: version + 1, value: isOver ? rest : hold(rest, by, run) };
        if (!(await document.write(next))) throw lose();
        version = next.version;
        renewed = started;
      });
    writing = done.catch(() => undefined);
    await done;
  };
  /** By the longer of two durations: a lease that expires too early costs a request, too late a second mail. */
  const isOverdue = () => readClocks(run).some((ms, at) => ms - (renewed[at] ?? 0) > LEASE_MS - MARGIN_MS);
  const renew = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      try {
        await run.clock.sleep(RENEWAL_MS, ending.signal);
        await put();
      } catch {
        // The turn ended or was lost; or the store is down. If that lasts, the lease expires, and `confirm` finds out.
      }
    }
  };
  void renew();
  return {
    run,
    /** The receipt as last written, or as being written. */
    get receipt() {
      return receipt;
    },
    /** Records the status of recipients, in one write. @throws StoreFault; Fault `MAIL_TAKEN_OVER` */
    async note(
      recipients: readonly { readonly to: string; readonly messageId: string }[],
      status: Receipt['recipients'][string]['status'],
      detail: string,
    ): Promise<void> {
      const at = new Date(run.clock.now()).toISOString();
      for (const { to, messageId: message_id } of recipients)
        receipt = recordRecipient(receipt, to, { status, at, message_id, detail });
      await put();
    },
    /**
     * Checks at the last moment before mailing that it is still this process's turn. An expired lease is renewed if no
     * other process has it; a version that the store said to have, and has not, is written again.
     * @throws StoreFault; Fault `MAIL_TAKEN_OVER`
     */
    async confirm(): Promise<void> {
      for (let tries = 0; tries < MAX_CONFIRMATIONS; tries += 1) {
        if (isOverdue()) await put();
        const versions = await document.listVersions();
        // The renewal may have written the newest of these.
        await writing;
        const newest = versions.at(-1) ?? 0;
        if (newest > version) throw lose();
        if (newest < version) await put();
        // The check takes time, and this process may have slept in between.
        else if (!isOverdue()) return;
      }
      throw lose();
    },
    /** Ends the turn, so that others may take theirs. Never throws: the receipt already has what matters. */
    async end(): Promise<void> {
      ending.abort();
      // Each entry was written when it happened. The next process goes on from there, after one lease at the latest.
      if (!isLost) await put(true).catch(() => undefined);
    },
  };
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
  place: Omit<ReportPlace, 'revision'>,
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
  if (value?.held?.by === by) return startTurn(run, document, by, { ...taken, value }, renewed);
  return value?.held === undefined ? 'nothing' : 'other';
}

/** Whether the process that holds the receipt is alive. It gets a whole lease to renew, unless it has just done so. */
async function isAtWork(run: Run, date: string, document: Document<Receipt>, version: number, heldAt: string) {
  // Two clocks may differ by more than this; then only waiting shows it.
  if (Math.abs(run.clock.now() - Date.parse(heldAt)) < LEASE_MS) return true;
  run.log.info(
    { event: 'mail-watched', date, since: heldAt },
    `${date}: checking whether another worker is still mailing it`,
  );
  await pause(run, LEASE_MS);
  return (await document.read()).version !== version;
}

/** Milliseconds by two clocks: one never jumps, the other keeps running while the machine sleeps. */
function readClocks({ clock }: Run): readonly number[] {
  return [performance.now(), clock.now()];
}
