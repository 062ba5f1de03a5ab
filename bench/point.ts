/**
 * What a point query on a drop reads: bytes over the wire against the size of the object, which lies in a real S3 server
 * behind a proxy that counts; a few columns, and all of them. What a contract costs depends on the row groups that its trades
 * lie in, so that one typical contract would say little: there are many.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { type AsyncBuffer, parquetMetadataAsync, parquetQuery } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { formatTable, right } from '../src/cli/terminal/text.ts';
import { formatBytes, formatCount, formatPercent } from '../src/core/units.ts';
import { openEmbeddedEngine } from '../src/engine/embedded.ts';
import type { Engine } from '../src/engine/engine.ts';
import { quoteString } from '../src/engine/literal.ts';
import { openS3Store } from '../src/store/s3.ts';
import { createS3Client } from '../src/store/s3-client.ts';
import { type S3Server, startS3, useS3Credentials } from '../test/support/s3-server.ts';
import { startTcpProxy } from '../test/support/tcp-proxy.ts';
import { median, type RunBench, runChild, say } from './support/bench.ts';
import { atMost, type NoteGoal } from './support/goal.ts';
import { fetchPages } from './support/pages.ts';
import { withFolder } from './support/product.ts';
import { runWay } from './support/way.ts';

const KEY = 'bench/point/trades.parquet';
/** Bytes read beside the size of the file. */
const REACH_SHARE = 0.02;
const FEW_COLUMNS = ['time', 'price', 'size'] as const;
/** Contracts that stand for all: a median over so many hardly depends on which they are. */
const TYPICAL_CONTRACTS = 101;
/** Trades of a typical contract. One trade is always in one row group; many are where most rows are, not most contracts. */
const TYPICAL_TRADES = [2, 50] as const;
/** What was learnt of the file by the question before must not help. */
const FORGETFUL = 'SETTINGS schema_inference_use_cache_for_s3 = 0';
/** By default ClickHouse reads through gaps of up to 4 MB rather than send another request, and 1 MB where it looks. */
const SMALL_READS = `${FORGETFUL}, remote_read_min_bytes_for_seek = 65536, max_read_buffer_size_remote_fs = 65536`;

interface Contract {
  readonly option_symbol: string;
  readonly trades: number;
}

interface Answer {
  readonly rows: number;
  /** As the reader itself counts them, where it does; else what came from the server. */
  readonly bytes: number;
  /** What the server sent: also what the reader had no use for any more and left in the connection. */
  readonly sentBytes?: number;
}

/** `undefined`: all. */
type Columns = readonly string[] | undefined;
type Ask = (contract: Contract, columns: Columns) => Promise<Answer>;

export const benchPoint: RunBench = async ({ rows, note }) => {
  const { server, reason } = await startS3();
  if (server === undefined) {
    note({ what: 'a point query on the drop over S3', reach: '<= 2%', measured: 'no S3 server', holds: false });
    return `Point queries: not measured, there is no S3 server: ${reason}`;
  }
  return await withFolder(async (folder) => {
    const pages = join(folder, 'pages');
    const out = join(folder, 'drop.parquet');
    await fetchPages(pages, rows);
    await runWay('flowdrop', { pages, out });
    return await measurePoints(out, server, note);
  });
};

/** @param path a drop of trades */
async function measurePoints(path: string, server: S3Server, note: NoteGoal): Promise<string> {
  useS3Credentials(server);
  const { size } = await stat(path);
  const { bucket, region, pathStyle, endpoint } = server;
  const store = await openS3Store({ bucket, prefix: '', region, pathStyle, endpoint });
  const { hostname, port } = new URL(endpoint);
  const proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  try {
    await store.put(KEY, { path });
    const url = `http://127.0.0.1:${proxy.port}`;
    const counted = async (read: () => Promise<Pick<Answer, 'rows'> & Partial<Answer>>): Promise<Answer> => {
      const before = proxy.answerBytes;
      const answer = await read();
      const sentBytes = proxy.answerBytes - before;
      return { bytes: sentBytes, sentBytes, ...answer };
    };
    const readers: readonly (readonly [string, Ask])[] = [
      ['ClickHouse, S3', (...asked) => counted(() => askClickHouse(url, server, asked, SMALL_READS))],
      ['ClickHouse, S3, its defaults', (...asked) => counted(() => askClickHouse(url, server, asked, FORGETFUL))],
      ['hyparquet, S3', (...asked) => counted(() => askHyparquet(url, server, size, asked))],
      ['DuckDB, file', (...asked) => askDuckDb(path, asked)],
    ];
    const lines: string[][] = [];
    const contracts = await listTypical(path);
    for (const columns of [FEW_COLUMNS, undefined]) {
      const title = columns?.join(', ') ?? 'all columns';
      for (const [reader, ask] of readers) {
        say(`point: ${reader}, ${title}`);
        const answers: Answer[] = [];
        for (const contract of contracts) {
          const answer = await ask(contract, columns);
          if (answer.rows !== contract.trades)
            throw new Error(`${reader} found ${answer.rows} of ${contract.trades} trades of ${contract.option_symbol}`);
          answers.push(answer);
        }
        lines.push([reader, title, ...describeAnswers(answers, size)]);
        const share = median(answers.map(({ bytes }) => bytes)) / size;
        const what = `point query / drop of ${formatBytes(size)}: ${reader}, ${title}`;
        note(atMost(what, REACH_SHARE, share, formatPercent));
      }
    }
    return describe(size, lines);
  } finally {
    await store.remove(KEY);
    await store.close();
    await proxy.close();
  }
}

/** Contracts drawn by the hash of their names among those with few trades. */
async function listTypical(path: string): Promise<readonly Contract[]> {
  const engine = await openEmbeddedEngine();
  try {
    const found = await engine.rows<Contract>(
      `SELECT option_symbol, count() AS trades FROM file(${quoteString(path)}, Parquet) GROUP BY option_symbol
       HAVING trades BETWEEN ${TYPICAL_TRADES.join(' AND ')} ORDER BY cityHash64(option_symbol), option_symbol LIMIT ${TYPICAL_CONTRACTS}`,
    );
    if (found.length === 0) throw new Error('the drop has no typical contract');
    return found.map((contract) => ({ ...contract, trades: Number(contract.trades) }));
  } finally {
    await engine.close();
  }
}

/** An engine of its own for every question, so that nothing is known of the file. */
async function askClickHouse(
  url: string,
  server: S3Server,
  [contract, columns]: Parameters<Ask>,
  settings: string,
): Promise<Pick<Answer, 'rows' | 'bytes'>> {
  const engine = await openEmbeddedEngine();
  try {
    const before = await readS3Bytes(engine);
    const given = [`${url}/${server.bucket}/${KEY}`, server.accessKeyId, server.secretAccessKey, 'Parquet'];
    const bytes = await engine.format(
      `SELECT ${columns?.join(', ') ?? '*'} FROM s3(${given.map(quoteString).join(', ')}) WHERE option_symbol = ${quoteString(contract.option_symbol)} ${settings}`,
      'JSONCompactEachRow',
    );
    const rows = Buffer.from(bytes).toString('utf8').split('\n').filter(Boolean).length;
    return { rows, bytes: (await readS3Bytes(engine)) - before };
  } finally {
    await engine.close();
  }
}

async function readS3Bytes(engine: Engine): Promise<number> {
  const [total] = await engine.rows<{ bytes: number }>(
    "SELECT sum(value) AS bytes FROM system.events WHERE event = 'ReadBufferFromS3Bytes'",
  );
  return Number(total?.bytes);
}

async function askHyparquet(
  endpoint: string,
  { bucket, region, pathStyle }: S3Server,
  byteLength: number,
  [contract, columns]: Parameters<Ask>,
): Promise<Pick<Answer, 'rows'>> {
  const client = createS3Client({ bucket, prefix: '', region, pathStyle, endpoint }, 60_000);
  const file: AsyncBuffer = {
    byteLength,
    async slice(start, end = byteLength) {
      const Range = `bytes=${start}-${end - 1}`;
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: KEY, Range }));
      const bytes = (await Body?.transformToByteArray()) ?? new Uint8Array();
      // A copy: the SDK's array may be a part of a larger buffer.
      return Uint8Array.from(bytes).buffer;
    },
  };
  try {
    const metadata = await parquetMetadataAsync(file);
    const rows = await parquetQuery({
      file,
      metadata,
      compressors,
      useOffsetIndex: true,
      useBloomFilters: true,
      filter: { option_symbol: { $eq: contract.option_symbol } },
      ...(columns ? { columns: [...columns] } : {}),
    });
    return { rows: rows.length };
  } finally {
    client.destroy();
  }
}

async function askDuckDb(path: string, [contract, columns]: Parameters<Ask>): Promise<Answer> {
  const sql = `SELECT ${columns?.join(', ') ?? '*'} FROM read_parquet('${path}') WHERE option_symbol = '${contract.option_symbol}'`;
  return JSON.parse(await runChild('duckdb-reader.ts', [sql])) as Answer;
}

/** Cells of one line: the contracts' median and the worst of them. */
function describeAnswers(answers: readonly Answer[], size: number): readonly string[] {
  const bytes = answers.map((answer) => answer.bytes);
  const sent = answers.flatMap(({ sentBytes }) => (sentBytes === undefined ? [] : [sentBytes]));
  return [
    formatCount(answers.length),
    formatBytes(Math.round(median(bytes))),
    formatPercent(median(bytes) / size),
    formatPercent(Math.max(...bytes) / size),
    sent.length === 0 ? '' : formatBytes(Math.round(median(sent))),
  ];
}

function describe(size: number, lines: readonly (readonly string[])[]): string {
  const numbers = ['contracts', 'bytes read', 'of the file', 'worst', 'sent'];
  return [
    `Point queries, option_symbol = ..., on a drop of ${formatBytes(size)} in S3 (Ceph)`,
    '',
    formatTable(['reader', 'question', ...numbers.map(right)], lines),
    '',
    `typical: ${TYPICAL_CONTRACTS} contracts, drawn by a hash of their names, of those with ${TYPICAL_TRADES.join(' to ')} trades that day; their median, and the worst`,
    'of them: a contract of the largest symbols has trades in many row groups.',
    'Every reader begins with nothing: footer, page index and bloom filters are in the bytes. sent: with HTTP headers, and with',
    'what a reader that breaks off left in the connection. ClickHouse: with small reads (remote_read_min_bytes_for_seek and',
    'max_read_buffer_size_remote_fs of 64 KiB), and with its defaults; it counts itself (ReadBufferFromS3Bytes).',
    'DuckDB reads the file from disk as it would from S3: its S3 client has to be downloaded. reach: 2%.',
  ].join('\n');
}
