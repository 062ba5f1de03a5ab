SELECT symbol, put_call, expiration_date, {{sums}}
FROM {{counted}}
WHERE {{isCall}} OR {{isPut}}
GROUP BY symbol, put_call, expiration_date
ORDER BY abs(bullish - bearish) DESC, symbol, put_call, expiration_date
LIMIT {{count}}
