/**
 * The embedded backend: data in a folder, one engine process that loads it and afterwards parses, and several that mount
 * it and answer. Owns the folder unless it was named.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../core/clock.ts';
import { hashFile } from '../core/file-hash.ts';
import type { Log } from '../core/log.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/fault.ts';
import type { EnginePool } from '../engine/pool.ts';
import { EARLIEST_DATE } from '../wire/limits.ts';
import type { Backend, EngineOpeners } from './backend.ts';
import type { StatementRunner } from './dataset.ts';
import { generateSession, listClosedSessions } from './generate.ts';
import { assertLoadable, loadFile } from './load.ts';
import { LocalData } from './local-data.ts';
import type { ServiceOptions } from './options.ts';
import { MAX_RESULT_BYTES } from './query.ts';

/** Callers wait in the queue of the endpoint's requests, not in an endless one. */
const MAX_WAITING = 64;
/** Texts are short; one that takes longer than this to parse was made for it. */
const PARSE_TIMEOUT_MS = 5_000;

export interface LocalBackendParts extends EngineOpeners {
  readonly clock: Clock;
  readonly log: Log;
  readonly onRestart?: () => void;
}

/** @throws Fault `DATA_INVALID`, `DATA_UNREADABLE`, `DATA_DIR_INVALID` (kind `usage`) */
export async function openLocalBackend(options: ServiceOptions, parts: LocalBackendParts): Promise<Backend> {
  const temporary = await mkdtemp(join(tmpdir(), 'flowdrop-service-'));
  const opened: EnginePool[] = [];
  const close = async () => {
    await Promise.all(opened.map((pool) => pool.close()));
    await rm(temporary, { recursive: true, force: true, maxRetries: 3 });
  };
  try {
    const limits = { maxWaiting: MAX_WAITING, maxResultBytes: MAX_RESULT_BYTES };
    const folder = options.dataDir ?? join(temporary, 'data');
    const writer = await parts.openWorkers({ ...limits, folder: join(folder, 'engine'), size: 1, keep: true });
    opened.push(writer);
    const data = await LocalData.open(runOn(writer), { folder, order: options.order, scanLimit: options.scanLimit });
    await fill(data, options, parts);
    const dataset = await data.publish(options.earliest ?? firstVisible(data.firstDate), parts.clock);
    const onRestart = parts.onRestart ? { onRestart: parts.onRestart } : {};
    const size = options.concurrency;
    const pool = await parts.openWorkers({ ...limits, ...onRestart, folder: join(temporary, 'workers'), size });
    opened.push(pool);
    // Each process mounts the data now rather than in the first caller's time.
    const signal = new AbortController().signal;
    await Promise.all(
      Array.from({ length: size }, (_, number) =>
        pool.use({ owner: `start ${number}`, signal }, (engine) => dataset.prepare(engine)),
      ),
    );
    return { pool, parser: { rows: (sql) => parse(writer, sql) }, dataset, close };
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
    log.info({ event: 'loaded', file, isNew });
  }
  const { generateRows: rows, seed } = options;
  for (const date of listClosedSessions(clock.now(), options.generateSessions)) {
    const place = `generated:${date}:`;
    const source = { id: `${place}${rows}:${seed}`, name: date, table: 'trades' } as const;
    // Another generation of the same date would be a second market beside the first.
    const isNew = await data.load(
      source,
      (target) => generateSession({ date, rows, seed }, target),
      (other) => other.id.startsWith(place),
    );
    log.info({ event: 'generated', date, rows, isNew });
  }
}

/** Data from before the provider's first date would otherwise be invisible. */
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

async function parse<Row extends object>(parser: EnginePool, sql: string): Promise<readonly Row[]> {
  const signal = AbortSignal.timeout(PARSE_TIMEOUT_MS);
  try {
    return await parser.use({ owner: 'parser', signal }, (engine) => engine.rows<Row>(sql));
  } catch (cause) {
    if (!signal.aborted) throw cause;
    throw new EngineFault(CLICKHOUSE_CODES.TOO_SLOW_PARSING, 'the statement takes too long to parse', cause);
  }
}
