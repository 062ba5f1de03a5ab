/**
 * Checks a job file's own SQL (`sql`, `where`) before any request uses it: the engine parses it, and it is refused or
 * returned as the engine formats it. Invariant: a job without such SQL opens no engine.
 */
import { readFile } from 'node:fs/promises';
import type { Engine } from '../engine/engine.ts';
import { Refusal } from '../guard/refusal.ts';
import type { WindowedSql } from '../guard/windowed-sql.ts';
import type { Job, JobSource } from '../job/job.ts';
import { ResolveFault } from '../job/resolve-fault.ts';
import type { SourceOpeners } from './openers.ts';

/**
 * @param engine the one that is open in this process, if any: there cannot be two
 * @returns the source with its SQL ready for requests @throws Fault `JOB_INVALID` with file, line and key
 */
export async function readSourceSql(
  openers: Pick<SourceOpeners, 'openEngine'>,
  { file, source }: Job,
  engine?: Engine,
): Promise<JobSource> {
  const key = findCustomSql(source);
  if (key === undefined) return source;
  const own = engine ?? (await openers.openEngine());
  try {
    return await readSql(own, source);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { locateFault } = await import('../job/parse.ts');
    const text = await readFile(file, 'utf8').catch(() => '');
    throw locateFault(file, text, new ResolveFault(['source', key], error.message));
  } finally {
    if (!engine) await own.close();
  }
}

/** The key of the job file that holds the SQL; `undefined` if there is none. */
export function findCustomSql(source: JobSource): 'where' | 'sql' | undefined {
  if ('where' in source && source.where !== '') return 'where';
  return 'sql' in source && source.sql !== '' ? 'sql' : undefined;
}

async function readSql(engine: Engine, source: JobSource): Promise<JobSource> {
  // Loaded on demand: most jobs have no SQL of their own.
  const { readCondition, readWindowedSql } = await import('../guard/windowed-sql.ts');
  switch (source.kind) {
    case 'table':
      return { ...source, where: await readCondition(engine, source.where) };
    case 'rows':
      return source.sql === ''
        ? { ...source, where: await readCondition(engine, source.where) }
        : { ...source, sql: await readWindowedSql(engine, describeSql(source)) };
    case 'aggregate':
      return { ...source, sql: await readWindowedSql(engine, describeSql(source)) };
    case 'snapshots':
      return source;
    default:
      return source satisfies never;
  }
}

/** What the guard needs to know about a job. */
function describeSql(source: Extract<JobSource, { sql: string }>): WindowedSql {
  return { sql: source.sql, table: source.table, groups: source.kind === 'aggregate' ? source : undefined };
}
