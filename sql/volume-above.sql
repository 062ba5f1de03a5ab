-- More contracts traded than were open before the day, so that at least part of the volume opened positions.
SELECT sum(CASE WHEN volume > shown_oi THEN 1 ELSE 0 END) AS series, count(*) AS of_series,
  sum(CASE WHEN volume IS NULL OR shown_oi IS NULL THEN 1 ELSE 0 END) AS unknown_series,
  sum(CASE WHEN volume > shown_oi THEN total_premium END) AS premium
FROM states
