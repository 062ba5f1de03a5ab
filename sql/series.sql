-- The series that traded.
SELECT symbol, put_call, strike_price AS strike, expiration_date, is_settled, is_adjusted, is_unknown, 0 AS is_chain,
  CASE WHEN is_adjusted = 1 OR is_settled = 1 THEN 0 ELSE open_interest * shares / {{sharesPerContract}} END AS lots,
  sigma, own_gamma, own_delta, iv_delta
FROM states
