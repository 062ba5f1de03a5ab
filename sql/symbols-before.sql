past AS (
{{past}}
)
SELECT latest.symbol AS symbol, total, previous, median, total / nullif(median, 0) AS ratio, sessions
FROM (SELECT symbol, sum(premium) AS total FROM {{counted}} GROUP BY symbol) AS latest
LEFT JOIN past ON latest.symbol = past.symbol
WHERE total IS NOT NULL
ORDER BY 5 DESC NULLS LAST, 1
