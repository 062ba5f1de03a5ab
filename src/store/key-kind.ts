/**
 * The few facts about object names that a store needs: which objects may be written in parts, and which are drop files.
 * For all other names see `ledger/layout.ts`. Pure.
 */

/** Prefix of everything but rows. The underscore makes Hive-style readers (Spark, Trino, Athena) skip it. */
export const RECORDS_PREFIX = '_flowdrop/';
/** Prefix of files that are being sealed. */
export const SEALING_PREFIX = `${RECORDS_PREFIX}sealing/`;
/** Where `flowdrop doctor` tests its rights. */
export const DOCTOR_PREFIX = `${RECORDS_PREFIX}doctor/`;
/** In a directory: files that are still being written. No object has such a key. */
export const TEMPORARIES_PREFIX = `${RECORDS_PREFIX}tmp/`;
/** Key of the store's identity. */
export const STORE_IDENTITY_KEY = `${RECORDS_PREFIX}store.json`;

/**
 * Objects that may be written in parts: files that are being sealed, test objects of `flowdrop doctor`, and, if they
 * are large or must be encrypted, their copies to a partition or its history. Only there can a killed worker leave
 * parts.
 */
const PARTS_KEY =
  /^(?:_flowdrop\/(?:sealing|doctor)\/.+|(?:_flowdrop\/)?[^/]+\/(?:history\/)?session=\d{4}-\d{2}-\d{2}\/.+)$/;

/** Names that no dataset may have: flowdrop's own folders and files have them. */
export const RESERVED_DATASETS: readonly string[] = ['alerts', 'doctor', 'reports', 'sealing', 'summary', 'tmp'];

/** Whether the key is that of a permanent Parquet file, not of one that is being sealed. */
export function isDropFileKey(key: string): boolean {
  return key.endsWith('.parquet') && !key.startsWith(SEALING_PREFIX);
}

/** Whether an unfinished upload to the key may be from flowdrop. */
export function isWrittenInParts(key: string): boolean {
  return PARTS_KEY.test(key);
}
