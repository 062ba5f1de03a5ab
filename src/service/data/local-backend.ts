/**
 * The embedded backend: data in a folder, one engine process that loads it and later parses queries, and several
 * processes that mount it and answer. It owns the folder, unless the user named one.
 */
import { join } from 'node:path';
import { EARLIEST_DATE } from '../../api-contract/published-limits.ts';
import { hashFile } from '../../core/atomic-file.ts';
import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { EnginePool } from '../../engine/pool.ts';
import { openParser } from '../../guard/parser.ts';
import { type Backend, type EngineOpeners, MAX_WAITING } from '../backend.ts';
import type { StatementRunner } from '../dataset.ts';
import { generateSession, listClosedSessions, usualRows } from '../generate/generate.ts';
import { MAX_RESULT_BYTES } from '../historical/query-runner.ts';
import type { ServiceOptions } from '../options.ts';
import { makeServiceFolder, removeServiceFolder } from '../service-folder.ts';
import { assertChainLoadable, loadChainFile } from './chain-file.ts';
import { assertLoadable, loadFile } from './load.ts';
import { LocalData } from './local-data.ts';
import { granularityFor } from './stored-tables.ts';

interface LocalBackendParts extends EngineOpeners {
  readonly clock: Clock;
  readonly log: Log;
  readonly onRestart?: () => void;
}

/** @throws Fault `DATA_INVALID`, `DATA_UNREADABLE`, `DATA_DIR_INVALID` (kind `usage`) */
export async function openLocalBackend(options: ServiceOptions, parts: LocalBackendParts): Promise<Backend> {
  const temporary = await makeServiceFolder();
  const opened: EnginePool[] = [];
  const close = async () => {
    await Promise.all(opened.map((pool) => pool.close()));
    await removeServiceFolder(temporary);
  };
  try {
    const limits = { maxWaiting: MAX_WAITING, maxResultBytes: MAX_RESULT_BYTES };
    const folder = options.dataDir ?? join(temporary, 'data');
    const onRestart = parts.onRestart ? { onRestart: parts.onRestart } : {};
    const writer = await parts.openWorkers({
      ...limits,
      ...onRestart,
      folder: join(folder, 'writer'),
      size: 1,
      keep: true,
    });
    opened.push(writer);
    const data = await LocalData.open(runOn(writer), { folder, order: options.order, scanLimit: options.scanLimit });
    if (data.granularity > granularityFor(options.scanLimit)) {
      const { granularity } = data;
      parts.log.warn(
        { event: 'index-too-coarse', folder, granularityRows: granularity },
        'the stored index is too coarse for this --scan-limit',
      );
    }
    await fill(data, options, parts);
    const dataset = await data.publish(options.earliest ?? firstVisible(data.firstDate), parts.clock);
    const size = options.concurrency;
    const pool = await parts.openWorkers({ ...limits, ...onRestart, folder: join(temporary, 'workers'), size });
    opened.push(pool);
    // Mount the data in each process now, so that the first caller does not wait for it.
    const signal = new AbortController().signal;
    await Promise.all(
      Array.from({ length: size }, (_, number) =>
        pool.use({ owner: `start ${number}`, signal }, (engine) => dataset.prepare(engine)),
      ),
    );
    await data.confirm(runOn(pool), dataset.tables);
    return { pool, parser: openParser(writer), dataset, snapshots: dataset, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function fill(data: LocalData, options: ServiceOptions, { clock, log }: LocalBackendParts): Promise<void> {
  for (const file of options.data) {
    await assertLoadable(file);
    const source = { id: `sha256:${await hashFile(file)}`, name: file, table: 'trades' } as const;
    const isNew = await data.load(source, (target) => loadFile(file, target));
    log.info({ event: 'loaded', file, isNew }, `loaded ${file}`);
  }
  for (const file of options.chain) {
    await assertChainLoadable(file);
    const source = { id: `sha256:${await hashFile(file)}`, name: file, table: 'chains' } as const;
    const isNew = await data.load(source, async (target) => void (await loadChainFile(file, target)));
    log.info({ event: 'loaded', chain: file, isNew }, `loaded ${file}`);
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

/**
 * The first visible date: EARLIEST_DATE, or the first loaded date if earlier, so that older trades and chains are
 * visible.
 */
function firstVisible(firstDate: string | undefined): string {
  return firstDate !== undefined && firstDate < EARLIEST_DATE ? firstDate : EARLIEST_DATE;
}

function runOn(pool: EnginePool): StatementRunner {
  const request = { owner: 'loader', signal: new AbortController().signal };
  return {
    rows: (sql) => pool.use(request, (engine) => engine.rows(sql)),
    command: (sql) => pool.use(request, (engine) => engine.command(sql)),
  };
}
