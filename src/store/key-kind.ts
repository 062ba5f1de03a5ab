/**
 * The few facts about object names that a store needs: which objects may be written in parts, and which are drop files.
 * For all other names see `ledger/layout.ts`. Pure.
 */

/** Prefix of files that are being sealed. */
export const SEALING_PREFIX = '_sealing/';
/** Key of the store's identity. */
export const STORE_IDENTITY_KEY = '_flowdrop/store.json';

/**
 * Objects that may be written in parts: files that are being sealed, test objects of `flowdrop doctor`, and, if they
 * are large or must be encrypted, their copies to a partition or its history. Only there can a killed worker leave
 * parts.
 */
const PARTS_KEY = /^(?:_(?:sealing|doctor)\/.+|[^/]+\/(?:_history\/)?date=\d{4}-\d{2}-\d{2}\/.+)$/;
/** Whether the key is that of a permanent Parquet file, not of one that is being sealed. */
export function isDropFileKey(key: string): boolean {
  return key.endsWith('.parquet') && !key.startsWith(SEALING_PREFIX);
}

/** Whether an unfinished upload to the key may be from flowdrop. */
export function isWrittenInParts(key: string): boolean {
  return PARTS_KEY.test(key);
}
