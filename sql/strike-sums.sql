{{weighed}},
strikes AS (
  SELECT symbol, spot, strike, sum(call_side) AS call_gex, sum(put_side) AS put_gex
  FROM weighed
  WHERE {{isShown}} AND strike > 0 AND isFinite(strike)
  GROUP BY symbol, spot, strike
)
