/**
 * A session that the ClickHouse server writes into the store itself (`drop.write: server`), beside the same session through
 * the worker, and beside the server's own statement alone. The server is the embedded engine behind its HTTP interface, in
 * this process, over the tests' S3 server: all three share two cores with it.
 */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatTable } from '../src/cli/terminal/text-table.ts';
import { formatCount } from '../src/core/units.ts';
import { quoteString } from '../src/engine/literal.ts';
import { openS3Store } from '../src/store/s3.ts';
import { startClickHouseFront } from '../test/support/clickhouse-front.ts';
import { createTradesTable, insertTrades } from '../test/support/engine-source.ts';
import { flowdrop } from '../test/support/flowdrop.ts';
import { s3Environment, startS3, useS3Credentials } from '../test/support/s3-server.ts';
import { createTrade } from '../test/support/trades.ts';
import { formatRatio, median, type RunBench, say } from './support/bench.ts';
import { atLeast } from './support/goal.ts';
import { withFolder } from './support/product.ts';

const DAY = '2025-03-03';
const SEED_ROWS = 3_000;
/** Of the server's own speed. */
const LEAST_SHARE = 0.9;
const NOISE = ['iv', 'delta', 'gamma', 'theta', 'vega', 'rho', 'price'];

export const benchServerDrop: RunBench = async ({ rows, repeat, note }) =>
  await withFolder(async (folder) => {
    const { server, reason } = await startS3();
    if (server === undefined) return `server-drop: skipped, ${reason}`;
    useS3Credentials(server);
    const prefix = `bench-server-drop/${randomUUID()}`;
    const store = await openS3Store({ ...server, prefix });
    const front = await startClickHouseFront();
    try {
      say(`server-drop: ${formatCount(rows)} rows ...`);
      await createTradesTable(front.engine);
      const seed = Array.from({ length: SEED_ROWS }, (_, k) => {
        const trade = createTrade(k);
        return { ...trade, date: DAY, time: `${DAY} ${String(trade['time']).slice(11)}` };
      });
      await insertTrades(front.engine, seed);
      const noise = NOISE.map((name) => `round(rand64(${name}) / 1e19, 4) AS ${name}`).join(', ');
      const times = Math.ceil(rows / SEED_ROWS);
      await front.engine.command('CREATE TABLE session AS RawOptionTrades');
      await front.engine.command(
        `INSERT INTO session SELECT * EXCEPT k REPLACE (concat(id, '-', toString(k)) AS id, ${noise}) FROM RawOptionTrades CROSS JOIN (SELECT number AS k FROM numbers(${times})) AS times`,
      );
      const url = `${server.endpoint}/${server.bucket}/${prefix}/`;
      await front.engine.command(
        `CREATE NAMED COLLECTION flowdrop AS url = ${quoteString(url)}, access_key_id = ${quoteString(server.accessKeyId)}, secret_access_key = ${quoteString(server.secretAccessKey)}`,
      );
      const env = { ...s3Environment(server), FLOWDROP_CLICKHOUSE_URL: front.url };
      const exportDay = async (write: 'server' | 'worker', turn: number) => {
        const name = `by-${write}-${turn}`;
        const job = join(folder, `${name}.yaml`);
        const drop = `  to: s3://${server.bucket}/${prefix}\n  dataset: ${name}\n  write: ${write}\n`;
        await writeFile(job, `name: ${name}\nsource:\n  api: clickhouse\n  table: default.session\ndrop:\n${drop}`);
        const before = front.statements.length;
        const done = await flowdrop(['backfill', job, '--from', DAY, '--to', DAY], { cwd: folder, env });
        if (done.code !== 0) throw new Error(done.stderr);
        return front.statements.slice(before).find((text) => text.startsWith('INSERT INTO FUNCTION'));
      };
      const seconds = { plain: [] as number[], server: [] as number[], worker: [] as number[] };
      const timed = async <T>(kind: keyof typeof seconds, act: () => Promise<T>) => {
        const since = performance.now();
        const made = await act();
        seconds[kind].push((performance.now() - since) / 1_000);
        return made;
      };
      for (let turn = 0; turn < repeat; turn += 1) {
        const insert = await timed('server', () => exportDay('server', turn));
        const again = (insert ?? '').replace(/sealing\/[^']*'/, `plain-${turn}.parquet'`);
        await timed('plain', () => front.engine.command(again));
        await timed('worker', () => exportDay('worker', turn));
      }
      const medians = { plain: median(seconds.plain), server: median(seconds.server), worker: median(seconds.worker) };
      const share = medians.plain / medians.server;
      note(atLeast('share of the server, a date that it writes itself', LEAST_SHARE, share, formatRatio));
      const lines = [
        ["the server's statement alone", medians.plain],
        ['the date, written by the server, verified and published', medians.server],
        ['the date through the worker, verified and published', medians.worker],
      ].map(([what, value]) => [
        String(what),
        `${Number(value).toFixed(1)} s`,
        formatRatio(Number(value) / medians.plain),
      ]);
      const columns = [
        { title: `${formatCount(times * SEED_ROWS)} rows` },
        { title: 'median', align: 'right' as const },
        { title: 'of the statement', align: 'right' as const },
      ];
      return formatTable(columns, lines);
    } finally {
      for await (const { key } of store.list('')) await store.remove(key);
      await store.close();
      await front.close();
    }
  });
