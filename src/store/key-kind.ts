/**
 * The few things about the names of objects that a store acts upon: which may be written in parts, and which are rows to
 * be kept. All other names are the ledger's (`ledger/layout.ts`). Pure.
 */

/** Where files lie that are to become drops. */
export const SEALING_PREFIX = '_sealing/';
/** Which store it is. */
export const STORE_IDENTITY_KEY = '_flowdrop/store.json';

/**
 * What may be written in parts: files that are being sealed, what `flowdrop doctor` tries, and, where they are large or to be encrypted, the copies of
 * them to a partition or its history. So only there a killed worker can leave parts of its own.
 */
const PARTS_KEY = /^(?:_(?:sealing|doctor)\/.+|[^/]+\/(?:_history\/)?date=\d{4}-\d{2}-\d{2}\/.+)$/;
/** Whether the key is that of rows to be kept: Parquet, and not only while a date is being sealed. */
export function isDropFileKey(key: string): boolean {
  return key.endsWith('.parquet') && !key.startsWith(SEALING_PREFIX);
}

/** Whether an unfinished upload to the key can be one of ours. */
export function isWrittenInParts(key: string): boolean {
  return PARTS_KEY.test(key);
}
