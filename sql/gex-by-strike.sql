{{strike-sums}}
SELECT symbol, strike, call_gex, put_gex, call_gex + put_gex AS net_gex,
  call_gex_after + put_gex_after AS net_gex_after
FROM (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY abs(strike - spot), strike) AS place
  FROM strikes
  WHERE call_gex > 0 OR put_gex < 0
) AS near
WHERE place <= {{nearStrikes}}
ORDER BY symbol, strike
