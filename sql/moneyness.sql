SELECT {{bucket}} AS bucket, {{parts}}
FROM {{counted}}
GROUP BY 1
ORDER BY 1
