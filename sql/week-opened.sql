-- Contracts of the week that live on and are held more than at the opening of the first session in which they traded.
SELECT {{stateKey}}, held_before, held_after, total_premium, count(*) OVER () AS series
FROM (
  SELECT {{stateKey}}, sum(premium) AS total_premium,
    argMin(open_interest, session) AS held_before, argMax(open_interest, session) AS held_after
  FROM week_series
  WHERE expiration_date > DATE '{{date}}' AND NOT is_adjusted AND open_interest IS NOT NULL
  GROUP BY {{stateKey}}
)
WHERE held_after > held_before
ORDER BY held_after - held_before DESC, symbol, expiration_date, strike_price, put_call
LIMIT {{count}}
