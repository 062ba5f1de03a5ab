/**
 * Checks a job file's own SQL (`sql`, `where`) before any request uses it: the engine parses it, and it is refused or
 * returned as the engine formats it. Invariant: a job without such SQL opens no engine.
 */
import { readFile } from 'node:fs/promises';
import { type Fault, isFault } from '../core/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { Refusal } from '../guard/refusal.ts';
import { type Job, type JobSource, ResolveFault } from '../job/job.ts';
import type { Openers } from '../openers.ts';

/**
 * @param engine the one that is open in this process, if any: there cannot be two
 * @returns the source with its SQL ready for requests, and the names in the job's own SELECT: empty for an expression
 *   without one; `undefined`: no SELECT, or a star in it @throws Fault `JOB_INVALID` with file, line and key
 */
export async function readSourceSql(
  openers: Pick<Openers, 'openEngine'>,
  { file, source }: Pick<Job, 'file' | 'source'>,
  engine?: Engine,
) {
  const key = findCustomSql(source);
  if (key === undefined) return { source, selected: undefined };
  const own = engine ?? (await openers.openEngine());
  try {
    return await readSql(own, source);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw await locateSqlFault(file, key, error.message);
  } finally {
    if (!engine) await own.close();
  }
}

async function locateSqlFault(file: string, key: 'where' | 'sql', message: string, hint?: string): Promise<Fault> {
  const { locateFault } = await import('../job/parse.ts');
  const text = await readFile(file, 'utf8').catch(() => '');
  return locateFault(file, text, new ResolveFault(['source', key], message), hint);
}

/** A query that the API refused: it need not say which name it means, so the job's own SQL is shown. */
export async function locateRefusedSql({ file, source }: Job, error: unknown): Promise<unknown> {
  const key = findCustomSql(source);
  const isAboutQuery = isFault(error) && error.kind === 'usage' && error.code.startsWith('INVALID_');
  return key !== undefined && isAboutQuery ? await locateSqlFault(file, key, error.message, error.hint) : error;
}

/** The key of the job file that holds the SQL; `undefined` if there is none. */
export function findCustomSql(source: JobSource): 'where' | 'sql' | undefined {
  if ('where' in source && source.where !== '') return 'where';
  return 'sql' in source && source.sql !== '' ? 'sql' : undefined;
}

async function readSql(engine: Engine, source: JobSource) {
  if (source.kind === 'snapshots') return { source, selected: undefined };
  // Loaded on demand: most jobs have no SQL of their own.
  const { readCondition, readWindowedSql } = await import('../guard/windowed-sql.ts');
  if (source.kind === 'table' || (source.kind === 'rows' && source.sql === ''))
    return { source: { ...source, where: await readCondition(engine, source.where) }, selected: undefined };
  const { sql, selected } = await readWindowedSql(engine, {
    sql: source.sql,
    table: source.table,
    groups: source.kind === 'aggregate' ? source : undefined,
    columns: source.columns.map(({ name }) => name),
  });
  return { source: { ...source, sql }, selected };
}
