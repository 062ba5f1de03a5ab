/**
 * Loads trades and chains into a ClickHouse server. The files are on this machine: its engine reads a file's columns, and
 * the bytes of trades are sent as they are. Invariant: trades come by way of a table of their own, so a file that cannot
 * be read to its end adds none, and loading again adds those whose ids are missing. Memory holds a piece of the file.
 */
import { createReadStream } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createGunzip } from 'node:zlib';
import type { EnginePool, PooledEngine } from '../../engine/pool.ts';
import { keepKnown, readCapabilities, type ServerEngine } from '../../engine/server.ts';
import type { BackendParts, StatementRunner } from '../backend.ts';
import { generateSession, listClosedSessions, usualRows } from '../generate/generate.ts';
import type { ServiceOptions } from '../options.ts';
import { loadChainFile } from './chain-file.ts';
import { findDataFile, invalidData, readRecords, TEXT_FILES } from './data-file.ts';
import { SERVER_TABLES } from './server-setup.ts';
import { CHAIN_COLUMNS } from './tables.ts';

const { trades, incoming, scratch, chains } = SERVER_TABLES;
/**
 * Ignore columns that the record does not have. Parse numbers exactly, so that 7.94 stays 7.94: the fast parser's last
 * digit may be wrong.
 */
const INSERT_SETTINGS = { input_format_skip_unknown_fields: 1, precise_float_parsing: 1 };

/**
 * @param admin an administrator's connection
 * @param local an engine of this machine
 * @throws Fault `DATA_UNREADABLE` or `DATA_INVALID` (kind `usage`), EngineFault
 */
export async function loadServer(
  options: ServiceOptions,
  admin: ServerEngine,
  local: EnginePool,
  { clock, log }: Pick<BackendParts, 'clock' | 'log'>,
): Promise<void> {
  const use = <T>(act: (engine: PooledEngine) => Promise<T>) =>
    local.use({ owner: 'loader', signal: new AbortController().signal }, act);
  const rows: StatementRunner['rows'] = (sql) => use((engine) => engine.rows(sql));
  for (const file of options.data) {
    const found = await findDataFile(file, TEXT_FILES);
    await readRecords(found, { rows }, () =>
      addTrades(admin, async () => {
        const settings = keepKnown(INSERT_SETTINGS, await readCapabilities(admin));
        await admin.send(`INSERT INTO ${incoming} FORMAT ${found.format}`, readBytes(found.path), { settings });
        const [nameless] = await admin.rows<{ n: number }>(`SELECT count() AS n FROM ${incoming} WHERE id = ''`);
        if (Number(nameless?.n) === 0) return;
        throw invalidData(`${file}: ${nameless?.n} rows have an empty id; each must have its own`);
      }),
    );
    log.info({ event: 'loaded', file }, `loaded ${file}`);
  }
  const { generateSessions, generateRows, seed } = options;
  for (const date of listClosedSessions(clock.now(), generateSessions)) {
    const [found] = await admin.rows<{ n: number }>(`SELECT count() AS n FROM ${trades} WHERE date = '${date}'`);
    if (Number(found?.n) > 0) continue;
    const session = { date, rows: generateRows ?? usualRows(date, seed), seed };
    const insertSql = (select: string) => `INSERT INTO ${incoming} ${select}`;
    await addTrades(admin, () => generateSession(session, { engine: admin, scratch, insertSql }));
    log.info({ event: 'generated', date, rows: session.rows }, `generated ${date}`);
  }
  // The target's columns are given by position, but rows as objects need its column names. Chains are small.
  const insertSql = (select: string) =>
    `SELECT * FROM (${select}) AS chain (${CHAIN_COLUMNS.map(({ name }) => name).join(', ')})`;
  const command = async (select: string) => {
    const payload = await use(async (engine) => buffer(await engine.stream(select, 'JSONEachRow')));
    await admin.send(`INSERT INTO ${chains} FORMAT JSONEachRow`, Readable.from([payload], { objectMode: false }));
  };
  for (const file of options.chain) {
    await loadChainFile(await findDataFile(file, TEXT_FILES), { engine: { rows, command }, scratch, insertSql });
  }
}

/** @param fill inserts the rows into `incoming` */
async function addTrades(admin: ServerEngine, fill: () => Promise<void>): Promise<void> {
  await admin.command(`DROP TABLE IF EXISTS ${incoming}`);
  await admin.command(`CREATE TABLE ${incoming} AS ${trades} ENGINE = MergeTree ORDER BY (date, time, id)`);
  try {
    await fill();
    // Only this server has the incoming rows; GLOBAL sends their dates to the shards, where the trades have some.
    const present = `SELECT id FROM ${trades} WHERE date GLOBAL IN (SELECT DISTINCT date FROM ${incoming})`;
    await admin.command(`INSERT INTO ${trades} SELECT * FROM ${incoming} WHERE id NOT IN (${present})`);
  } finally {
    await admin.command(`DROP TABLE IF EXISTS ${incoming}`);
  }
}

function readBytes(file: string): Readable {
  const source = createReadStream(file);
  if (!/\.gz$/i.test(file)) return source;
  // The reader of the last stream gets the errors of both.
  return pipeline(source, createGunzip(), () => {});
}
