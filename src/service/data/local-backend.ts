/**
 * The embedded backend: data in a folder, one engine process that loads it and later parses queries, and several
 * processes that mount it and answer.
 */
import { join } from 'node:path';
import { hashFile } from '../../core/atomic-file.ts';
import type { EnginePool } from '../../engine/pool.ts';
import type { Backend, BackendParts, LoadTarget, StatementRunner } from '../backend.ts';
import { generateSession, listClosedSessions, usualRows } from '../generate/generate.ts';
import type { ServiceOptions } from '../options.ts';
import { loadChainFile } from './chain-file.ts';
import { DATA_FILES, findDataFile, type InputFile, TEXT_FILES } from './data-file.ts';
import { LocalData } from './local-data.ts';
import { granularityFor } from './tables.ts';
import { loadTradeFile } from './trade-file.ts';

/** @throws Fault `DATA_INVALID`, `DATA_UNREADABLE`, `DATA_DIR_INVALID` (kind `usage`) */
export async function openLocalBackend(options: ServiceOptions, parts: BackendParts): Promise<Backend> {
  const folder = options.dataDir ?? join(parts.folder, 'data');
  const writer = await parts.startEngines(join(folder, 'writer'), 1, true);
  const data = await LocalData.open(runOn(writer), folder, options, parts.clock);
  const { granularity } = data;
  if (granularity > granularityFor(options.scanLimit)) {
    parts.log.warn(
      { event: 'index-too-coarse', folder, granularityRows: granularity },
      'the stored index is too coarse for this --scan-limit',
    );
  }
  await fill(data, options, parts);
  await data.detach();
  const size = options.concurrency;
  const pool = await parts.startEngines(join(parts.folder, 'workers'), size);
  // Mount the data in each process now, so that the first caller does not wait for it.
  const signal = new AbortController().signal;
  await Promise.all(
    Array.from({ length: size }, (_, number) =>
      pool.use({ owner: `start ${number}`, signal }, (engine) => data.prepare(engine)),
    ),
  );
  await data.confirm(runOn(pool));
  return { pool, parser: writer, dataset: data, snapshots: data };
}

async function fill(data: LocalData, options: ServiceOptions, { clock, log }: BackendParts): Promise<void> {
  const load = async (
    table: 'trades' | 'chains',
    file: InputFile,
    insert: (file: InputFile, target: LoadTarget) => Promise<void>,
  ) => {
    const source = { id: `sha256:${await hashFile(file.path)}`, name: file.name, table };
    return await data.load(source, (target) => insert(file, target));
  };
  for (const file of options.data) {
    const isNew = await load('trades', await findDataFile(file, DATA_FILES), loadTradeFile);
    log.info({ event: 'loaded', file, isNew }, `loaded ${file}`);
  }
  for (const chain of options.chain) {
    const isNew = await load('chains', await findDataFile(chain, TEXT_FILES), loadChainFile);
    log.info({ event: 'loaded', chain, isNew }, `loaded ${chain}`);
  }
  const { seed } = options;
  for (const date of listClosedSessions(clock.now(), options.generateSessions)) {
    const rows = options.generateRows ?? usualRows(date, seed);
    const place = `generated:${date}:`;
    const source = { id: `${place}${rows}:${seed}`, name: date, table: 'trades' } as const;
    // Replace another generation of the same date: two markets on one date would mix.
    const isNew = await data.load(
      source,
      (target) => generateSession({ date, rows, seed }, target),
      (other) => other.id.startsWith(place),
    );
    log.info({ event: 'generated', date, rows, isNew }, `generated ${date}`);
  }
}

function runOn(pool: EnginePool): StatementRunner {
  const request = { owner: 'loader', signal: new AbortController().signal };
  return {
    rows: (sql) => pool.use(request, (engine) => engine.rows(sql)),
    command: (sql) => pool.use(request, (engine) => engine.command(sql)),
  };
}
