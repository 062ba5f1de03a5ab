SELECT {{bucket}} AS bucket, {{parts}}
FROM {{counted}}
GROUP BY 1
ORDER BY min(expiration_date)
