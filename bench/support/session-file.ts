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
  options: { readonly date: string; readonly rows: number; readonly scratch: string },
): Promise<SessionFile> {
  say(`generating a session of ${options.rows} rows ...`);
  const job = await readBenchJob();
  const columns = listDropColumns(job.source.columns, []);
  const engine = await openEmbeddedEngine({ path: options.scratch });
  try {
    await fillTable(engine, columns, options);
    const settings = formatSettings({ ...encodingOf('zstd'), optimize_read_in_order: 1 });
    await engine.command(
      `SELECT * FROM default.session ORDER BY ${SORT.join(', ')} INTO OUTFILE ${quoteString(path)} FORMAT Parquet ${settings}`,
    );
    const [counted] = await engine.rows<{ rows: number }>('SELECT count() AS rows FROM default.session');
    await engine.command('DROP TABLE default.session SYNC');
    await writeFooter(path, { columns, sort: [...SORT], keyValues: {} });
    return { date: options.date, rows: counted?.rows ?? 0, sizeBytes: (await stat(path)).size };
  } finally {
    await engine.close();
  }
}

async function fillTable(
  engine: Engine,
  columns: readonly DropColumn[],
  { date, rows }: { readonly date: string; readonly rows: number },
): Promise<void> {
  const typed = `SELECT ${columns.map(typeColumn).join(', ')} FROM`;
  let created = false;
  const insertSql = (select: string) => {
    const source = `${typed} (${select}) AS s`;
    if (created) return `INSERT INTO default.session ${source}`;
    created = true;
    return `CREATE TABLE default.session ENGINE = MergeTree ORDER BY (${SORT.join(', ')}) AS ${source}`;
  };
  await generateSession({ date, rows, seed: 1 }, { engine, insertSql });
  const drawn = `cityHash64(id, 'fate') % ${ONE_OF}`;
  await engine.command(
    `ALTER TABLE default.session UPDATE option_activity_type = 'LATE' WHERE ${drawn} = 0 SETTINGS mutations_sync = 1`,
  );
  await engine.command(
    `INSERT INTO default.session SELECT * REPLACE (concat(id, 'x') AS id, 'CANC' AS option_activity_type,
       addSeconds(time, 1 + cityHash64(id) % 60) AS time) FROM default.session WHERE ${drawn} = 1`,
  );
}
