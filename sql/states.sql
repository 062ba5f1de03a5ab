-- The state and the sums of each series at the end of the day. Open interest shown before the opening may be the day before's: it
-- counts for series without a later one. Of the last three known values of a column, the second counts if
-- the first is odd against both others.
states AS (
  SELECT {{stateKey}}, shown_oi, CASE WHEN shown_oi > 0 THEN shown_oi ELSE 0 END AS open_interest,
    {{sumNames}}, shares, is_adjusted, is_settled,
    CASE WHEN is_adjusted = 0 AND (has_gamma = 0 OR shown_oi IS NULL) THEN 1 ELSE 0 END AS is_unknown,
    {{lastIv}} AS sigma, {{lastIvDelta}} AS iv_delta, {{lastGamma}} AS own_gamma,
    (CASE WHEN {{isPut}} THEN -1 ELSE 1 END) * ({{lastDelta}}) AS own_delta
  FROM (
    SELECT *, CASE WHEN has_adjusted_root = 1 OR shares = 0 THEN 1 ELSE 0 END AS is_adjusted
    FROM (
      SELECT {{stateKey}}, max(is_settled) AS is_settled, max(has_adjusted_root) AS has_adjusted_root,
        max(has_gamma) AS has_gamma, {{sums}},
        CASE WHEN max(oi) > 0 THEN max(CASE WHEN choice = 1 THEN oi END) ELSE max(oi) END AS shown_oi,
        {{shares}} AS shares,
        {{lastThree}}
      FROM (
        SELECT *,
          {{places}},
          row_number() OVER (
            PARTITION BY {{stateKey}}
            ORDER BY CASE WHEN oi > 0 THEN 0 ELSE 1 END, is_early, CASE WHEN times > 1 THEN 0 ELSE 1 END, time DESC, oi DESC
          ) AS choice
        FROM (
          SELECT *, count(*) OVER (PARTITION BY {{stateKey}}, oi, is_early) AS times
          FROM (
            SELECT symbol, {{root}} AS contract_root, put_call, {{strike}} AS strike_price, expiration_date, time, oi,
              gamma, delta, iv, size, premium, sentiment,
              CASE WHEN isFinite(gamma) THEN 1 ELSE 0 END AS has_gamma,
              CASE WHEN {{isEarly}} THEN 1 ELSE 0 END AS is_early,
              CASE WHEN {{isSettled}} THEN 1 ELSE 0 END AS is_settled,
              CASE WHEN coalesce({{hasAdjustedRoot}}, false) THEN 1 ELSE 0 END AS has_adjusted_root,
              CASE WHEN {{isOddPart}} THEN 1 ELSE 0 END AS is_odd,
              CASE WHEN {{paidPart}} IS NULL OR {{isOddPart}} THEN 0 ELSE 1 END AS is_usual,
              CASE WHEN {{isOddPart}} THEN {{paidPart}} END AS odd_part
            FROM {{counted}}
          ) AS keyed
        ) AS shown
      ) AS placed
      GROUP BY {{stateKey}}
    ) AS summed
  ) AS known
)
