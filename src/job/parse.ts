/**
 * Parses a job file's YAML text to a resolved job, or refuses it with all its faults (`checked-yaml.ts`); a rule that
 * `resolve-job.ts` finds broken is reported alone.
 */
import { dirname } from 'node:path';
import { parseDocument, stringify } from 'yaml';
import { describePlace, findKey, parseYaml, readYaml } from '../core/checked-yaml.ts';
import { Fault, findPlace, isFault, type Place } from '../core/errors.ts';
import { formatBytes } from '../core/units.ts';
import { type Job, ResolveFault } from './job.ts';
import { resolveJob } from './resolve-job.ts';
import { jobSchema } from './shape.ts';

/** Many times what a job with long SQL and hundreds of recipients has. */
const MAX_FILE_BYTES = 1_000_000;
const JOB_HINT = 'Correct the job file; `flowdrop schema` prints every key, `flowdrop check` checks it again.';

/**
 * @param folder that its paths are relative to; default: that of the file
 * @throws Fault `JOB_INVALID` (kind `usage`) whose message lists the faults, one per line
 */
export function parseJob(file: string, text: string, folder = dirname(file)): Job {
  const written = parseYaml(file, limitSize(file, text), jobSchema, invalidJob);
  try {
    return resolveJob(file, folder, written);
  } catch (error) {
    if (error instanceof ResolveFault) throw locateFault(file, text, error);
    throw error;
  }
}

function limitSize(file: string, text: string): string {
  if (text.length <= MAX_FILE_BYTES) return text;
  const came = `${file}: has ${formatBytes(text.length)}`;
  throw invalidJob([`${came}; a job file has at most ${formatBytes(MAX_FILE_BYTES)}`], []);
}

/** Adds file, line and key path to the fault. @param text of the file @param hint instead of the general one */
export function locateFault(file: string, text: string, fault: ResolveFault, hint?: string): Fault {
  const { path, message, isSecret } = fault;
  const { contents } = parseDocument(text, { prettyErrors: false });
  const found = findPlace(file, text, ...findKey(contents, path));
  // Of a line with a secret, only its key is shown.
  const place = isSecret ? { ...found, text: found.text.replace(/:.*/, ': ...'), column: 1, length: 1 } : found;
  return invalidJob([`${describePlace(place, path)}: ${message}`], [place], hint);
}

function invalidJob(faults: readonly string[], places: readonly Place[], hint = JOB_HINT): Fault {
  return new Fault('JOB_INVALID', faults.join('\n'), { kind: 'usage', places, hint });
}

const NO_SOURCE = { api: 'clickhouse', table: 'unknown' } as const;

/**
 * Reads who gets the alert about an invalid job file: its name, drop and alerts if these are valid, else `undefined`.
 * Never used to export. An invalid source is replaced by one whose dates do not expire, so that no alert names a gap
 * that may not exist.
 */
export function parseAddressee(file: string, text: string): Job | undefined {
  // After a syntax error, no value can be trusted.
  const value = unlessFault(() => readYaml(file, limitSize(file, text), invalidJob).value);
  if (typeof value !== 'object' || value === null) return undefined;
  const { name, source, drop, alerts, events }: Readonly<Record<string, unknown>> = { ...value };
  const parse = (one: unknown) =>
    unlessFault(() => parseJob(file, stringify({ name, drop, alerts, events, source: one })));
  return parse(source) ?? parse(NO_SOURCE);
}

function unlessFault<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (isFault(error)) return undefined;
    throw error;
  }
}
