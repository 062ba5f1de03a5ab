/**
 * Entry of a process that makes sealed sessions: the service's generator, then the drop's own types, order, settings and
 * footer, published with a manifest. Only the API between them is left out, because fetching a hundred million rows
 * through it takes hours. One process has one core, so that several do not wait for each other.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatSecond } from '../../src/calendar/wall-clock.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { formatSettings, quoteString } from '../../src/engine/literal.ts';
import type { SqlJob } from '../../src/job/job.ts';
import { assignFieldIds, Ledger } from '../../src/ledger/ledger.ts';
import { hashSchema, MANIFEST_VERSION } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { describeFile, openParquet } from '../../src/seal/parquet-reader.ts';
import { encodingOf, listDropColumns, typeColumn } from '../../src/seal/write-parquet.ts';
import { generateSession } from '../../src/service/generate/generate.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { createDraft } from '../../test/support/manifest.ts';
import { readBenchJob } from './pages.ts';
import { YEAR_DATASET, type YearPart } from './year.ts';

const { folder, dates, rows } = JSON.parse(process.argv[2] ?? '') as YearPart; // Given by `year.ts`.
const job = await readBenchJob();
const store = await openDirectoryStore(folder);
const scratch = await mkdtemp(join(tmpdir(), 'flowdrop-bench-'));
const engine = await openEmbeddedEngine({ settings: { max_threads: 1 } });
try {
  for (const date of dates) await sealSession(engine, store, job, date);
} finally {
  await engine.close();
  await store.close();
  await rm(scratch, { recursive: true, force: true });
}

async function sealSession(engine: Engine, store: Store, job: SqlJob, date: string): Promise<void> {
  const columns = listDropColumns(job.source.columns, []);
  const { sort } = job.drop;
  const path = join(scratch, `${date}.parquet`);
  await writeRows(engine, date, path, `SELECT ${columns.map(typeColumn).join(', ')} FROM`, sort);
  const names = columns.map(({ name }) => name);
  const fieldIds = await assignFieldIds(new Ledger(store, YEAR_DATASET), names);
  await writeFooter(path, { columns, fieldIds, sort, keyValues: {} });
  const { rows, ...file } = describeFile((await openParquet(path)).metadata);
  const draft = createDraft({
    ...{ manifest_version: MANIFEST_VERSION, job_id: job.name, dataset: YEAR_DATASET, date, sort: [...sort] },
    ...{ rows, source_rows: rows, ...file, schema_hash: hashSchema(file.schema) },
    ...{ min_time: `${date} ${formatSecond(0)}`, max_time: `${date} ${formatSecond(86_399)}` },
  });
  await publishDrop(new Ledger(store, draft.dataset), { drop: path }, draft);
  await rm(path);
}

/** A session of many rows is generated in several statements, so that they meet in a table first. */
async function writeRows(
  engine: Engine,
  date: string,
  path: string,
  typed: string,
  sort: readonly string[],
): Promise<void> {
  let created = false;
  const insertSql = (select: string) => {
    const source = `${typed} (${select}) AS s`;
    if (created) return `INSERT INTO default.session ${source}`;
    created = true;
    return `CREATE TABLE default.session ENGINE = Memory AS ${source}`;
  };
  await generateSession({ date, rows, seed: 1 }, { engine, insertSql });
  await engine.command(
    `SELECT * FROM default.session ORDER BY ${sort.join(', ')} INTO OUTFILE ${quoteString(path)} FORMAT Parquet ${formatSettings(encodingOf('zstd'))}`,
  );
  await engine.command('DROP TABLE default.session SYNC');
}
