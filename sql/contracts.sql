-- The contracts with most premium.
SELECT {{stateKey}}, shown_oi AS open_interest, {{sumNames}}
FROM states
ORDER BY total_premium DESC NULLS LAST, symbol, expiration_date, strike_price, put_call
LIMIT 10
