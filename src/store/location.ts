/**
 * The location of a job's drops: the value of `drop.to`. Pure: it opens nothing. An unsupported address is an error; it
 * is never used as the name of a directory.
 */
import { resolve } from 'node:path';
import { Fault } from '../core/errors.ts';
import { assertKey } from './object-key.ts';

export interface S3Location {
  readonly kind: 's3';
  readonly bucket: string;
  /** Without leading and trailing slashes; may be empty. */
  readonly prefix: string;
}

export type StoreLocation = S3Location | { readonly kind: 'directory' /** Absolute path. */; readonly path: string };

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
  if (value.trim() === '') throw invalid(value, 'is empty');
  if (/\p{Cc}/u.test(value)) throw invalid(value, 'has a control character in it');
  const groups = SCHEME.exec(value)?.groups;
  const scheme = groups?.['scheme']?.toLowerCase();
  if (scheme === 's3') return parseS3(value, groups?.['rest'] ?? '');
  if (scheme !== undefined) throw invalid(value, `has the scheme ${scheme}://, which is not supported`);
  if (SCHEME_WITHOUT_SLASHES.test(value)) throw invalid(value, 'has a scheme without //');
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
  if (/[:@]/.test(bucket)) throw invalid(value, 'has credentials in it; they belong in the environment');
  if (bucket === '') throw invalid(value, 'names no bucket');
  if (!BUCKET.test(bucket)) throw invalid(value, 'names a bucket that is not a valid bucket name');
  const prefix = slash < 0 ? '' : rest.slice(slash + 1).replace(/\/+$/, '');
  if (/[?#]/.test(prefix)) throw invalid(value, 'has ? or # in it; settings of S3 belong in the environment');
  if (prefix !== '') assertPrefixIsKey(value, prefix);
  return { kind: 's3', bucket, prefix };
}

function assertPrefixIsKey(value: string, prefix: string): void {
  try {
    assertKey(prefix);
  } catch (cause) {
    throw invalid(value, 'has a prefix with an empty, . or .. segment, or with characters that no key may have', cause);
  }
}

function invalid(value: string, what: string, cause?: unknown): Fault {
  const shown = mayHoldSecret(value) ? value.replace(/^([^:]*:(?:\/\/)?).*/s, '$1...') : value;
  return new Fault('LOCATION_INVALID', `drop.to: ${JSON.stringify(shown)} ${what}`, {
    kind: 'usage',
    hint: 'Write s3://bucket/prefix or a directory.',
    cause,
  });
}
