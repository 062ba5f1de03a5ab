/**
 * What a point query with all columns costs at least a reader that skips row groups but no pages, computed from the footer
 * for every contract: the footer and every row group that the trades of the contract lie in. So the few contracts that
 * readers are asked for can be compared with all of them.
 */
import type { FileMetaData } from 'hyparquet';
import { formatCount, formatPercent } from '../../src/core/units.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { quoteString } from '../../src/engine/literal.ts';

/** The last bytes of a file: the footer's length and the magic number. */
const TAIL_BYTES = 8;

/** Shares of the file, 0 to 1. */
export interface RowGroupCost {
  readonly contracts: number;
  readonly median: number;
  readonly mean: number;
  readonly p90: number;
  readonly worst: number;
  /** Contracts that cost at most `reach`, of all. */
  readonly within: number;
}

export interface CostQuestion {
  readonly sizeBytes: number;
  readonly metadata: FileMetaData;
  /** Fewest and most trades of the contracts that are counted. */
  readonly trades: readonly [number, number];
  readonly reach: number;
}

/** @param path the drop that `metadata` was read from */
export async function computeRowGroupCost(engine: Engine, path: string, question: CostQuestion): Promise<RowGroupCost> {
  const { sizeBytes, metadata, trades, reach } = question;
  const groups = metadata.row_groups.map(({ num_rows, columns }) => ({
    rows: Number(num_rows),
    bytes: columns.reduce((sum, column) => sum + Number(column.meta_data?.total_compressed_size ?? 0), 0),
  }));
  let reached = 0;
  const ends = groups.map(({ rows }) => {
    reached += rows;
    return reached;
  });
  const footer = metadata.metadata_length + TAIL_BYTES;
  const [cost] = await engine.rows<RowGroupCost>(
    `WITH [${ends.join(', ')}] AS ends, [${groups.map(({ bytes }) => bytes).join(', ')}] AS sizes
     SELECT count() AS contracts, median(share) AS median, avg(share) AS mean, quantile(0.9)(share) AS p90, max(share) AS worst,
       countIf(share <= ${reach}) / count() AS within
     FROM (
       SELECT (${footer} + arraySum(g -> sizes[g], groupUniqArray(arrayFirstIndex(e -> n < e, ends)))) / ${sizeBytes} AS share
       FROM (SELECT option_symbol, _row_number AS n FROM file(${quoteString(path)}, Parquet))
       GROUP BY option_symbol HAVING count() BETWEEN ${trades.join(' AND ')}
     )`,
  );
  if (cost === undefined || Number(cost.contracts) === 0)
    throw new Error('the drop has no contract to compute a cost for');
  return { ...cost, contracts: Number(cost.contracts) };
}

export function describeRowGroupCost(cost: RowGroupCost, { trades: [fewest, most], reach }: CostQuestion): string {
  const [median, mean, p90, worst] = [cost.median, cost.mean, cost.p90, cost.worst].map((share) =>
    formatPercent(share),
  );
  return [
    `By the footer, all columns of the ${formatCount(cost.contracts)} contracts with ${fewest} to ${most} trades, of the row groups that they lie in:`,
    `median ${median}, mean ${mean}, 90% of them at most ${p90}, worst ${worst}; within ${formatPercent(reach)}: ${formatPercent(cost.within)}.`,
  ].join('\n');
}
