/**
 * The service over a real cluster of old servers, at the address of one node: set-up, loading, and reading without a
 * replica. The same over one server is in `test/service/server-service.external.test.ts`.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openServerEngine } from '../../src/engine/server.ts';
import { EVENING, startTestService, type TestService } from '../service/running-service.ts';
import { CLUSTER, macrosXml, startCluster } from '../support/clickhouse-cluster.ts';
import { createTrade } from '../support/trades.ts';

const { server: cluster, reason } = await startCluster();
const ROWS = 10_000;
const SUM = 'SELECT count() AS n, uniqExact(id) AS ids, sum(size) AS size FROM RawOptionTrades';

// Skipped only where no cluster can be had, which `support/clickhouse-cluster.ts` says aloud; CI never skips it.
describe.skipIf(cluster === undefined)('the service over a cluster', () => {
  let folder: string;
  let service: TestService;
  let expected: object;

  const open = async (data: readonly string[]) => {
    if (cluster === undefined) throw new Error(reason);
    const [{ adminUrl, readerUrl: url }] = cluster.nodes;
    const clickhouse = { url, adminUrl, cluster: CLUSTER };
    return await startTestService({ asOf: EVENING, data, concurrency: 8 }, { clickhouse });
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'flowdrop-cluster-'));
    const file = join(folder, 'trades.ndjson');
    const trades = Array.from({ length: ROWS }, (_, k) => createTrade(k));
    await writeFile(file, trades.map((trade) => JSON.stringify(trade)).join('\n'));
    expected = { n: ROWS, ids: ROWS, size: trades.reduce((sum, trade) => sum + Number(trade['size']), 0) };
    // Twice: the second start sets up and loads what is there.
    await (await open([file])).stop();
    service = await open([file]);
  });

  afterAll(async () => {
    await service?.stop();
    await cluster?.stop();
    if (folder) await rm(folder, { recursive: true, force: true });
  });

  test('every shard has rows, and a second load doubles none', async () => {
    expect((await service.ask(SUM)).body.data).toEqual([expected]);
    for (const node of [cluster?.nodes[0], cluster?.nodes[2]]) {
      const admin = await openServerEngine({ url: node?.adminUrl ?? '' });
      const [found] = await admin.rows<{ n: number }>('SELECT count() AS n FROM flowdrop_data.trades_local');
      expect(found?.n).toBeGreaterThan(ROWS / 4);
      expect(found?.n).toBeLessThan((ROWS * 3) / 4);
      await admin.close();
    }
  });

  test('each shard is read from its other replica when one is gone', async () => {
    for (const node of [cluster?.nodes[1], cluster?.nodes[3]]) await node?.kill();
    for (let round = 0; round < 10; round += 1) expect((await service.ask(SUM)).body.data).toEqual([expected]);
  });

  test('a cluster that the server does not know is named, with those that it knows', async () => {
    if (cluster === undefined) throw new Error(reason);
    const [{ adminUrl, readerUrl: url }] = cluster.nodes;
    const clickhouse = { url, adminUrl, cluster: 'nowhere' };
    await expect(startTestService({ asOf: EVENING }, { clickhouse })).rejects.toMatchObject({
      code: 'CLUSTER_NOT_READY',
      kind: 'usage',
      message: expect.stringContaining(CLUSTER),
    });
  });
});

describe.skipIf(cluster === undefined)('a cluster whose nodes have wrong macros', () => {
  test.each([
    ['none', () => '', /0 values of the macro \{shard\}/],
    [
      'the same shard everywhere',
      (_: string, replica: string) => macrosXml('1', replica),
      /1 values of the macro \{shard\}/,
    ],
  ])('is refused: %s', async (_what, macros, said) => {
    const { server: wrong, reason: obstacle } = await startCluster({ macros });
    if (wrong === undefined) throw new Error(obstacle);
    const [{ adminUrl, readerUrl: url }] = wrong.nodes;
    try {
      await expect(
        startTestService({ asOf: EVENING }, { clickhouse: { url, adminUrl, cluster: CLUSTER } }),
      ).rejects.toMatchObject({ code: 'CLUSTER_NOT_READY', message: expect.stringMatching(said) });
    } finally {
      await wrong.stop();
    }
  });
});
