-- By expiration: the price at which the open interest pays its holders least (of equal ones the lowest), and how much the delta of
-- the exposure changes when volatility rises by a point (vanna) and when a trading day passes (charm).
{{weighed}},
held AS (
  SELECT symbol, spot, strike, expiration_date, signed_lots * {{sharesPerContract}} AS shares, sigma,
    greatest(1, {{weekdaysTo}} - {{weekdays}}) / {{businessDays}} AS years
  FROM weighed
  WHERE {{isShown}} AND spot > 0 AND signed_lots <> 0 AND strike > 0 AND isFinite(strike)
    AND expiration_date >= DATE '{{date}}'
),
moved AS (
  SELECT *, shares * spot * exp(-pow(d2 + width, 2) / 2) / sqrt(2 * pi()) * d2 AS change
  FROM (
    SELECT *, ln(spot / strike) / width - width / 2 AS d2
    FROM (SELECT *, CASE WHEN sigma >= {{leastVolatility}} THEN sigma * sqrt(years) END AS width FROM held) AS sized
  ) AS placed
),
greeks AS (
  SELECT symbol, expiration_date, sum(-change / sigma / 100) AS vanna, sum(change / (2 * years * {{businessDays}})) AS charm
  FROM moved
  GROUP BY symbol, expiration_date
),
strikes AS (
  SELECT symbol, expiration_date, strike, sum(CASE WHEN shares > 0 THEN shares ELSE 0 END) AS calls,
    sum(CASE WHEN shares < 0 THEN -shares ELSE 0 END) AS puts
  FROM held
  GROUP BY symbol, expiration_date, strike
),
paid AS (
  SELECT symbol, expiration_date, strike, round(
    strike * sum(calls) OVER below - sum(calls * strike) OVER below
      + sum(puts * strike) OVER above - strike * sum(puts) OVER above, 2) AS dollars
  FROM strikes
  WINDOW below AS (PARTITION BY symbol, expiration_date ORDER BY strike ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
    above AS (PARTITION BY symbol, expiration_date ORDER BY strike DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
cheapest AS (
  SELECT symbol, expiration_date, strike AS max_pain
  FROM (SELECT *, row_number() OVER (PARTITION BY symbol, expiration_date ORDER BY dollars, strike) AS place FROM paid) AS ranked
  WHERE place = 1
),
first_ones AS (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY expiration_date) AS place FROM cheapest
)
SELECT first_ones.symbol AS symbol, first_ones.expiration_date AS expiration_date, max_pain, vanna, charm
FROM first_ones JOIN greeks ON greeks.symbol = first_ones.symbol AND greeks.expiration_date = first_ones.expiration_date
WHERE place <= {{firstExpirations}}
ORDER BY symbol, expiration_date
