-- The price of each underlying: the median of its last records, without those whose price is odd beside its neighbors in time.
recent AS (
  SELECT symbol, time, underlying_price AS price, place
  FROM (
    SELECT symbol, time, underlying_price, quality,
      row_number() OVER (PARTITION BY symbol ORDER BY quality, time DESC, underlying_price) AS place,
      min(quality) OVER (PARTITION BY symbol) AS best
    FROM (SELECT symbol, time, underlying_price, {{priceRank}} AS quality FROM {{counted}} WHERE {{isPriced}}) AS priced
  ) AS placed
  WHERE quality = best AND place <= {{recentRecords}}
),
judged AS (
  SELECT own.symbol AS symbol, own.place AS place, min(own.time) AS time, min(own.price) AS price,
    CASE WHEN count(*) > 2 AND 2 * sum(
      CASE WHEN near.price > {{oddPrice}} * own.price OR near.price * {{oddPrice}} < own.price THEN 1 ELSE 0 END
    ) > count(*) - 1 THEN 1 ELSE 0 END AS is_odd
  FROM recent AS own INNER JOIN recent AS near ON own.symbol = near.symbol
  WHERE near.place BETWEEN own.place - {{neighbors}} AND own.place + {{neighbors}}
  GROUP BY own.symbol, own.place
),
sound AS (
  SELECT symbol, time, price, all_odd_prices,
    row_number() OVER (PARTITION BY symbol ORDER BY place) AS place,
    max(time) OVER (PARTITION BY symbol) AS latest
  FROM (
    SELECT *, min(is_odd) OVER (PARTITION BY symbol) AS all_odd, sum(is_odd) OVER (PARTITION BY symbol) AS all_odd_prices
    FROM judged
  ) AS marked
  WHERE is_odd = all_odd
),
spots AS (
  SELECT symbol, median(price) AS spot, max(all_odd_prices) AS odd_prices
  FROM sound
  WHERE place <= {{spotRecords}} AND time >= latest - INTERVAL {{spotMinutes}} MINUTE
  GROUP BY symbol
)
