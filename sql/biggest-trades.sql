-- The smallest premium is found on one column first, so that wide rows are read only where the largest premiums are.
SELECT time, symbol, put_call, strike, date, expiration_date, size, price, premium, side, sentiment, underlying_price, oi, iv,
  option_activity_type, id{{also}}
FROM {{counted}}
WHERE {{condition}} AND premium >= (
  SELECT min(premium)
  FROM (SELECT premium FROM {{counted}} WHERE {{condition}} ORDER BY premium DESC LIMIT {{count}}) AS largest
)
ORDER BY premium DESC, time, id
LIMIT {{count}}
