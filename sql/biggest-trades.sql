SELECT time, symbol, put_call, strike, expiration_date, size, price, premium, side, sentiment, underlying_price, oi, iv,
  option_activity_type, id
FROM {{counted}}
WHERE {{condition}}
ORDER BY premium DESC, time, id
LIMIT {{count}}
