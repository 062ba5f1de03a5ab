-- The trades that count, of the newest session: see ../recipes.md. Begins each query over `counted`.
WITH day AS (SELECT * FROM trades WHERE date = (SELECT max(date) FROM trades)),
counted AS (
SELECT * FROM day WHERE (NOT (coalesce(option_activity_type, '') IN ('CANC', 'CNCL', 'CNCO', 'CNOL', 'OSEQ', 'LATE', 'OPEN', 'OPNL')) OR option_activity_type IS NULL) AND (date, id, time) NOT IN (SELECT date, id, time FROM (SELECT *, min(level) OVER (PARTITION BY date, symbol, contract_root, put_call, contract_strike, expiration_date, size, contract_price ORDER BY place DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS lowest FROM (
    SELECT *, sum(step) OVER (PARTITION BY date, symbol, contract_root, put_call, contract_strike, expiration_date, size, contract_price ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS level FROM (
      SELECT *, row_number() OVER (PARTITION BY date, symbol, contract_root, put_call, contract_strike, expiration_date, size, contract_price ORDER BY time, step DESC, id, option_activity_type, CASE WHEN isFinite(premium) THEN premium END) AS place FROM (
        SELECT date, id, time, option_activity_type, symbol, option_symbol, put_call, strike, expiration_date, size, price, premium, coalesce(nullif(left(coalesce(nullif(replace(option_symbol, ' ', ''), ''), replace(symbol, ' ', '')), -15), ''), coalesce(nullif(replace(option_symbol, ' ', ''), ''), replace(symbol, ' ', ''))) AS contract_root, floor(strike * 1000 + 0.5) AS contract_strike, floor(price * 10000 + 0.5) AS contract_price, CASE WHEN coalesce(option_activity_type, '') IN ('CANC', 'CNCL', 'CNCO', 'CNOL') THEN -1 ELSE 1 END AS step
        FROM day
        WHERE (floor(1000 * strike + 0.5), size, floor(price * 10000 + 0.5)) IN (SELECT floor(1000 * strike + 0.5), size, floor(price * 10000 + 0.5) FROM day WHERE coalesce(option_activity_type, '') IN ('CANC', 'CNCL', 'CNCO', 'CNOL'))
      ) AS keyed
    ) AS placed
  ) AS levelled) AS matched WHERE step = 1 AND lowest < level)),
-- Prices of the underlyings, as in the report.
spots AS (
  SELECT symbol, median(underlying_price) AS price FROM (
    SELECT symbol, underlying_price, time, max(time) OVER (PARTITION BY symbol) AS last,
      row_number() OVER (PARTITION BY symbol ORDER BY time DESC, id DESC) AS age
    FROM counted WHERE underlying_price > 0
  ) AS priced
  WHERE age <= 11 AND time >= last - INTERVAL 5 MINUTE GROUP BY symbol
)
