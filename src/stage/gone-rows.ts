/**
 * Rows of a sealed drop that the source no longer has, for a restatement that keeps them. A row is not kept if its trade is
 * there under another id, which would count it twice, or if its id is now of another date. Invariant: memory is bounded by
 * passes; what is remembered between them are two hashes a row, and only of rows that are gone or new.
 */
import { randomUUID } from 'node:crypto';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier } from '../engine/literal.ts';
import { listPasses } from '../engine/passes.ts';
import { tradeContent } from '../engine/trade-content.ts';
import type { Job } from '../job/job.ts';

interface GoneRows {
  /** Quoted name of the stage's table. */
  readonly table: string;
  /** The drop's rows that were compared, and the staged ones: a table and its condition. */
  readonly rows: string;
  readonly staged: string;
  /** A table of ids that are of another date. */
  readonly elsewhere: string | undefined;
}

/** @param insert stages the rows of a query @returns how many are kept */
export async function keepGoneRows(
  engine: Engine,
  { source }: Pick<Job, 'source'>,
  { table, rows, staged, elsewhere }: GoneRows,
  insert: (select: string) => Promise<void>,
): Promise<number> {
  const passes = await listPasses(engine, table, 'id');
  const moved = (pass: string) =>
    elsewhere === undefined ? '' : ` AND id NOT IN (SELECT id FROM ${elsewhere} WHERE ${pass})`;
  const goneIn = (pass: string) =>
    `FROM ${rows} AND id != '' AND ${pass} AND id NOT IN (SELECT id FROM ${staged} AND ${pass})${moved(pass)}`;
  const count = async (from: string) => Number((await engine.rows<{ n: number }>(`SELECT count() AS n ${from}`))[0]?.n);
  let gone = 0;
  for (const pass of passes) gone += await count(goneIn(pass));
  if (gone === 0) return 0;
  const [unpaired, paired] = ['unpaired', 'paired'].map((name) => quoteIdentifier(`${name}_${randomUUID()}`));
  try {
    await engine.command(`CREATE TEMPORARY TABLE ${unpaired} (k UInt64, c UInt64, is_new UInt8)`);
    await engine.command(`CREATE TEMPORARY TABLE ${paired} (k UInt64)`);
    const select = `SELECT cityHash64(id), ${tradeContent(source.columns.map(({ name }) => name))}`;
    for (const pass of passes) {
      const known = `SELECT id FROM ${rows} AND ${pass}`;
      await engine.command(`INSERT INTO ${unpaired} ${select}, 1 FROM ${staged} AND ${pass} AND id NOT IN (${known})`);
      await engine.command(`INSERT INTO ${unpaired} ${select}, 0 ${goneIn(pass)}`);
    }
    for (const [at] of passes.entries()) {
      const each = `SELECT k, is_new, row_number() OVER (PARTITION BY c ORDER BY is_new, k) AS nth, countIf(is_new = 1) OVER (PARTITION BY c) AS fresh FROM ${unpaired} WHERE c % ${passes.length} = ${at}`;
      await engine.command(`INSERT INTO ${paired} SELECT k FROM (${each}) WHERE is_new = 0 AND nth <= fresh`);
    }
    let kept = 0;
    for (const pass of passes) {
      const left = `${goneIn(pass)} AND cityHash64(id) NOT IN (SELECT k FROM ${paired})`;
      const found = await count(left);
      if (found > 0) await insert(`SELECT * ${left}`);
      kept += found;
    }
    return kept;
  } finally {
    for (const name of [unpaired, paired]) await engine.command(`DROP TABLE IF EXISTS ${name}`);
  }
}
