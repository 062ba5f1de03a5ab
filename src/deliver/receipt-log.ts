/** Where the receipt of a report of a date is: a document, which several workers may change. */
import { receiptPrefix } from '../ledger/layout.ts';
import { encodeReceipt, parseReceipt, type Receipt } from '../mail/receipt.ts';
import { Document } from '../store/document.ts';
import type { Store } from '../store/store.ts';

export interface ReceiptPlace {
  readonly job: string;
  readonly date: string;
  /** Distinguishes the report from the job's others. */
  readonly report: string;
}

/** Reading it throws Fault `RECEIPT_INVALID` for a damaged one: nobody may be mailed twice. */
export function openReceiptLog(store: Store, { job, date, report }: ReceiptPlace): Document<Receipt> {
  return new Document(store, {
    prefix: receiptPrefix(job, date, report),
    suffix: '.json',
    kept: 3,
    parse: (bytes, where) => parseReceipt(bytes, { job, date, where }),
    format: encodeReceipt,
  });
}
