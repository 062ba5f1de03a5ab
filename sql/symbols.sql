SELECT symbol, {{numbers}}
FROM {{counted}}
GROUP BY symbol
ORDER BY total_premium DESC NULLS LAST, symbol
