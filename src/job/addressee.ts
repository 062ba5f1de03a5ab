/**
 * Who is told of a job whose file is invalid: its name, drop and alerts, as far as the file has them in order. Invariant:
 * nothing is exported by what this gives; it is for alerts only. A source that is at fault counts as one of which nothing
 * expires, because a gap that only seems to be one must not be told.
 */
import { parseDocument, stringify } from 'yaml';
import { isFault } from '../core/errors.ts';
import type { Job } from './job.ts';
import { parseJob } from './parse.ts';

const NO_SOURCE = { api: 'clickhouse', table: 'unknown' } as const;

/** `undefined` when the file does not even say that. */
export function parseAddressee(file: string, text: string): Job | undefined {
  const document = parseDocument(text, { prettyErrors: false });
  // Behind an error of the syntax anything may be something else than was meant.
  const value: unknown = document.errors.length > 0 ? undefined : document.toJS();
  if (typeof value !== 'object' || value === null) return undefined;
  const { name, source, drop, alerts }: Readonly<Record<string, unknown>> = { ...value };
  const rest = { name, drop, alerts };
  return tryParse(file, { ...rest, source }) ?? tryParse(file, { ...rest, source: NO_SOURCE });
}

function tryParse(file: string, value: object): Job | undefined {
  try {
    return parseJob(file, stringify(value));
  } catch (error) {
    if (isFault(error)) return undefined;
    throw error;
  }
}
