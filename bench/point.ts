/**
 * What a point query on a drop reads: bytes over the wire against the size of the object, which lies in a real S3 server
 * behind a proxy that counts. A typical contract and the one with most trades; a few columns and all of them.
 */
import { execFile } from 'node:child_process';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { type AsyncBuffer, parquetMetadataAsync, parquetQuery } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { formatTable } from '../src/cli/terminal/table.ts';
import { formatBytes, formatCount, formatPercent } from '../src/core/units.ts';
import { openEmbeddedEngine } from '../src/engine/embedded.ts';
import type { Engine } from '../src/engine/engine.ts';
import { quoteString } from '../src/engine/literal.ts';
import { openS3Store } from '../src/store/s3.ts';
import { createS3Client } from '../src/store/s3-client.ts';
import { type S3Server, startS3, useS3Credentials } from '../test/support/s3-server.ts';
import { type RunBench, say } from './support/bench.ts';
import { startCountingProxy } from './support/counting-proxy.ts';
import { fetchPages } from './support/pages.ts';
import { withFolder } from './support/product.ts';
import { runWay } from './support/way.ts';

const KEY = 'bench/point/trades.parquet';
const FEW_COLUMNS = ['time', 'price', 'size'] as const;
const MAX_OUTPUT_BYTES = 1 << 26;
/** What was learnt of the file by the question before must not help. */
const FORGETFUL = 'SETTINGS schema_inference_use_cache_for_s3 = 0';
/** By default ClickHouse reads through gaps of up to 4 MB rather than send another request, and 1 MB where it looks. */
const SMALL_READS = `${FORGETFUL}, remote_read_min_bytes_for_seek = 65536, max_read_buffer_size_remote_fs = 65536`;

interface Contract {
  readonly option_symbol: string;
  readonly trades: number;
}

interface Question {
  readonly contract: Contract;
  readonly title: string;
  /** `undefined`: all. */
  readonly columns: readonly string[] | undefined;
}

interface Answer {
  readonly rows: number;
  /** As the reader itself counts them, where it does; else what came from the server. */
  readonly bytes: number;
  /** What the server sent: also what the reader had no use for any more and left in the connection. */
  readonly sentBytes?: number;
}

type Ask = (question: Question) => Promise<Answer>;

export const benchPoint: RunBench = async ({ rows }) => {
  const { server, reason } = await startS3();
  if (server === undefined) return `Point queries: not measured, there is no S3 server: ${reason}`;
  return await withFolder(async (folder) => {
    const pages = join(folder, 'pages');
    const out = join(folder, 'drop.parquet');
    const scratch = join(folder, 'scratch');
    await fetchPages(pages, rows);
    await mkdir(scratch);
    await runWay('flowdrop', { pages, out, scratch });
    return await measurePoints(out, server);
  });
};

/** @param path a drop of trades */
export async function measurePoints(path: string, server: S3Server): Promise<string> {
  useS3Credentials(server);
  const { size } = await stat(path);
  const { bucket, region, pathStyle, endpoint } = server;
  const store = await openS3Store({ bucket, prefix: '', region, pathStyle, endpoint });
  const { hostname, port } = new URL(endpoint);
  const proxy = await startCountingProxy(hostname, Number(port));
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
      ['ClickHouse, S3', (question) => counted(() => askClickHouse(url, server, question, SMALL_READS))],
      ['ClickHouse, S3, its defaults', (question) => counted(() => askClickHouse(url, server, question, FORGETFUL))],
      ['hyparquet, S3', (question) => counted(() => askHyparquet(url, server, size, question))],
      ['DuckDB, file', (question) => askDuckDb(path, question)],
    ];
    const lines: string[][] = [];
    for (const question of await listQuestions(path)) {
      for (const [reader, ask] of readers) {
        say(`point: ${reader}, ${question.title}`);
        const { bytes, sentBytes, rows } = await ask(question);
        if (rows !== question.contract.trades)
          throw new Error(`${reader} found ${rows} of ${question.contract.trades}`);
        const sent = sentBytes === undefined ? '' : formatBytes(sentBytes);
        lines.push([reader, question.title, formatCount(rows), formatBytes(bytes), formatPercent(bytes / size), sent]);
      }
    }
    return describe(size, lines);
  } finally {
    await store.remove(KEY);
    await store.close();
    await proxy.close();
  }
}

/** A contract in the middle of all, by its trades, and the one with most. */
async function listQuestions(path: string): Promise<readonly Question[]> {
  const engine = await openEmbeddedEngine();
  try {
    const contracts = await engine.rows<Contract>(
      `SELECT option_symbol, count() AS trades FROM file(${quoteString(path)}, Parquet) GROUP BY option_symbol ORDER BY trades, option_symbol`,
    );
    const [typical, busiest] = [contracts[contracts.length >> 1], contracts.at(-1)];
    if (!typical || !busiest) throw new Error('the drop has no rows');
    return [typical, busiest].flatMap((found, index) => {
      const contract = { ...found, trades: Number(found.trades) };
      const which = index === 0 ? 'typical' : 'busiest';
      return [
        { contract, title: `${which} contract, ${FEW_COLUMNS.join(', ')}`, columns: FEW_COLUMNS },
        { contract, title: `${which} contract, all columns`, columns: undefined },
      ];
    });
  } finally {
    await engine.close();
  }
}

/** An engine of its own for every question, so that nothing is known of the file. */
async function askClickHouse(
  url: string,
  server: S3Server,
  { contract, columns }: Question,
  settings: string,
): Promise<Pick<Answer, 'rows' | 'bytes'>> {
  const engine = await openEmbeddedEngine();
  try {
    const before = await readS3Bytes(engine);
    const given = [`${url}/${server.bucket}/${KEY}`, server.accessKeyId, server.secretAccessKey, 'Parquet'];
    const { bytes } = await engine.format(
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
  { contract, columns }: Question,
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
      filter: { option_symbol: { $eq: contract.option_symbol } },
      ...(columns ? { columns: [...columns] } : {}),
    });
    return { rows: rows.length };
  } finally {
    client.destroy();
  }
}

async function askDuckDb(path: string, { contract, columns }: Question): Promise<Answer> {
  const entry = fileURLToPath(new URL('support/duckdb-reader.ts', import.meta.url));
  const sql = `SELECT ${columns?.join(', ') ?? '*'} FROM read_parquet('${path}') WHERE option_symbol = '${contract.option_symbol}'`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', entry, sql], {
    maxBuffer: MAX_OUTPUT_BYTES,
  });
  return JSON.parse(stdout) as Answer;
}

function describe(size: number, lines: readonly (readonly string[])[]): string {
  const titles = ['reader', 'question', 'rows', 'bytes read', 'of the file', 'sent'];
  return [
    `Point queries, option_symbol = ..., on a drop of ${formatBytes(size)} in S3 (Ceph)`,
    '',
    formatTable(
      titles.map((title, index) => ({ title, align: index < 2 ? ('left' as const) : ('right' as const) })),
      lines.map((line) => [...line]),
    ),
    '',
    'Every reader begins with nothing: footer, page index and bloom filters are in the bytes. sent: with HTTP headers, and with',
    'what a reader that breaks off left in the connection. ClickHouse: with small reads (remote_read_min_bytes_for_seek and',
    'max_read_buffer_size_remote_fs of 64 KiB), and with its defaults; it counts itself (ReadBufferFromS3Bytes).',
    'DuckDB reads the file from disk as it would from S3: its S3 client has to be downloaded. reach: 2 %.',
  ].join('\n');
}
