-- The series that traded, or the whole chain of a symbol that has one, with the shares for a contract that the trades show.
-- The chain of a family may lack one of its roots; one without option symbols may have all of them.
{{series}}
WHERE symbol NOT IN (SELECT symbol FROM {{chain}})
  OR contract_root IN ({{members}}) AND contract_root NOT IN (SELECT {{root}} FROM {{chain}})
    AND symbol NOT IN (SELECT symbol FROM {{chain}} WHERE {{root}} = option_symbol)
UNION ALL
SELECT symbol, put_call, strike, expiration_date, is_settled, is_adjusted,
  CASE WHEN is_adjusted = 0 AND (gamma IS NULL OR open_interest IS NULL) THEN 1 ELSE 0 END AS is_unknown, 1 AS is_chain,
  CASE
    WHEN is_adjusted = 1 OR is_settled = 1 THEN 0
    WHEN open_interest > 0 AND isFinite(open_interest) THEN open_interest * shares / {{sharesPerContract}}
    ELSE 0
  END AS lots,
  CASE WHEN isFinite(iv) AND iv > 0 THEN iv ELSE 0 END AS sigma,
  CASE WHEN isFinite(gamma) AND gamma > 0 THEN gamma ELSE 0 END AS own_gamma,
  CASE
    WHEN put_call = 'CALL' AND delta BETWEEN 0 AND 1 THEN delta
    WHEN put_call = 'PUT' AND delta BETWEEN -1 AND 0 THEN delta
    ELSE 0
  END AS own_delta,
  delta AS iv_delta
FROM (
  SELECT contracts.symbol AS symbol, contracts.put_call AS put_call, contracts.strike_price AS strike,
    contracts.expiration_date AS expiration_date, is_settled, open_interest, iv, gamma, delta,
    coalesce(chain_shares, {{sharesPerContract}}) AS shares,
    CASE WHEN has_adjusted_root = 1 OR chain_shares = 0 THEN 1 ELSE 0 END AS is_adjusted
  FROM (
    SELECT *, {{root}} AS contract_root, {{strike}} AS strike_price,
      CASE WHEN {{isSettled}} THEN 1 ELSE 0 END AS is_settled,
      CASE WHEN coalesce({{hasAdjustedRoot}}, false) THEN 1 ELSE 0 END AS has_adjusted_root
    FROM {{chainTable}} AS listed
    WHERE symbol IN (SELECT symbol FROM states)
  ) AS contracts
  LEFT JOIN (SELECT {{stateKey}}, shares AS chain_shares FROM states WHERE shares <> {{sharesPerContract}}) AS paid
  ON contracts.symbol = paid.symbol AND contracts.contract_root = paid.contract_root
    AND contracts.put_call = paid.put_call AND contracts.strike_price = paid.strike_price
    AND contracts.expiration_date = paid.expiration_date
) AS adjusted
