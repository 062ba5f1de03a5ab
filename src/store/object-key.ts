/**
 * The rules for keys, the few names that a store itself knows, and the location of a job's drops: the value of `drop.to`. Invariant: a valid key means the same object in a
 * directory and in S3, stays inside the store's root, and appears in listings. An
 * unsupported address is an error; it is never used as the name of a directory. Pure; for the layout of keys see
 * `ledger/layout.ts`.
 */

import { resolve } from 'node:path';
import { isTemporaryName } from '../core/atomic-file.ts';
import { Fault } from '../core/errors.ts';

/** Prefix of everything but rows. The underscore makes Hive-style readers (Spark, Trino, Athena) skip it. */
export const RECORDS_PREFIX = '_flowdrop/';
export const SEALING_PREFIX = `${RECORDS_PREFIX}sealing/`;
/** Where `flowdrop doctor` tests its rights. */
export const DOCTOR_PREFIX = `${RECORDS_PREFIX}doctor/`;
/** In a directory: files that are still being written. No object has such a key. */
export const TEMPORARIES_PREFIX = `${RECORDS_PREFIX}tmp/`;
export const STORE_IDENTITY_KEY = `${RECORDS_PREFIX}store.json`;

/** Names that no dataset may have: flowdrop's own folders and files have them. */
export const RESERVED_DATASETS: readonly string[] = ['alerts', 'doctor', 'reports', 'sealing', 'summary', 'tmp'];

/** S3 allows 1,024 bytes of UTF-8 for prefix and key together. */
const MAX_KEY_BYTES = 1024;
/** A file system allows 255 bytes for one name. */
const MAX_SEGMENT_BYTES = 255;
/** Control characters break S3's XML listings, lone surrogates have no UTF-8, a backslash is a separator elsewhere. */
const FORBIDDEN_CHARACTERS = /[\p{Cc}\p{Cs}\\]/u;
/** Half of a character above U+FFFF. */
const FIRST_SURROGATE = 0xd800;

/** @throws Fault `KEY_INVALID` (usage) */
export function assertKey(key: string): void {
  assertCharacters(key);
  for (const segment of key.split('/')) assertSegment(key, segment);
}

/** A prefix may be empty, and may end anywhere in a name: `trades/session=2026-`. @throws Fault `KEY_INVALID` (usage) */
export function assertPrefix(prefix: string): void {
  assertCharacters(prefix);
  const complete = prefix.split('/').slice(0, -1);
  for (const segment of complete) assertSegment(prefix, segment);
}

/**
 * Compares keys by their UTF-8 bytes, as S3 lists them. The order of UTF-16, which JavaScript compares by, differs only
 * from the first surrogate on.
 */
export function compareKeys(a: string, b: string): number {
  const shared = Math.min(a.length, b.length);
  for (let at = 0; at < shared; at += 1) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (left === right) continue;
    if (left < FIRST_SURROGATE || right < FIRST_SURROGATE) return left - right;
    return Buffer.compare(Buffer.from(a), Buffer.from(b));
  }
  return a.length - b.length;
}

/** Whether the key is that of a permanent Parquet file, not of one that is being sealed. */
export function isDropFileKey(key: string): boolean {
  return key.endsWith('.parquet') && !key.startsWith(SEALING_PREFIX);
}

function assertCharacters(key: string): void {
  if (FORBIDDEN_CHARACTERS.test(key))
    throw invalid(key, 'has a control character, a backslash or an incomplete character');
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) throw invalid(key, `is longer than ${MAX_KEY_BYTES} bytes`);
}

function assertSegment(key: string, segment: string): void {
  if (segment === '') throw invalid(key, 'is empty, absolute, ends with / or has // in it');
  if (segment === '.' || segment === '..') throw invalid(key, `has the segment ${segment}`);
  if (isTemporaryName(segment)) throw invalid(key, 'has the name of a temporary file');
  if (Buffer.byteLength(segment) > MAX_SEGMENT_BYTES) {
    throw invalid(key, `has a segment of more than ${MAX_SEGMENT_BYTES} bytes`);
  }
}

function invalid(key: string, what: string): Fault {
  return new Fault('KEY_INVALID', `store: the key ${JSON.stringify(key)} ${what}`, {
    kind: 'usage',
    hint: 'Keys are relative names joined by /, without . or .. segments. Check the dataset and job names.',
  });
}

export type StoreLocation =
  | {
      readonly kind: 's3';
      readonly bucket: string /** Without slashes at its ends; may be empty. */;
      readonly prefix: string;
    }
  | { readonly kind: 'directory' /** Absolute path. */; readonly path: string };

const SCHEME = /^(?<scheme>[a-z][a-z0-9+.-]*):\/\/(?<rest>.*)$/is;
/** A single letter is a Windows drive, not a scheme. */
const SCHEME_WITHOUT_SLASHES = /^(?:s3|gs|https?|file|az|abfss?):/i;
/** Bucket names that S3 and compatible services accept: 3 to 63 characters of a-z, 0-9, dot and hyphen. */
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/**
 * @param value `s3://bucket/prefix`, or a directory
 * @param baseDirectory base for a relative directory
 * @throws Fault `LOCATION_INVALID` (usage)
 */
export function parseLocation(value: string, baseDirectory: string): StoreLocation {
  if (value.trim() === '') throw invalidLocation(value, 'is empty');
  if (/\p{Cc}/u.test(value)) throw invalidLocation(value, 'has a control character in it');
  const groups = SCHEME.exec(value)?.groups;
  const scheme = groups?.['scheme']?.toLowerCase();
  if (scheme === 's3') return parseS3(value, groups?.['rest'] ?? '');
  if (scheme !== undefined) throw invalidLocation(value, `has the scheme ${scheme}://, which is not supported`);
  if (SCHEME_WITHOUT_SLASHES.test(value)) throw invalidLocation(value, 'has a scheme without //');
  return { kind: 'directory', path: resolve(baseDirectory, value) };
}

/** Whether an address may contain a password or a token: then no message shows it. */
export function mayHoldSecret(value: string): boolean {
  return /^[a-z][a-z0-9+.-]+:.*[:@?#]/is.test(value);
}

/** Whether the value is meant as an S3 location, well-formed or not. */
export function isS3Location(value: string): boolean {
  return /^s3:/i.test(value);
}

function parseS3(value: string, rest: string): StoreLocation {
  const slash = rest.indexOf('/');
  const bucket = slash < 0 ? rest : rest.slice(0, slash);
  if (/[:@]/.test(bucket)) throw invalidLocation(value, 'has credentials in it; they belong in the environment');
  if (bucket === '') throw invalidLocation(value, 'names no bucket');
  if (!BUCKET.test(bucket)) throw invalidLocation(value, 'names a bucket that is not a valid bucket name');
  const prefix = slash < 0 ? '' : rest.slice(slash + 1).replace(/\/+$/, '');
  if (/[?#]/.test(prefix)) throw invalidLocation(value, 'has ? or # in it; settings of S3 belong in the environment');
  try {
    if (prefix !== '') assertKey(prefix);
  } catch (cause) {
    const what = 'has a prefix with an empty, . or .. segment, or with characters that no key may have';
    throw invalidLocation(value, what, cause);
  }
  return { kind: 's3', bucket, prefix };
}

function invalidLocation(value: string, what: string, cause?: unknown): Fault {
  const shown = mayHoldSecret(value) ? value.replace(/^([^:]*:(?:\/\/)?).*/s, '$1...') : value;
  return new Fault('LOCATION_INVALID', `drop.to: ${JSON.stringify(shown)} ${what}`, {
    kind: 'usage',
    hint: 'Write s3://bucket/prefix or a directory.',
    cause,
  });
}
