-- The calls and the puts of each symbol, in whole and by expiration: those with most bullish and most bearish premium, and the
-- expirations with the largest differences.
SELECT symbol, put_call, CASE WHEN is_whole = 0 THEN expires END AS expiration_date, is_whole, total_premium, bullish, bearish,
  bullish_place, bearish_place, net_place
FROM (
  SELECT *, row_number() OVER (PARTITION BY is_whole ORDER BY bullish DESC, symbol, put_call, expires) AS bullish_place,
    row_number() OVER (PARTITION BY is_whole ORDER BY bearish DESC, symbol, put_call, expires) AS bearish_place,
    row_number() OVER (PARTITION BY is_whole ORDER BY abs(bullish - bearish) DESC, symbol, put_call, expires) AS net_place
  FROM (
    SELECT symbol, put_call, expiration_date AS expires, grouping(expiration_date) AS is_whole,
      sum(premium) AS total_premium, {{sideSums}}
    FROM {{counted}}
    WHERE {{isCall}} OR {{isPut}}
    GROUP BY GROUPING SETS ((symbol, put_call), (symbol, put_call, expiration_date))
  ) AS summed
) AS placed
WHERE bullish_place = 1 OR bearish_place = 1 OR is_whole = 0 AND net_place <= {{count}}
ORDER BY is_whole, net_place
