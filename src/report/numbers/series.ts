/**
 * Volume above open interest: option series of which more contracts traded this day than were open before it, so that
 * at least a part of the day's volume opened positions. Volume is the sum of `size` over the counted records; open
 * interest is the record's `oi`, which the clearing house (OCC) publishes once before the opening; of different values
 * the largest counts.
 */

import type { VolumeAboveOpenInterest } from '../model.ts';
import type { DropSource } from '../source.ts';
import { SERIES_HASH } from '../sums/premium-sums.ts';
import { type EngineNumber, readAmount } from './premium.ts';

/** One pass; a group for each series that traded, by a hash of its key, which takes half the time of the key itself. */
export async function queryVolumeAboveOpenInterest(source: DropSource): Promise<VolumeAboveOpenInterest> {
  const [row] = await source.rows<SeriesRow>(
    `SELECT countIf(volume > open_interest) AS series, count() AS of_series, countIf(isNull(volume) OR isNull(open_interest)) AS unknown,
       sumOrNullIf(total, volume > open_interest) AS premium
     FROM (
       SELECT sum(size) AS volume, max(oi) AS open_interest, sum(premium) AS total
       FROM (SELECT size, oi, premium, ${SERIES_HASH} AS series FROM ${source.table}) GROUP BY series
     )`,
  );
  const series = row?.series ?? 0;
  const premium = readAmount(row?.premium, series === 0);
  return { series, ofSeries: row?.of_series ?? 0, unknownSeries: row?.unknown ?? 0, premium };
}

interface SeriesRow {
  readonly series: number;
  readonly of_series: number;
  readonly unknown: number;
  readonly premium: EngineNumber;
}
