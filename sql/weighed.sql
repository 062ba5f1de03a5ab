-- The exposure of each series in dollars; without a price of the underlying it is 0. A series that expires on the date does not
-- outlive it.
weighed AS (
  SELECT series.symbol AS symbol, coalesce(spots.spot, 0) AS spot, coalesce(spots.odd_prices, 0) AS odd_prices,
    put_call, strike, expiration_date, sigma, is_adjusted, is_unknown, is_chain,
    CASE WHEN expiration_date <= DATE '{{date}}' THEN 0 ELSE 1 END AS outlives,
    CASE WHEN {{isCall}} THEN lots WHEN {{isPut}} THEN -lots ELSE 0 END AS signed_lots,
    CASE WHEN {{isCall}} THEN lots ELSE 0 END * own_gamma * {{gexFactor}} * coalesce(spots.spot, 0) * coalesce(spots.spot, 0) AS call_side,
    CASE WHEN {{isPut}} THEN -lots ELSE 0 END * own_gamma * {{gexFactor}} * coalesce(spots.spot, 0) * coalesce(spots.spot, 0) AS put_side,
    lots * own_delta * {{sharesPerContract}} * coalesce(spots.spot, 0) AS delta_dollars
  FROM series LEFT JOIN spots ON series.symbol = spots.symbol
)
