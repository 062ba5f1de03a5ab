SELECT symbol, min(earning_date) AS earnings
FROM {{counted}}
WHERE {{isNear}}
GROUP BY symbol
ORDER BY 2, 1
