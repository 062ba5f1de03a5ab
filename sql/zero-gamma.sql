-- Net exposure at each price of a profile, and the straight line's zero between the first two of opposite sign.
{{weighed}},
alive AS (
  SELECT symbol, spot, signed_lots, strike,
    sigma * sqrt(greatest(1, {{weekdaysTo}} - {{weekdays}}) / {{businessDays}}) AS width
  FROM weighed
  WHERE {{isShown}} AND spot > 0 AND sigma >= {{leastVolatility}} AND signed_lots <> 0 AND strike > 0 AND isFinite(strike)
    AND expiration_date {{isAlive}} DATE '{{date}}'
),
priced AS (
  SELECT symbol, signed_lots, strike, width, spot * ({{lowest}} + {{span}} * generate_series / {{lastLevel}}) AS price
  FROM alive CROSS JOIN generate_series(0, {{lastLevel}}) AS levels
),
profile AS (
  SELECT symbol, price,
    sum(signed_lots * price / width * exp(-pow(ln(price / strike) / width + width / 2, 2) / 2)) AS net
  FROM priced
  GROUP BY symbol, price
),
known AS (SELECT *, min(CASE WHEN isFinite(net) THEN 1 ELSE 0 END) OVER (PARTITION BY symbol) AS is_known FROM profile),
placed AS (
  SELECT symbol, price, net, row_number() OVER (PARTITION BY symbol ORDER BY price) AS place
  FROM known
  WHERE net <> 0 AND is_known = 1
)
SELECT lower.symbol AS symbol,
  min(lower.price + (upper.price - lower.price) * lower.net / (lower.net - upper.net)) AS zero_gamma
FROM placed AS lower INNER JOIN placed AS upper ON lower.symbol = upper.symbol AND upper.place = lower.place + 1
WHERE (lower.net < 0) <> (upper.net < 0)
GROUP BY lower.symbol
ORDER BY 1
