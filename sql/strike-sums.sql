{{weighed}},
strikes AS (
  SELECT symbol, spot, strike, sum(call_side) AS call_gex, sum(put_side) AS put_gex,
    sum(outlives * call_side) AS call_gex_after, sum(outlives * put_side) AS put_gex_after
  FROM weighed
  WHERE {{isShown}} AND strike > 0 AND isFinite(strike)
  GROUP BY symbol, spot, strike
)
