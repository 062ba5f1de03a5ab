-- With the part of the symbol's gamma that rolls off.
{{weighed}},
dated AS (
  SELECT symbol, expiration_date, sum(call_side) AS call_gex, sum(put_side) AS put_gex
  FROM weighed
  WHERE {{isShown}}
  GROUP BY symbol, expiration_date
),
sized AS (SELECT *, sum(call_gex - put_gex) OVER (PARTITION BY symbol) AS all_gamma FROM dated),
placed AS (
  SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY expiration_date) AS place
  FROM sized
  WHERE expiration_date IS NOT NULL AND (call_gex > 0 OR put_gex < 0)
)
SELECT symbol, expiration_date, call_gex, put_gex, call_gex + put_gex AS net_gex,
  (call_gex - put_gex) / all_gamma AS share_of_gamma
FROM placed
WHERE place <= {{firstExpirations}}
ORDER BY symbol, expiration_date
