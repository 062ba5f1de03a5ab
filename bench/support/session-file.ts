/**
 * One generated session as the Parquet file that a seal would leave: the service's generator, the drop's own types,
 * order, settings and footer, without the API between them, because fetching millions of rows takes longer than all that
 * is measured on them. Cancel messages and late reports, which the generator does not make, are added here.
 */
import { stat } from 'node:fs/promises';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { formatSettings, quoteString } from '../../src/engine/literal.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { type DropColumn, encodingOf, listDropColumns, typeColumn } from '../../src/seal/write-parquet.ts';
import { generateSession } from '../../src/service/generate/generate.ts';
import { say } from './bench.ts';
import { readBenchJob } from './pages.ts';

/** One record of so many is cancelled later, one of so many is reported late: some thousands in a whole session. */
const ONE_OF = 2_000;
const SORT = ['symbol', 'time', 'id'] as const;

export interface SessionFile {
  readonly date: string;
  readonly rows: number;
  readonly sizeBytes: number;
}

/** Writes the file; the engine's data lies in `scratch`, a folder. */
export async function writeSessionFile(
  path: string,
  { date, rows, scratch }: { readonly date: string; readonly rows: number; readonly scratch: string },
): Promise<SessionFile> {
  say(`generating a session of ${rows} rows ...`);
  const columns = listDropColumns((await readBenchJob()).source.columns, []);
  const engine = await openEmbeddedEngine({ path: scratch });
  try {
    const storage = `MergeTree ORDER BY (${SORT.join(', ')})`;
    const written = await writeSession(engine, path, { date, rows, columns, sort: SORT, storage }, async (table) => {
      const drawn = `cityHash64(id, 'fate') % ${ONE_OF}`;
      await engine.command(
        `ALTER TABLE ${table} UPDATE option_activity_type = 'LATE' WHERE ${drawn} = 0 SETTINGS mutations_sync = 1`,
      );
      await engine.command(
        `INSERT INTO ${table} SELECT * REPLACE (concat(id, 'x') AS id, 'CANC' AS option_activity_type,
           addSeconds(time, 1 + cityHash64(id) % 60) AS time) FROM ${table} WHERE ${drawn} = 1`,
      );
    });
    await writeFooter(path, { columns, sort: [...SORT], keyValues: {} });
    return { date, rows: written, sizeBytes: (await stat(path)).size };
  } finally {
    await engine.close();
  }
}

/** Where the rows meet, because a session of many is generated in several statements. */
const TABLE = 'default.session';

interface SessionToWrite {
  readonly date: string;
  readonly rows: number;
  readonly columns: readonly DropColumn[];
  readonly sort: readonly string[];
  /** Engine of the table in which the rows meet. */
  readonly storage: string;
}

/** Writes the rows of a generated session, without a footer of ours. @param alter the rows @returns how many there are */
export async function writeSession(
  engine: Engine,
  path: string,
  { date, rows, columns, sort, storage }: SessionToWrite,
  alter: (table: string) => Promise<void> = async () => {},
): Promise<number> {
  let isCreated = false;
  const insertSql = (select: string) => {
    const source = `SELECT ${columns.map(typeColumn).join(', ')} FROM (${select}) AS s`;
    if (isCreated) return `INSERT INTO ${TABLE} ${source}`;
    isCreated = true;
    return `CREATE TABLE ${TABLE} ENGINE = ${storage} AS ${source}`;
  };
  await generateSession({ date, rows, seed: 1 }, { engine, insertSql });
  await alter(TABLE);
  const settings = formatSettings({ ...encodingOf('zstd'), optimize_read_in_order: 1 });
  await engine.command(
    `SELECT * FROM ${TABLE} ORDER BY ${sort.join(', ')} INTO OUTFILE ${quoteString(path)} FORMAT Parquet ${settings}`,
  );
  const [counted] = await engine.rows<{ rows: number }>(`SELECT count() AS rows FROM ${TABLE}`);
  await engine.command(`DROP TABLE ${TABLE} SYNC`);
  return counted?.rows ?? 0;
}
