/** Job files for tests, written as a user writes them. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Job, SqlJob } from '../../src/job/job.ts';
import { parseJob } from '../../src/job/parse.ts';

export interface JobText {
  readonly name?: string;
  readonly api?: 'historical' | 'portal' | 'chain';
  readonly to?: string;
  readonly source?: string;
  /** More keys of `drop`. */
  readonly drop?: string;
  readonly reports?: string;
  readonly schedule?: string;
}

/** Writes `<name>.yaml` into the folder and returns its path. */
export async function writeJob(folder: string, job: JobText = {}): Promise<string> {
  const name = job.name ?? 'nightly';
  const path = join(folder, `${name}.yaml`);
  const text = `name: ${name}
source:
  api: ${job.api ?? 'historical'}
${job.source ?? ''}
drop:
  to: ${job.to ?? 'drops'}
  dataset: trades
${job.drop ?? ''}
${job.schedule ?? ''}
${job.reports ?? 'reports:\n  - template: flow\n    to: [desk@example.com, second@example.com]'}
`;
  await writeFile(path, text);
  return path;
}

/** A job whose rows are asked for with SQL. */
export function parseSqlJob(file: string, text: string): SqlJob {
  const job = parseJob(file, text);
  assertSqlJob(job);
  return job;
}

export function assertSqlJob(job: Job): asserts job is SqlJob {
  if (job.source.kind !== 'rows' && job.source.kind !== 'aggregate') throw new TypeError(`${job.file} has no SQL`);
}
