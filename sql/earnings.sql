SELECT symbol, min(earning_date) AS earnings
FROM {{counted}}
WHERE earning_date >= date AND earning_date <= date + {{nearDays}}
GROUP BY symbol
ORDER BY 2, 1
