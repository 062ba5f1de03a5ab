-- What traded in the week and expired in it: the premium of all its days, and the open interest at the opening of the last one.
SELECT symbol, grouping(symbol) AS is_all, sum(total_premium) AS premium, sum(held) AS open_interest, count(*) AS series
FROM (
  SELECT symbol, sum(premium) AS total_premium, coalesce(argMax(open_interest, session), 0) AS held
  FROM week_series
  WHERE expiration_date BETWEEN DATE '{{from}}' AND DATE '{{date}}'
  GROUP BY {{stateKey}}
)
GROUP BY GROUPING SETS ((), (symbol))
ORDER BY is_all DESC, premium DESC NULLS LAST, symbol
LIMIT {{count}}
