/**
 * The tables of a server that writes its drops: `RawOptionTrades`, a `wide` one whose file is copied inside the store, and
 * `days` with several sessions.
 */
import { quoteString } from '../../src/engine/literal.ts';
import type { ClickHouseFront } from './clickhouse-front.ts';
import { createTradesTable, insertTrades } from './engine-source.ts';
import type { S3Server } from './s3-server.ts';
import { createTrade } from './trades.ts';

export const SERVER_DAY = '2025-03-03';
export const SERVER_ROWS = 3_000;
/** Of the table `days`: each has all rows of `RawOptionTrades`. */
export const SERVER_DAYS = [SERVER_DAY, '2025-03-04', '2025-03-05'];
const FLOATS = ['iv', 'delta', 'gamma', 'theta', 'vega', 'rho'];

/** Trades of `SERVER_DAY`. */
export function createServerTrades(from: number, count: number) {
  return Array.from({ length: count }, (_, k) => {
    const trade = createTrade(from + k);
    return { ...trade, date: SERVER_DAY, time: `${SERVER_DAY} ${String(trade['time']).slice(11)}` };
  });
}

/** @param wideRows so many that the file is larger than S3's smallest part: its numbers cannot be compressed */
export async function fillServerTables({ engine }: ClickHouseFront, wideRows: number): Promise<void> {
  await createTradesTable(engine);
  await insertTrades(engine, createServerTrades(0, SERVER_ROWS));
  const noise = FLOATS.map((name) => `rand64(${name}) / 1e19 AS ${name}`).join(', ');
  await engine.command('CREATE TABLE wide AS RawOptionTrades');
  await engine.command(`INSERT INTO wide SELECT * EXCEPT k REPLACE (concat(id, '-', toString(k)) AS id, ${noise})
    FROM RawOptionTrades CROSS JOIN (SELECT number AS k FROM numbers(${wideRows / SERVER_ROWS})) AS times`);
  const days = SERVER_DAYS.map(quoteString).join(', ');
  await engine.command('CREATE TABLE days AS RawOptionTrades');
  await engine.command(`INSERT INTO days SELECT * EXCEPT day REPLACE (day AS date, concat(day, substring(time, 11)) AS time)
    FROM RawOptionTrades CROSS JOIN (SELECT arrayJoin([${days}]) AS day) AS sessions`);
}

/** Creates the named collection of a store below `prefix`, or replaces it. */
export async function nameCollection(
  { engine }: ClickHouseFront,
  collection: string,
  { endpoint, bucket, accessKeyId, secretAccessKey }: S3Server,
  prefix: string,
): Promise<void> {
  const url = `${endpoint}/${bucket}/${prefix.split('/').map(encodeURIComponent).join('/')}/`;
  const credentials = `access_key_id = ${quoteString(accessKeyId)}, secret_access_key = ${quoteString(secretAccessKey)}`;
  await engine.command(`DROP NAMED COLLECTION IF EXISTS ${collection}`);
  await engine.command(`CREATE NAMED COLLECTION ${collection} AS url = ${quoteString(url)}, ${credentials}`);
}
