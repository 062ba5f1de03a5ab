/** What the engine read for an answer, from its counters. They are per process, which runs one statement at a time. */
import { quoteString } from '../engine/literal.ts';
import type { PooledEngine } from '../engine/pool.ts';

export interface ReadCost {
  readonly files: number;
  readonly rowGroups: number;
  /** Row groups skipped because of statistics or bloom filters. */
  readonly prunedRowGroups: number;
  /** Bytes read from S3. */
  readonly s3Bytes: number;
}

const EVENTS: Readonly<Record<keyof ReadCost, string>> = {
  files: 'EngineFileLikeReadFiles',
  rowGroups: 'ParquetReadRowGroups',
  prunedRowGroups: 'ParquetPrunedRowGroups',
  s3Bytes: 'ReadBufferFromS3Bytes',
};

/** Of a statement whose cost was not counted. */
export const NO_COST: ReadCost = mapCost(() => 0);

/** Reads the totals since the process started. */
export async function readCost(engine: PooledEngine): Promise<ReadCost> {
  const names = Object.values(EVENTS).map(quoteString).join(', ');
  const rows = await engine.rows<{ event: string; value: number }>(
    `SELECT event, value FROM system.events WHERE event IN (${names})`,
  );
  const values = new Map(rows.map(({ event, value }) => [event, Number(value)]));
  return mapCost((name) => values.get(EVENTS[name]) ?? 0);
}

export function subtractCost(after: ReadCost, before: ReadCost): ReadCost {
  return mapCost((name) => after[name] - before[name]);
}

function mapCost(value: (name: keyof ReadCost) => number): ReadCost {
  return {
    files: value('files'),
    rowGroups: value('rowGroups'),
    prunedRowGroups: value('prunedRowGroups'),
    s3Bytes: value('s3Bytes'),
  };
}
