-- The newest summary of each symbol beside our exposure; the difference is a part of the larger of the two.
{{ranked}},
theirs AS (
  SELECT symbol, spot AS their_spot, call_gex AS their_call_gex, put_gex AS their_put_gex,
    call_gex + put_gex AS intraday_gex, intraday_gex_as_of AS as_of,
    row_number() OVER (PARTITION BY symbol ORDER BY intraday_gex_as_of DESC NULLS LAST) AS age
  FROM {{structure}}
  WHERE {{isShown}} AND isFinite(call_gex) AND isFinite(put_gex)
)
SELECT ranked.symbol AS symbol, net_gex, intraday_gex,
  CASE
    WHEN greatest(abs(net_gex), abs(intraday_gex)) = 0 THEN 0
    ELSE (net_gex - intraday_gex) / greatest(abs(net_gex), abs(intraday_gex))
  END AS difference,
  their_spot, their_call_gex, their_put_gex, as_of
FROM ranked INNER JOIN theirs ON ranked.symbol = theirs.symbol
WHERE age = 1 AND ranked.spot > 0
ORDER BY 1
