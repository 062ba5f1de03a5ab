/**
 * A ClickHouse server, or cluster, that answers statements over the archive in place of this machine. Guard, resolution and
 * the choice of files stay here; what is sent reads exactly the sealed files. Invariant: before a statement is sent, the
 * server has found each of these files with the size of its manifest, and no text has a credential of the store.
 */
import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { describeError, Fault, isFault } from '../core/errors.ts';
import { CLICKHOUSE_CODES, EngineFault } from '../engine/engine-fault.ts';
import { type EngineSettings, formatSettings, quoteIdentifier } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';
import { isTooOld, keepKnown, readCapabilities, type ServerEngine } from '../engine/server.ts';
import { listSubqueryNames, listTokens } from '../guard/canonical-text.ts';
import type { StoreAccess } from '../store/store.ts';
import { nameServerFiles } from './drop-files.ts';
import { type EmbeddedRunner, listNamed, MAX_VIEW_BYTES } from './embedded-runner.ts';
import { type AnswerFile, describeFormat, isBinary, READ_SETTINGS } from './output-format.ts';
import { assertSize } from './sealed.ts';
import type { OpenTable } from './tables.ts';

export interface ArchiveServerOptions {
  /** The caller closes it. */
  readonly engine: ServerEngine;
  /** Named collection of the server with the address and the credentials of the store. */
  readonly collection: string;
  /** Name of a cluster whose nodes read the files together; `undefined`: the server alone. */
  readonly cluster: string | undefined;
}

/** Without these an answer would differ from the embedded engine's; the others only save time. */
const NEEDED_SETTINGS: readonly string[] = [
  'session_timezone',
  'date_time_64_output_format_cut_trailing_zeros_align_to_groups_of_thousands',
  'use_hive_partitioning',
];
/** The first version that numbers the rows of a Parquet file right: by these, cancelled prints are left out. */
const OLDEST_COUNTING = '25.10';
/** Where a message repeats what was sent: it is not what the caller wrote. */
const SENT = /\s*(?:\bin scope|: ?while (?:processing|executing)|\bin query:?)\s+.*\bs3(?:Cluster)?\(.*$/is;
/** The date of a file's path is such a type while it is parsed. */
const OWN_SETTINGS = { allow_suspicious_low_cardinality_types: 1 };
/** Sent beside a statement, because in it they come too late. */
const BESIDE = { settings: { max_query_size: MAX_VIEW_BYTES } };

/**
 * `files` is how the server reads the store's. `rows` runs one query for a small result.
 * @param here fails over a wrong statement first, in the caller's words
 * @throws Fault `ENGINE_NEEDS_S3`, `ARCHIVE_LOCATION_INVALID` (usage), `SERVER_TOO_OLD`, `ENGINE_UNREACHABLE`
 */
export async function openServerRunner(
  access: StoreAccess,
  { engine: server, collection, cluster }: ArchiveServerOptions,
  here: EmbeddedRunner,
) {
  if (access.kind !== 's3') {
    throw new Fault('ENGINE_NEEDS_S3', `a server cannot read ${access.path}, which is a directory of this machine`, {
      kind: 'usage',
      hint: 'Leave out --engine, unset FLOWDROP_QUERY_ENGINE_URL, or use a store in S3.',
    });
  }
  const { bucketUrl, prefix } = access;
  const files = nameServerFiles(access, collection, cluster);
  /** Where the objects of the store are, as a named collection states it. */
  const url = `'${bucketUrl}/${prefix === '' ? '' : `${prefix}/`}'`;
  const known = await answerOf(readCapabilities(server));
  const lacking = NEEDED_SETTINGS.filter((name) => !known.settings.has(name));
  if (lacking.length > 0) {
    throw new Fault('SERVER_TOO_OLD', `the server has ClickHouse ${known.version}, without ${lacking[0]}`, {
      hint: 'Its answers would differ. Use a newer server, or leave out --engine.',
    });
  }
  if (known.readonly === 1) {
    throw new Fault('ENGINE_READONLY', "the server's user may not change settings (readonly = 1)", {
      hint: 'Give it a profile with readonly = 2.',
    });
  }
  const withSettings = (sql: string, settings: EngineSettings = {}) =>
    `${sql} ${formatSettings(keepKnown({ ...READ_SETTINGS, ...OWN_SETTINGS, ...settings }, known))}`;
  const rows = async <Row extends object>(sql: string) => await answerOf(server.rows<Row>(withSettings(sql), BESIDE));
  return { files, rows, write };

  /** Waits for the server. @throws Fault, EngineFault in words that help the caller */
  async function answerOf<T>(asked: Promise<T>): Promise<T> {
    return await asked.catch((error: unknown) => {
      throw describeServerFailure(error, url, collection, cluster);
    });
  }

  /**
   * Compares the files that a statement will read with their manifests, as the server sees them.
   * @throws Fault `ENGINE_COLLECTION`, `DROP_DAMAGED`, `SERVER_TOO_OLD`
   */
  async function assertFiles(tables: readonly OpenTable[]): Promise<void> {
    const counted = tables.find((table) => table.rows === 'counted' && table.reads.length > 0);
    if (counted && isTooOld(known.version, OLDEST_COUNTING)) {
      throw new Fault('SERVER_TOO_OLD', `the server has ClickHouse ${known.version}, which miscounts ${counted.name}`, {
        hint: `Use ${OLDEST_COUNTING} or newer, or leave out --engine.`,
      });
    }
    for (const table of tables) {
      const shown = table.listFiles();
      if (shown.length === 0) continue;
      const found = await rows<{ path: string; size: number | string }>(files.sizesSql(shown.map(({ key }) => key)));
      const sizes = new Map(found.map(({ path, size }) => [path, Number(size)]));
      for (const { date, key, file } of shown) {
        const path = files.root + key;
        const size = sizes.get(path);
        if (size === undefined) {
          const [other = 'nothing'] = sizes.keys();
          throw new Fault('ENGINE_COLLECTION', `the server reads ${other} where the store has ${path}`, {
            hint: `Set the url of the named collection ${collection} to ${url}.`,
          });
        }
        assertSize(date, file, new Map([[file.filename, size]]));
      }
    }
  }

  /** Writes the answer over narrowed tables. @throws EngineFault; Fault, `NAME_TAKEN` (usage) among others */
  async function write(engine: PooledEngine, text: string, tables: readonly OpenTable[], file: AnswerFile) {
    const { format, path, signal } = file;
    const columns = await here.describeAnswer(engine, text, tables);
    const sql = nameTables(text, tables);
    await assertFiles(tables);
    const { name, settings } = describeFormat(format);
    const stream = await answerOf(server.stream(withSettings(sql, settings), name, { ...BESIDE, signal }));
    try {
      await pipeline(stream, createWriteStream(path, { flags: 'wx' }), { signal });
    } catch (error) {
      if (signal.aborted || isFault(error)) throw error;
      throw new Fault('OUT_FAILED', `the answer cannot be written: ${describeError(error)}`, {
        hint: 'Make room, or name another place with --out.',
      });
    }
    return { columns: isBinary(format) ? columns : [], cost: undefined };
  }
}

/**
 * The statement with the rows of its tables in it, because a server has no views of ours.
 * @param sql as the guard admitted it @throws Fault `NAME_TAKEN` (usage)
 */
function nameTables(sql: string, tables: readonly OpenTable[]): string {
  const tokens = listTokens(sql);
  const own = new Set(listSubqueryNames(tokens));
  const read = tables.filter(({ reads }) => reads.length > 0);
  const taken = read.find(({ name }) => own.has(name.toLowerCase()));
  if (taken) {
    throw new Fault('NAME_TAKEN', `a subquery has the same name as a table, ${taken.name}`, {
      kind: 'usage',
      hint: 'A server cannot distinguish the two: give the subquery another name.',
    });
  }
  if (read.length === 0) return sql;
  const isNamed = listNamed(sql);
  const named = read.map((table) => `${quoteIdentifier(table.name)} AS (${table.describeRows(isNamed)})`).join(', ');
  const solid = tokens.filter(({ text }) => text.trim() !== '');
  if (solid[0]?.text !== 'WITH') return `WITH ${named} ${sql}`;
  const head = solid[1]?.text === 'RECURSIVE' ? 'WITH RECURSIVE' : 'WITH';
  return `${head} ${named}, ${sql.trimStart().slice(head.length)}`;
}

function describeServerFailure(error: unknown, url: string, collection: string, cluster: string | undefined): unknown {
  if (!(error instanceof EngineFault)) return error;
  switch (error.clickhouseCode) {
    case CLICKHOUSE_CODES.NAMED_COLLECTION_DOESNT_EXIST:
      return new Fault('ENGINE_COLLECTION', `the server has no named collection ${collection}`, {
        hint: `Create it there, with a key that may read: CREATE NAMED COLLECTION ${collection} AS url = ${url}, access_key_id = '...', secret_access_key = '...'. FLOWDROP_QUERY_ENGINE_COLLECTION names another one.`,
      });
    case CLICKHOUSE_CODES.S3_ERROR:
      return new Fault('ENGINE_COLLECTION', `the server cannot read the store by its named collection ${collection}`, {
        cause: error,
        hint: `Set its url to ${url}, with a key that may read.`,
      });
    case CLICKHOUSE_CODES.CLUSTER_DOESNT_EXIST:
      return new Fault('ENGINE_CLUSTER', `the server has no cluster ${cluster ?? ''}`, {
        hint: 'To list the names that FLOWDROP_QUERY_ENGINE_CLUSTER accepts: SELECT DISTINCT cluster FROM system.clusters.',
      });
    case CLICKHOUSE_CODES.ACCESS_DENIED:
      return new Fault('ENGINE_RIGHTS', "the server's user lacks a right", {
        cause: error,
        hint: `It needs, for example: GRANT S3 ON *.* TO USER; GRANT NAMED COLLECTION ON ${collection} TO USER.`,
      });
    case CLICKHOUSE_CODES.AUTHENTICATION_FAILED:
      return new Fault('ENGINE_RIGHTS', 'the server refuses the user or the password', {
        hint: 'Check the user and the password in FLOWDROP_QUERY_ENGINE_URL.',
      });
    case 0:
      return new Fault('ENGINE_UNREACHABLE', `the ClickHouse server does not answer: ${error.message}`, {
        cause: error,
        hint: 'Check the address in --engine or FLOWDROP_QUERY_ENGINE_URL, or leave it out: then this machine answers.',
      });
    default:
      return new EngineFault(error.clickhouseCode, error.message.replace(SENT, ''), error);
  }
}
