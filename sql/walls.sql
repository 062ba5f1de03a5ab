-- The lowest of equal strikes; null if no strike has such exposure.
{{strike-sums}},
placed AS (
  SELECT *,
    row_number() OVER (PARTITION BY symbol ORDER BY call_gex DESC, strike) AS call_place,
    row_number() OVER (PARTITION BY symbol ORDER BY put_gex, strike) AS put_place,
    row_number() OVER (PARTITION BY symbol ORDER BY call_gex - put_gex DESC, strike) AS size_place,
    row_number() OVER (PARTITION BY symbol ORDER BY call_gex_after DESC, strike) AS call_place_after,
    row_number() OVER (PARTITION BY symbol ORDER BY put_gex_after, strike) AS put_place_after
  FROM strikes
)
SELECT symbol,
  min(CASE WHEN call_place = 1 AND call_gex > 0 THEN strike END) AS call_wall,
  min(CASE WHEN put_place = 1 AND put_gex < 0 THEN strike END) AS put_wall,
  min(CASE WHEN size_place = 1 AND call_gex - put_gex > 0 THEN strike END) AS absolute_gamma_strike,
  min(CASE WHEN call_place_after = 1 AND call_gex_after > 0 THEN strike END) AS call_wall_after,
  min(CASE WHEN put_place_after = 1 AND put_gex_after < 0 THEN strike END) AS put_wall_after
FROM placed
GROUP BY symbol
ORDER BY symbol
