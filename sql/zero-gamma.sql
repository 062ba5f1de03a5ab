-- Net exposure at each price of a profile, and the straight line's zero between each two neighbors of opposite sign: of all
-- series, and (`is_after`) of those that outlive the date. The nearest to the spot has place 1.
{{weighed}},
alive AS (
  SELECT symbol, spot, signed_lots, strike, outlives,
    sigma * sqrt(greatest(1, {{weekdaysTo}} - {{weekdays}}) / {{businessDays}}) AS width
  FROM weighed
  WHERE {{isShown}} AND spot > 0 AND sigma >= {{leastVolatility}} AND signed_lots <> 0 AND strike > 0 AND isFinite(strike)
    AND expiration_date >= DATE '{{date}}'
),
priced AS (
  SELECT *, spot * ({{lowest}} + {{span}} * generate_series / {{lastLevel}}) AS price
  FROM alive CROSS JOIN generate_series(0, {{lastLevel}}) AS levels
),
profile AS (
  SELECT symbol, spot, price, sum(side) AS net_all, sum(CASE WHEN outlives = 1 THEN side ELSE 0 END) AS net_after
  FROM (
    SELECT *, signed_lots * price / width * exp(-pow(ln(price / strike) / width + width / 2, 2) / 2) AS side FROM priced
  ) AS sides
  GROUP BY symbol, spot, price
),
known AS (
  SELECT *, min(CASE WHEN isFinite(net) THEN 1 ELSE 0 END) OVER (PARTITION BY symbol, is_after) AS is_known
  FROM (
    SELECT symbol, spot, price, generate_series AS is_after, CASE WHEN generate_series = 1 THEN net_after ELSE net_all END AS net
    FROM profile CROSS JOIN generate_series(0, 1) AS views
  ) AS viewed
),
neighbors AS (
  SELECT symbol, spot, is_after, price, net, max(price) OVER following AS next_price, max(net) OVER following AS next_net
  FROM known
  WHERE net <> 0 AND is_known = 1
  WINDOW following AS (PARTITION BY symbol, is_after ORDER BY price ROWS BETWEEN 1 FOLLOWING AND 1 FOLLOWING)
),
crossings AS (
  SELECT symbol, spot, is_after, price + (next_price - price) * net / (net - next_net) AS zero_gamma
  FROM neighbors
  WHERE next_price > price AND (net < 0) <> (next_net < 0)
)
SELECT symbol, is_after, zero_gamma,
  row_number() OVER (PARTITION BY symbol, is_after ORDER BY abs(zero_gamma - spot), zero_gamma) AS place
FROM crossings
ORDER BY symbol, is_after, place
