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
import type { SqlJob } from '../../src/job/job.ts';
import { assignFieldIds, Ledger } from '../../src/ledger/ledger.ts';
import { hashSchema, MANIFEST_VERSION } from '../../src/ledger/manifest.ts';
import { publishDrop } from '../../src/ledger/publish.ts';
import { writeFooter } from '../../src/seal/footer.ts';
import { describeFile, openParquet } from '../../src/seal/parquet-reader.ts';
import { listDropColumns } from '../../src/seal/write-parquet.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import type { Store } from '../../src/store/store.ts';
import { createDraft } from '../../test/support/manifest.ts';
import { readBenchJob } from './pages.ts';
import { writeSession } from './session-file.ts';
import { YEAR_DATASET, type YearPart } from './year.ts';

const { folder, dates, rows: given } = JSON.parse(process.argv[2] ?? '') as YearPart; // Given by `year.ts`.
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
  await writeSession(engine, path, { date, rows: given, columns, sort, storage: 'Memory' });
  const ledger = new Ledger(store, YEAR_DATASET);
  const names = columns.map(({ name }) => name);
  const fieldIds = await assignFieldIds(ledger, names);
  await writeFooter(path, { columns, fieldIds, sort, keyValues: {} });
  const { rows, ...file } = describeFile((await openParquet(path)).metadata);
  const draft = createDraft({
    ...{ manifest_version: MANIFEST_VERSION, job_id: job.name, dataset: YEAR_DATASET, date, sort: [...sort] },
    ...{ rows, source_rows: rows, ...file, schema_hash: hashSchema(file.schema) },
    ...{ min_time: `${date} ${formatSecond(0)}`, max_time: `${date} ${formatSecond(86_399)}` },
  });
  await publishDrop(ledger, { drop: path }, draft);
  await rm(path);
}
