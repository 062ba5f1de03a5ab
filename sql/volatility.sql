-- By expiration: at the money, the 25-delta skew, and the move that it expects.
placed AS (
  SELECT series.symbol AS symbol, spot, put_call, strike, expiration_date, sigma, iv_delta,
    avg(sigma) OVER (PARTITION BY series.symbol, expiration_date, strike) AS mean_sigma,
    row_number() OVER (PARTITION BY series.symbol, expiration_date ORDER BY abs(strike - spot), strike) AS place,
    row_number() OVER (
      PARTITION BY series.symbol, expiration_date, put_call
      ORDER BY CASE WHEN isFinite(iv_delta) THEN
        CASE WHEN {{isPut}} THEN abs(iv_delta + {{skewDelta}}) ELSE abs(iv_delta - {{skewDelta}}) END
      END NULLS LAST, strike
    ) AS wing,
    dense_rank() OVER (PARTITION BY series.symbol ORDER BY expiration_date) AS term
  FROM series INNER JOIN spots ON series.symbol = spots.symbol
  WHERE {{isSeriesShown}} AND sigma > 0 AND strike > 0 AND isFinite(strike) AND expiration_date >= DATE '{{date}}'
    AND is_settled = 0
)
SELECT symbol, expiration_date, date_diff('day', DATE '{{date}}', expiration_date) AS days,
  max(CASE WHEN {{isMiddle}} THEN mean_sigma END) AS at_the_money,
  max(CASE WHEN {{isMiddle}} THEN strike END) AS at_strike,
  max(CASE WHEN put_call = 'PUT' AND wing = 1 AND abs(iv_delta + {{skewDelta}}) <= {{skewReach}} THEN sigma END)
    - max(CASE WHEN put_call = 'CALL' AND wing = 1 AND abs(iv_delta - {{skewDelta}}) <= {{skewReach}} THEN sigma END) AS skew,
  max(spot) * max(CASE WHEN {{isMiddle}} THEN mean_sigma END)
    * sqrt(nullif(date_diff('day', DATE '{{date}}', expiration_date), 0) / {{yearDays}}) AS expected_move
FROM placed
WHERE term <= {{expirations}}
GROUP BY symbol, expiration_date
ORDER BY symbol, expiration_date
