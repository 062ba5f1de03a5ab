/** Fetching snapshots against a scripted client and a real stage: what no one answer gives away. Flows are in `test/flow`. */
import { afterAll, expect, it } from 'vitest';
import { openEmbeddedEngine } from '../../../src/engine/embedded.ts';
import { fetchSnapshots } from '../../../src/export/snapshots/snapshot-dates.ts';
import { parseJob } from '../../../src/job/parse.ts';
import type { SnapshotClient } from '../../../src/source/snapshot.ts';
import { SourceFault } from '../../../src/source/source.ts';
import { openStage } from '../../../src/stage/stage.ts';
import { listStages } from '../../../src/stage/stage-table.ts';
import { ApiLimits } from '../../../src/state/limits.ts';
import { openSnapshots } from '../../support/run.ts';
import { createPage, DATE, type TradeRow } from '../../support/trades.ts';

const engine = await openEmbeddedEngine();
afterAll(async () => await engine.close());

/** Fetches the chains of a job by a client that answers so. Nothing is known beforehand. */
async function fetchChains(symbols: string, ask: SnapshotClient['ask']): Promise<void> {
  const text = `name: chain\nsource: {api: chain, symbols: [${symbols}]}\ndrop: {to: out, dataset: chain}\n`;
  const job = parseJob('c.yaml', text);
  const source: Pick<SnapshotClient, 'ask' | 'canNarrow'> = { canNarrow: true, ask };
  const opened = openSnapshots(job, source as SnapshotClient, new ApiLimits('none.json', 0));
  const stage = await openStage(engine, job, DATE, 'api://chain');
  await fetchSnapshots({ ...opened, onEvent: () => undefined }, stage);
}

it('a chain whose one half is there and whose other half is said to be missing is a failure, not half a chain', async () => {
  const fetching = fetchChains('SPX', async ({ filter = {} }) => {
    const { strikeMin, strikeMax } = filter;
    if (strikeMin === undefined && strikeMax === undefined)
      throw new SourceFault('REQUEST_TOO_BROAD', 'too broad', { action: 'split' });
    if (strikeMin === undefined) return { kind: 'missing', reason: 'SNAPSHOT_NOT_FOUND', rows: 0 };
    return { kind: 'rows', ...createPage([{ option_symbol: 'SPX261120C06700000', strike: 6700 }]) };
  });
  await expect(fetching).rejects.toMatchObject({ code: 'SNAPSHOT_TORN' });
});

it('parts of a chain that have a contract in common are a failure, and nothing of them is kept', async () => {
  const CALL = { option_symbol: 'SPX261120C06700000', put_call: 'CALL', strike: 6700 };
  const PUT = { option_symbol: 'SPX261120P06700000', put_call: 'PUT', strike: 6700 };
  const answers = {
    'a filter that is not heeded': ({ symbol, filter = {} }) => {
      if (symbol === 'SPX' && filter.strikeMin === undefined && filter.strikeMax === undefined)
        throw new SourceFault('REQUEST_TOO_BROAD', 'too broad', { action: 'split' });
      return symbol === 'SPX' ? [CALL, PUT] : [];
    },
    'the answer to another question': () => [
      { ...CALL, symbol: 'SPX' },
      { ...PUT, symbol: 'SPX' },
    ],
  } satisfies Record<string, (request: Parameters<SnapshotClient['ask']>[0]) => readonly TradeRow[]>;
  for (const answer of Object.values(answers)) {
    const fetching = fetchChains('SPX, QQQ', async (request) => ({ kind: 'rows', ...createPage(answer(request)) }));
    await expect(fetching).rejects.toMatchObject({ code: 'SNAPSHOT_MIXED' });
    expect(await listStages(engine)).toEqual([]);
  }
});
