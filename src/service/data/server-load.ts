/**
 * Loads trades from files into a ClickHouse server: NDJSON and CSV (both may be gzipped), in the format of the trade
 * record. The file is on this machine and not on the server, so its bytes are sent in batches of whole lines.
 * Invariant: a file that cannot be read to its end adds no rows; loading again completes an interrupted load. Memory
 * holds one batch, and lines never become JavaScript objects, except the first, which is parsed for its column names.
 */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { TRADE_COLUMNS } from '../../api-contract/trade.ts';
import { describeError, Fault } from '../../core/errors.ts';
import { keepKnown, readCapabilities } from '../../engine/capabilities.ts';
import type { Engine, InsertRequest } from '../../engine/engine.ts';
import { readFormat, TEXT_FILES } from './data-file.ts';
import { splitLines } from './lines.ts';

interface LoadPlaces {
  /** Table that receives the rows. */
  readonly trades: string;
  /** Temporary table that is created, filled and dropped. */
  readonly incoming: string;
}

/**
 * Bytes per INSERT, about 13,000 records. Larger batches create fewer parts to merge, but need more memory on both
 * sides.
 */
const BATCH_BYTES = 16_000_000;
/**
 * Ignore columns that the record does not have. Parse numbers exactly, so that 7.94 stays 7.94: the fast parser's last
 * digit may be wrong.
 */
const INSERT_SETTINGS = { input_format_skip_unknown_fields: 1, precise_float_parsing: 1 };
/** A longer line cannot be a trade record. */
const MAX_LINE_BYTES = 1_000_000;

/**
 * Inserts the rows of `file` whose ids do not exist on their dates, so loading a file again changes nothing.
 * @param engine connection of an administrator
 * @throws Fault `DATA_UNREADABLE` or `DATA_INVALID` (kind `usage`)
 */
export async function loadServerFile(engine: Engine, file: string, places: LoadPlaces): Promise<void> {
  const format = readFormat(file, TEXT_FILES);
  const { trades, incoming } = places;
  await engine.command(`DROP TABLE IF EXISTS ${incoming}`);
  await engine.command(`CREATE TABLE ${incoming} AS ${trades} ENGINE = MergeTree ORDER BY (date, time, id)`);
  try {
    const settings = keepKnown(INSERT_SETTINGS, await readCapabilities(engine));
    await insertBatches(engine, file, { format, table: incoming, settings });
    const [nameless] = await engine.rows<{ n: number }>(`SELECT count() AS n FROM ${incoming} WHERE id = ''`);
    if (Number(nameless?.n) > 0) throw invalid(`${file}: ${nameless?.n} rows have an empty id; each must have its own`);
    // Only this server has the incoming rows; GLOBAL sends their dates to the shards, where the trades have some.
    const present = `SELECT id FROM ${trades} WHERE date GLOBAL IN (SELECT DISTINCT date FROM ${incoming})`;
    await engine.command(`INSERT INTO ${trades} SELECT * FROM ${incoming} WHERE id NOT IN (${present})`);
  } catch (cause) {
    if (cause instanceof Fault && cause.code === 'DATA_INVALID') throw cause;
    throw new Fault('DATA_UNREADABLE', `${file}: the rows cannot be read as ${format}: ${describeError(cause)}`, {
      kind: 'usage',
      cause,
      hint: 'Rows are trade records as the API returns them: one JSON object or CSV line each.',
    });
  } finally {
    await engine.command(`DROP TABLE IF EXISTS ${incoming}`);
  }
}

interface BatchTarget extends Pick<InsertRequest, 'settings'> {
  readonly format: InsertRequest['format'];
  readonly table: string;
}

async function insertBatches(engine: Engine, file: string, target: BatchTarget): Promise<void> {
  const { format, settings = {}, table } = target;
  const isCsv = format === 'CSVWithNames';
  const limits = { batchBytes: BATCH_BYTES, maxLineBytes: MAX_LINE_BYTES, hasQuotes: isCsv };
  let header: Uint8Array | undefined;
  for await (const batch of splitLines(readBytes(file), limits)) {
    const isFirst = header === undefined;
    if (header === undefined) {
      header = batch.subarray(0, batch.indexOf(0x0a) + 1);
      const names = isCsv ? parseCsvNames(header) : parseJsonNames(file, header);
      assertColumns(file, names);
    }
    const payload = isCsv && !isFirst ? Buffer.concat([header, batch]) : batch;
    await engine.insert({ table, format, payload, settings });
  }
}

function readBytes(file: string): AsyncIterable<Uint8Array> {
  const source = createReadStream(file);
  if (!/\.gz$/i.test(file)) return source;
  // The reader of the last stream gets the errors of both.
  return pipeline(source, createGunzip(), () => {});
}

function assertColumns(file: string, present: readonly string[]): void {
  const missing = TRADE_COLUMNS.filter(({ name }) => !present.includes(name)).map(({ name }) => name);
  if (missing.length === 0) return;
  const wanted = TRADE_COLUMNS.map(({ name }) => name).join(', ');
  throw invalid(`${file}: rows lack ${missing.join(', ')}; they have ${present.join(', ')}; required: ${wanted}`);
}

function parseJsonNames(file: string, line: Uint8Array): readonly string[] {
  try {
    const row: unknown = JSON.parse(Buffer.from(line).toString('utf8'));
    if (typeof row === 'object' && row !== null) return Object.keys(row);
  } catch {
    // The error below shows the line.
  }
  const head = Buffer.from(line).toString('utf8').slice(0, 80).trim();
  throw invalid(`${file}, line 1: ${head} is not a JSON object; allowed is one per line`);
}

/** Column names contain neither commas nor quotes. */
function parseCsvNames(line: Uint8Array): readonly string[] {
  const text = Buffer.from(line).toString('utf8').trim();
  return text.split(',').map((name) => name.replace(/^"(.*)"$/, '$1'));
}

function invalid(message: string): Fault {
  return new Fault('DATA_INVALID', message, {
    kind: 'usage',
    hint: 'Rows are trade records as the API returns them.',
  });
}
