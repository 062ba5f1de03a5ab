/** A really opened archive for tests: over a directory or S3, with an engine process of its own. */

import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ArchiveAnswer, describeWorkers, openArchive } from '../../src/archive/archive.ts';
import type { AnswerTypes } from '../../src/archive/archive-column.ts';
import type { Coverage } from '../../src/archive/coverage.ts';
import type { ReadCost } from '../../src/archive/embedded-runner.ts';
import type { OutputFormat } from '../../src/archive/output-format.ts';
import type { ArchiveServerOptions } from '../../src/archive/server-runner.ts';
import { openWorkerPool } from '../../src/engine/worker-pool.ts';
import type { Store, StoreAccess } from '../../src/store/store.ts';
import { WORKER_COMMAND } from '../support/engine-workers.ts';

export interface TestArchive {
  query(request: {
    readonly sql: string;
    readonly format: OutputFormat;
    readonly path: string;
  }): Promise<ArchiveAnswer>;
  /** The answer's rows, and what is told beside them. */
  rows(sql: string): Promise<RowsAnswer>;
  /** The answer's bytes. */
  bytes(sql: string, format: OutputFormat): Promise<Buffer>;
  /** Closes it and removes its folder. */
  stop(): Promise<void>;
}

interface RowsAnswer extends Omit<ArchiveAnswer, 'coverage' | 'cost'> {
  readonly cost: ReadCost;
  readonly rows: readonly Row[];
  /** Of the only dataset that the statement reads; without dates if it reads none. */
  readonly coverage: Coverage;
  readonly coverages: readonly Coverage[];
}

export type Row = Readonly<Record<string, unknown>>;

const NOTHING: Coverage = {
  ...{ dataset: '', sealed: [], dates: [], degraded: [], missing: [], unsummarized: [], lacking: new Map() },
};
const NO_COST: ReadCost = { files: 0, rowGroups: 0, prunedRowGroups: 0, s3Bytes: 0 };
/** As much as the service allows. */
const MAX_MEMORY_BYTES = 2_000_000_000;

export async function openTestArchive(
  store: Store,
  access: StoreAccess,
  dataset: string,
  given: {
    readonly lastSession?: string;
    readonly signal?: AbortSignal;
    readonly types?: AnswerTypes;
    readonly server?: ArchiveServerOptions;
    /** Datasets beside the first, which is that of the API's tables. */
    readonly others?: readonly string[];
  } = {},
): Promise<TestArchive> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'flowdrop-archive-')));
  const workers = openWorkerPool({ ...describeWorkers(folder), command: WORKER_COMMAND });
  const close = async () => await (await workers).close();
  const archive = await openArchive({
    store,
    readAccess: async () => access,
    datasets: [dataset, ...(given.others ?? [])],
    trades: dataset,
    types: given.types ?? 'typed',
    folder,
    server: given.server,
  }).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  const { lastSession = '2026-11-19', signal = new AbortController().signal } = given;
  const query: TestArchive['query'] = async (request) =>
    await archive.query(await workers, { ...request, lastSession, maxMemoryBytes: MAX_MEMORY_BYTES, signal });
  const answer = async (sql: string, format: OutputFormat) => {
    const path = join(folder, randomUUID());
    const told = await query({ sql, format, path });
    const bytes = await readFile(path);
    await rm(path);
    return { ...told, bytes };
  };
  return {
    query,
    rows: async (sql: string) => {
      const { bytes, coverage: coverages, ...told } = await answer(sql, 'json');
      const rows = JSON.parse(bytes.toString('utf8')) as readonly Row[]; // The shape of the format.
      return { ...told, cost: told.cost ?? NO_COST, rows, coverages, coverage: coverages[0] ?? NOTHING };
    },
    bytes: async (sql: string, format: OutputFormat) => (await answer(sql, format)).bytes,
    stop: async () => {
      await close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
