-- The open interest at the opening of the date, of contracts that the session before traded more than were open.
opened AS (
  SELECT symbol, expiration_date, strike, put_call, sum(lots) AS open_interest
  FROM series
  WHERE is_adjusted = 0 AND is_settled = 0 AND is_unknown = 0 AND ({{contracts}})
  GROUP BY symbol, expiration_date, strike, put_call
  HAVING count(*) = 1
)
SELECT * FROM opened ORDER BY symbol, expiration_date, strike, put_call
