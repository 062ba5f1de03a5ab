SELECT {{column}}, count(*) AS trades, sum(premium) AS total_premium
FROM {{counted}}
WHERE {{isUnknown}}
GROUP BY 1
ORDER BY 2 DESC, 1
