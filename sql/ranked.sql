-- Every symbol that traded: largest net exposure first, symbols without a price of the underlying last.
{{weighed}},
exposures AS (
  SELECT symbol, spot, sum(call_side) AS call_gex, sum(put_side) AS put_gex,
    sum(CASE WHEN {{isCall}} THEN delta_dollars ELSE 0 END) AS call_dex,
    sum(CASE WHEN {{isPut}} THEN delta_dollars ELSE 0 END) AS put_dex,
    sum(outlives * (call_side + put_side)) AS net_gex_after,
    sum(CASE WHEN outlives = 1 AND ({{isCall}} OR {{isPut}}) THEN delta_dollars ELSE 0 END) AS net_dex_after,
    sum(CASE WHEN outlives = 0 AND call_side > put_side THEN 1 ELSE 0 END) AS ended_contracts,
    count(*) AS contracts, sum(is_adjusted) AS adjusted_contracts, sum(is_unknown) AS unknown_contracts,
    min(is_chain) AS is_whole_chain, max(odd_prices) AS left_out_prices
  FROM weighed
  GROUP BY symbol, spot
),
ranked AS (
  SELECT symbol, spot, call_gex, put_gex, call_gex + put_gex AS net_gex, call_dex, put_dex, call_dex + put_dex AS net_dex,
    net_gex_after, net_dex_after, ended_contracts, contracts, adjusted_contracts, unknown_contracts, is_whole_chain, left_out_prices,
    row_number() OVER (ORDER BY CASE WHEN spot > 0 THEN 0 ELSE 1 END, abs(call_gex + put_gex) DESC, symbol) AS place
  FROM exposures
)
