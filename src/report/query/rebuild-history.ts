/**
 * The query that rebuilds the comparison with the sessions before, from their summaries, in ClickHouse and DuckDB. Each
 * summary is saved under the date of its session, because all have one name in the store. Pure.
 */
import { FEWEST_IN_MEAN } from '../key-numbers.ts';
import { COMPARED_SQL, SUMMARY_COLUMNS } from '../number-values.ts';

/**
 * @param with_ how a query begins: `WITH`, or `WITH counted AS (...),`
 * @param counted the counted records, for a FROM clause
 * @param dates the sessions that are compared, newest first; none: there is no query
 */
export function buildComparisonQueries(
  with_: string,
  counted: string,
  dates: readonly string[],
): readonly (readonly [table: string, sql: string])[] {
  if (dates.length === 0) return [];
  const nameOf = (date: string) => `${date}.summary.parquet`;
  // One type of number, for both parts of the last UNION.
  const columns = COMPARED_SQL.map(([name, sql]) => `${sql} * 1.0 AS of_${name}`);
  const means = COMPARED_SQL.map(
    ([name]) => `CASE WHEN count(of_${name}) >= ${FEWEST_IN_MEAN} THEN avg(of_${name}) END`,
  );
  const past = dates.map(
    (date) => `  SELECT '${date}' AS session, ${SUMMARY_COLUMNS.join(', ')} FROM "${nameOf(date)}" WHERE symbol = ''`,
  );
  const note = `-- Save summary.parquet of each session under its date: ${dates.map(nameOf).join(', ')}\n`;
  const sql = `${note}WITH past AS (
${past.join(' UNION ALL\n')}
),
sessions AS (SELECT session, ${columns.join(', ')} FROM past)
SELECT session, ${COMPARED_SQL.map(([name]) => `of_${name}`).join(', ')} FROM sessions
UNION ALL SELECT 'mean' AS session, ${means.join(', ')} FROM sessions`;
  const known = 'CASE WHEN isFinite(total_premium) THEN total_premium END';
  const symbols = dates.map(
    (date) =>
      `  SELECT symbol, ${known} AS premium_of_day, trades, ${date === dates[0] ? "'previous'" : "'past'"} AS age FROM "${nameOf(date)}" WHERE symbol <> ''`,
  );
  // A session in which the symbol did not trade counts as 0, one with an unknown premium not at all.
  const bySymbol = `${note}${with_}
days AS (
${symbols.join(' UNION ALL\n')} UNION ALL
  SELECT symbol, sum(premium) AS premium_of_day, count(*) AS trades, 'today' AS age FROM ${counted} GROUP BY symbol
),
symbols AS (
  SELECT symbol, sum(CASE WHEN age = 'today' THEN premium_of_day END) AS total, sum(CASE WHEN age = 'previous' THEN premium_of_day END) AS previous,
    sum(CASE WHEN age <> 'today' THEN premium_of_day END) / nullif(${dates.length} - sum(CASE WHEN age <> 'today' AND premium_of_day IS NULL THEN 1 ELSE 0 END), 0) AS mean,
    sum(CASE WHEN age <> 'today' AND trades > 0 THEN 1 ELSE 0 END) AS sessions
  FROM days GROUP BY symbol
)
SELECT symbol, total, previous, mean, total / nullif(mean, 0) AS ratio, sessions
FROM symbols WHERE total IS NOT NULL ORDER BY 5 DESC NULLS LAST, 1`;
  return [
    ['Sessions before', sql],
    ['Symbols against the sessions before', bySymbol],
  ];
}
