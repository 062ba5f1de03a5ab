SELECT {{column}}, count(*) AS trades, sum(premium) AS total_premium
FROM {{counted}}
WHERE CASE WHEN {{isKnown}} THEN 0 ELSE 1 END = 1
GROUP BY 1
ORDER BY 2 DESC, 1
