/**
 * The receipt: who was mailed which revision of a report, and which process is mailing. Invariant: a recipient is
 * recorded as `sending` before the message leaves and as `sent` or `refused` after. So a killed process repeats at most
 * the one message whose fate is unknown, under the same Message-ID. Pure: `deliver/` stores it.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { describeError, Fault } from '../core/errors.ts';

const recipientSchema = z.object({
  /**
   * - `waiting`: to be mailed, not started
   * - `sending`: started, with an unknown result
   * - `failed`: certainly not delivered yet
   * - `skipped`: not to be mailed, for the reason in `detail`
   */
  status: z.enum(['waiting', 'sending', 'sent', 'refused', 'failed', 'skipped']),
  /** When the status was set, ISO 8601 in UTC. */
  at: z.iso.datetime(),
  /** Empty while no message has been started for this recipient. */
  message_id: z.string(),
  /** The mail server's answer, or the reason why nothing is mailed; empty while unknown. */
  detail: z.string(),
});

/** Revisions. More than a million, about the minutes in two years, means a damaged file. */
const countSchema = z.int().positive().max(1_000_000);

const heldSchema = z.object({
  /** The mailing process; two processes of one worker differ. */
  by: z.string(),
  /** When the process last renewed its lease, by its own clock. */
  at: z.iso.datetime(),
});

const receiptSchema = z.object({
  report: z.string().min(1),
  job: z.string().min(1),
  date: z.iso.date(),
  revision: countSchema,
  /** The worker that wrote it. */
  worker: z.string(),
  /** Present while a process mails: others leave the rest to it as long as it renews its lease. */
  held: heldSchema.optional(),
  /** By address, as returned by `formatRecipientKey`. */
  recipients: z.record(z.string(), recipientSchema),
  /** By address: the latest earlier revision that this recipient was mailed. */
  mailed_before: z.record(z.string(), countSchema).optional(),
  /** An operator chose the date: it does not count as the first date that runs reported on. */
  by_hand: z.boolean().optional(),
});

export type RecipientReceipt = Readonly<z.infer<typeof recipientSchema>>;
export type Receipt = Readonly<Omit<z.infer<typeof receiptSchema>, 'recipients' | 'mailed_before' | 'held'>> & {
  readonly held?: Readonly<z.infer<typeof heldSchema>> | undefined;
  readonly recipients: Readonly<Record<string, RecipientReceipt>>;
  readonly mailed_before?: Readonly<Record<string, number>> | undefined;
};

/** `report`: one job may send several to one recipient; `domain`: right side of the Message-ID, the sender's. */
type MailIdentity = Pick<Receipt, 'report' | 'job' | 'date' | 'revision'> &
  Readonly<Record<'recipient' | 'domain', string>>;

/** Hexadecimal digits of the hash in a Message-ID: 128 bits, so collisions are practically impossible. */
const MESSAGE_ID_HASH_DIGITS = 32;
/** Keeps the Message-ID far below the limit of 998 characters per header line. */
const MESSAGE_ID_JOB_CHARACTERS = 40;

type ReceiptIdentity = Pick<Receipt, 'report' | 'job' | 'date' | 'revision' | 'worker'>;

/**
 * The receipt of a revision: the existing one, taken over by this worker, or a new one without mailed recipients.
 * @param before the date's receipt, of any revision
 */
export function openReceipt(identity: ReceiptIdentity, before: Receipt | undefined, isByHand: boolean): Receipt {
  const { report, job, date, revision, worker } = identity;
  // A date that a run has reported on keeps counting as such.
  const byHand = isByHand && (before === undefined || before.by_hand === true) ? { by_hand: true } : {};
  if (before?.revision === revision) {
    const { by_hand: _, ...kept } = before;
    return { ...kept, worker, ...byHand };
  }
  const mailed = listMailed(before);
  return {
    ...{ report, job, date, revision, worker, recipients: listOwed(before) },
    ...(Object.keys(mailed).length > 0 ? { mailed_before: mailed } : {}),
    ...byHand,
  };
}

/** Latest revision that each recipient was mailed, by address. */
function listMailed(receipt: Receipt | undefined): Readonly<Record<string, number>> {
  if (receipt === undefined) return {};
  const sent = Object.entries(receipt.recipients).filter(([, { status }]) => status === 'sent');
  return { ...receipt.mailed_before, ...Object.fromEntries(sent.map(([key]) => [key, receipt.revision])) };
}

/**
 * Recipients without a `sent` entry in the earlier revision, as `failed` in this one: a test send of the new revision
 * must not make a run forget them.
 */
function listOwed(receipt: Receipt | undefined): Receipt['recipients'] {
  const owed = Object.entries(receipt?.recipients ?? {}).filter(([, { status }]) => status !== 'sent');
  const detail = `was not mailed revision ${receipt?.revision}`;
  return Object.fromEntries(owed.map(([key, { at }]) => [key, { status: 'failed', at, message_id: '', detail }]));
}

/** The earlier revision that this recipient was mailed; `undefined` if none. */
export function findMailedBefore(receipt: Receipt, address: string): number | undefined {
  const key = formatRecipientKey(address);
  const mailed = receipt.mailed_before ?? {};
  return Object.hasOwn(mailed, key) ? mailed[key] : undefined;
}

/** Whether the receipt has ever named this recipient: a recipient added to the list later is owed no past date. */
export function isKnownRecipient(receipt: Receipt, address: string): boolean {
  return (
    Object.hasOwn(receipt.recipients, formatRecipientKey(address)) || findMailedBefore(receipt, address) !== undefined
  );
}

/** Adds or replaces this recipient's entry. */
export function recordRecipient(receipt: Receipt, address: string, entry: RecipientReceipt): Receipt {
  return { ...receipt, recipients: { ...receipt.recipients, [formatRecipientKey(address)]: entry } };
}

/**
 * Recipients still to be mailed this revision, each once, in the given order. `sending` counts as pending: the process
 * ended between the message and the receipt, or no answer came. A repetition that can be recognised is better than a
 * lost report.
 */
export function pendingRecipients(
  receipt: Receipt | undefined,
  revision: number,
  addresses: readonly string[],
): readonly string[] {
  const seen = new Set<string>();
  return addresses.filter((address) => {
    const key = formatRecipientKey(address);
    if (seen.has(key)) return false;
    seen.add(key);
    if (receipt?.revision !== revision || !Object.hasOwn(receipt.recipients, key)) return true;
    return PENDING.some((status) => status === receipt.recipients[key]?.status);
  });
}

const PENDING: readonly RecipientReceipt['status'][] = ['waiting', 'sending', 'failed'];

/**
 * Marks these recipients as `waiting`, before anything is computed for them. A message with an unknown result stays
 * `sending`.
 */
export function claimRecipients(receipt: Receipt, addresses: readonly string[], at: string): Receipt {
  return addresses.reduce((claimed, address) => {
    const known = claimed.recipients[formatRecipientKey(address)];
    const isBegun = known?.status === 'sending';
    const entry = isBegun ? { ...known, at } : { status: 'waiting' as const, at, message_id: '', detail: '' };
    return recordRecipient(claimed, address, entry);
  }, receipt);
}

/** Number of recipients of a revision with this status. */
export function countRecipients(
  receipt: Receipt | undefined,
  revision: number,
  status: RecipientReceipt['status'],
): number {
  if (receipt?.revision !== revision) return 0;
  return Object.values(receipt.recipients).filter((entry) => entry.status === status).length;
}

/** `Desk@Example.com` and `desk@example.com` are one recipient, who must not get a report twice. */
export function formatRecipientKey(address: string): string {
  return address.trim().toLowerCase();
}

/**
 * The same id for the same mail, whichever worker sends it and however often: mail systems use it to drop repetitions.
 * It shows job, date and revision, and hides the recipient in a hash.
 */
export function buildMessageId(identity: MailIdentity): string {
  const { report, job, date, revision, recipient, domain } = identity;
  // JSON separates the parts: no two identities give the same text.
  const identityText = JSON.stringify([report, job, date, revision, formatRecipientKey(recipient)]);
  const hash = createHash('sha256').update(identityText).digest('hex').slice(0, MESSAGE_ID_HASH_DIGITS);
  const readable = job.replace(/[^A-Za-z0-9-]+/g, '-').slice(0, MESSAGE_ID_JOB_CHARACTERS);
  return `${readable}.${date}.r${revision}.${hash}@${domain}`;
}

export function encodeReceipt(receipt: Receipt): Uint8Array {
  return Buffer.from(`${JSON.stringify(receipt, null, 2)}\n`);
}

/**
 * Reads a receipt, which must be of this job and date.
 * @throws Fault `RECEIPT_INVALID`: without a readable receipt nothing is sent, because everyone might be mailed twice
 */
export function parseReceipt(
  bytes: Uint8Array,
  { job, date, where }: Readonly<Record<'job' | 'date' | 'where', string>>,
): Receipt {
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
