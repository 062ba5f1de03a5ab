/**
 * Entry of a measured process: a date is sealed from a file, or a sealed date is restated as an audit does it, with some
 * late rows in one second. What the source answers is made of the file, because counting and fetching it take no memory
 * that an export does not take, too. Prints the most memory of the process so far after each step, as JSON.
 */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DAY_END, DAY_START } from '../../src/calendar/window.ts';
import { openEmbeddedEngine } from '../../src/engine/embedded.ts';
import { beginDate, createDropFile, sealRows } from '../../src/export/seal-rows.ts';
import { Ledger } from '../../src/ledger/ledger.ts';
import { type DayCounts, sumCounts } from '../../src/plan/counts.ts';
import { planRepair } from '../../src/plan/pack.ts';
import { listHashedColumns } from '../../src/plan/proof.ts';
import { secondKey } from '../../src/stage/count.ts';
import { readSealedRows } from '../../src/stage/sealed-rows.ts';
import { openStage } from '../../src/stage/stage.ts';
import { openDirectoryStore } from '../../src/store/directory.ts';
import { createEngineSource } from '../../test/support/engine-source.ts';
import { createRun } from '../../test/support/run.ts';
import { PAGE_ROWS } from './bench.ts';
import { readBenchJob } from './pages.ts';

export interface AuditInput {
  readonly step: 'seal' | 'repair';
  readonly date: string;
  /** The session as a Parquet file. */
  readonly session: string;
  /** Of this measurement: store, engine and files. */
  readonly folder: string;
  /** Rows that come late, all in one second. */
  readonly late: number;
}

/** Bytes of the process's most memory so far, by step. */
export type AuditResult = Readonly<Record<string, number>>;

const ORIGIN = 'https://source.test';

const { step, date, session, folder, late } = JSON.parse(process.argv[2] ?? '') as AuditInput; // Given by `audit.ts`.
const peaks: Record<string, number> = {};
const note = (name: string) => {
  // maxRSS is in kilobytes of 1,024 on every platform.
  peaks[name] = process.resourceUsage().maxRSS * 1024;
};
const engine = await openEmbeddedEngine({ path: join(folder, 'engine') });
const store = await openDirectoryStore(join(folder, 'store'));
const job = await readBenchJob();
const path = join(folder, 'drop.parquet');
/** The source's counts, which no audit takes from a drop. */
const cellsPath = join(folder, 'cells.json');
const hashed = listHashedColumns(job.source, 'ids and values');
note('start');
if (step === 'seal') await seal();
else await repair();
await store.close();
await engine.close();
process.stdout.write(JSON.stringify(peaks), () => process.exit(0));

async function seal(): Promise<void> {
  const stage = await openStage(engine, job, date, ORIGIN);
  const drop = { path: session, extraFields: [], symbols: [] };
  await stage.fill(drop, { fetched: [], kept: [{ from: DAY_START, to: DAY_END }] }, []);
  note('fill');
  const cells = await stage.count('time', { hashed });
  await writeFile(cellsPath, JSON.stringify(cells));
  await publish(cells, false);
}

async function repair(): Promise<void> {
  const manifest = await new Ledger(store, job.drop.dataset).manifest(date);
  if (manifest === undefined) throw new Error(`${date} is not sealed`);
  const drop = { path: `${path}.audited`, extraFields: manifest.extra_columns, symbols: [] };
  await new Ledger(store, manifest.dataset).fetchFile(manifest.date, manifest.files[0], drop.path);
  const rows = readSealedRows(job, drop);
  const cells = JSON.parse(await readFile(cellsPath, 'utf8')) as DayCounts; // Written by the step before.
  const [largest] = cells.toSorted((one, other) => other.rows - one.rows);
  if (largest === undefined) throw new Error('the session has no rows');
  const plan = planRepair([largest], cells, PAGE_ROWS);
  const stage = await openStage(engine, job, date, ORIGIN, { isEmpty: true });
  await stage.fill(drop, plan, []);
  note('fill');
  for (const window of plan.fetched) await stage.put({ date, ...window }, await readLate(rows, largest.second));
  await stage.keepGone(drop);
  note('rows that are gone');
  await publish(await stage.count('time', { hashed }), true);
  await rm(drop.path, { force: true });

  async function readLate(table: string, second: number) {
    const names = job.source.columns.map(({ name }) => `\`${name}\``).join(', ');
    const there = `SELECT ${names} FROM ${table} WHERE ${secondKey(job, date)} = ${second}`;
    const added = `SELECT * REPLACE (concat('late-', id) AS id) FROM (${there}) LIMIT ${late}`;
    const bytes = await engine.format(`${there} UNION ALL ${added}`, 'JSONEachRow');
    const lines = Buffer.from(bytes).toString('utf8').trim().split('\n');
    const firstRow = JSON.parse(lines[0] ?? '{}') as Readonly<Record<string, unknown>>;
    return { data: Buffer.from(`[${lines.join(',')}]`), rows: lines.length, firstRow };
  }
}

async function publish(counts: DayCounts, restate: boolean): Promise<void> {
  note('count');
  const stage = await openStage(engine, job, date, ORIGIN);
  const source = createEngineSource(engine, { rowLimit: PAGE_ROWS, meta: true, nowMs: Date.now() });
  const run = await createRun({ job, engine, store, source, folder });
  const rows = { query: '', counted: sumCounts(counts), counts, file: createDropFile(run, stage), restate };
  const { status } = await sealRows(run, stage, { begun: beginDate(run), ...rows });
  if (status !== 'sealed') throw new Error(`the date was ${status}`);
  note(restate ? 'seal and compare' : 'seal');
}
