/**
 * The receipt: who was mailed which revision of a report. Invariant: a recipient is written as `sending` before the
 * message leaves and as `sent` or `refused` after, so that a killed process repeats at most the one message whose fate
 * is unknown, under the same Message-ID. Pure: `run/` stores it.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { describeError, Fault } from '../core/errors.ts';

const recipientSchema = z.object({
  status: z.enum(['sending', 'sent', 'refused']),
  /** When the status was taken, ISO 8601 in UTC. */
  at: z.iso.datetime(),
  message_id: z.string().min(1),
  /** What the mail server said; empty while sending. */
  detail: z.string(),
});

const receiptSchema = z.object({
  version: z.literal(1),
  report: z.string().min(1),
  job: z.string().min(1),
  date: z.iso.date(),
  revision: z.int().positive(),
  /** Who is mailing: another worker leaves the rest to it while it is fresh. */
  worker: z.string(),
  /** By address, as `formatRecipientKey` writes it. */
  recipients: z.record(z.string(), recipientSchema),
});

export type RecipientReceipt = Readonly<z.infer<typeof recipientSchema>>;
export type Receipt = Readonly<Omit<z.infer<typeof receiptSchema>, 'recipients'>> & {
  readonly recipients: Readonly<Record<string, RecipientReceipt>>;
};

export interface MailIdentity {
  /** Template of the report: one job may send several reports to one person. */
  readonly report: string;
  readonly job: string;
  /** Trading date, `YYYY-MM-DD`. */
  readonly date: string;
  readonly revision: number;
  readonly recipient: string;
  /** Right side of the Message-ID: the domain of the sender. */
  readonly domain: string;
}

/** Hexadecimal digits of the hash in a Message-ID: 128 bits, beyond any chance of a collision. */
const MESSAGE_ID_HASH_DIGITS = 32;
/** Keeps the Message-ID far below the 998 characters of a header line. */
const MESSAGE_ID_JOB_CHARACTERS = 40;

/** A receipt in which nobody has been mailed yet. */
export function createReceipt(identity: Pick<Receipt, 'report' | 'job' | 'date' | 'revision' | 'worker'>): Receipt {
  const { report, job, date, revision, worker } = identity;
  return { version: 1, report, job, date, revision, worker, recipients: {} };
}

/** The receipt with this recipient's entry added or replaced. */
export function recordRecipient(receipt: Receipt, address: string, entry: RecipientReceipt): Receipt {
  return { ...receipt, recipients: { ...receipt.recipients, [formatRecipientKey(address)]: entry } };
}

/**
 * Who has still to be mailed this revision, each once, in the order given. `sending` counts as pending: the process
 * ended between the message and the receipt, and a repetition that can be recognised is better than a lost report.
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
    return receipt.recipients[key]?.status === 'sending';
  });
}

/** Recipients of a revision with a status. */
export function countRecipients(
  receipt: Receipt | undefined,
  revision: number,
  status: RecipientReceipt['status'],
): number {
  if (receipt?.revision !== revision) return 0;
  return Object.values(receipt.recipients).filter((entry) => entry.status === status).length;
}

/** A worker that has written nothing for this long is taken for dead. Longer than a mail server may take to answer. */
const LEASE_MS = 15 * 60_000;

/** Whether another worker is mailing this revision at the moment. */
export function isLeasedToOther(
  receipt: Receipt | undefined,
  revision: number,
  worker: string,
  nowMs: number,
): boolean {
  if (receipt?.revision !== revision || receipt.worker === worker) return false;
  const entries = Object.values(receipt.recipients);
  return entries.some((entry) => entry.status === 'sending' && nowMs - Date.parse(entry.at) < LEASE_MS);
}

/** `Desk@Example.com` and `desk@example.com` are one person, who must not get a report twice. */
export function formatRecipientKey(address: string): string {
  return address.trim().toLowerCase();
}

/** The same for the same mail, always; tells job, date and revision, and hides the recipient in a hash. */
export function buildMessageId(identity: MailIdentity): string {
  const { report, job, date, revision, recipient, domain } = identity;
  // JSON keeps the parts apart: no two identities can be written as the same text.
  const identityText = JSON.stringify([report, job, date, revision, formatRecipientKey(recipient)]);
  const hash = createHash('sha256').update(identityText).digest('hex').slice(0, MESSAGE_ID_HASH_DIGITS);
  const readable = job.replace(/[^A-Za-z0-9-]+/g, '-').slice(0, MESSAGE_ID_JOB_CHARACTERS);
  return `${readable}.${date}.r${revision}.${hash}@${domain}`;
}

export function encodeReceipt(receipt: Receipt): Uint8Array {
  return Buffer.from(`${JSON.stringify(receipt, null, 2)}\n`);
}

/** @throws Fault `RECEIPT_INVALID`: without a readable receipt nobody is mailed, as everybody might be mailed twice */
export function parseReceipt(bytes: Uint8Array): Receipt {
  try {
    return receiptSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  } catch (error) {
    const cause = error instanceof z.ZodError ? z.prettifyError(error) : describeError(error);
    throw new Fault('RECEIPT_INVALID', `the receipt cannot be read: ${cause}`, {
      hint: 'Restore or correct receipt.json in the store; removing it mails everybody again.',
      cause: error,
    });
  }
}
