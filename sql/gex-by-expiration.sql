-- With the part of the symbol's gamma that rolls off; later expirations are one row without a date.
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
),
folded AS (
  SELECT symbol, CASE WHEN place <= {{firstExpirations}} THEN expiration_date END AS expires,
    call_gex AS call_side, put_gex AS put_side, all_gamma
  FROM placed
)
SELECT symbol, expires AS expiration_date, sum(call_side) AS call_gex, sum(put_side) AS put_gex,
  sum(call_side) + sum(put_side) AS net_gex, sum(call_side - put_side) / max(all_gamma) AS share_of_gamma,
  count(*) AS expirations
FROM folded
GROUP BY symbol, expires
ORDER BY symbol, expires NULLS LAST
