/**
 * Twelve questions that a desk asks a year of option trades, each in flowdrop's SQL and in the SQL that DuckDB and Polars
 * share. Data. Where a question names dates, the peers' SQL names the partition key `session`: as a user who knows the
 * layout would write it, so that they too open only the files that they need.
 */

export interface ArchiveQuestion {
  readonly name: string;
  readonly flowdrop: string;
  readonly peers: string;
}

/** Dates as texts, the ends exclusive. */
export interface QuestionScope {
  readonly day: string;
  readonly month: readonly [string, string];
  readonly quarter: readonly [string, string];
  /** An option symbol with trades on `day`, and on many other dates. */
  readonly contract: string;
}

export function listQuestions({ day, month, quarter, contract }: QuestionScope): readonly ArchiveQuestion[] {
  const within = ([from, to]: readonly [string, string]) => ({
    flowdrop: `date >= '${from}' AND date < '${to}'`,
    peers: `session >= DATE '${from}' AND session < DATE '${to}'`,
  });
  const onDay = { flowdrop: `date = '${day}'`, peers: `session = DATE '${day}'` };
  const inMonth = within(month);
  const inQuarter = within(quarter);
  const list = (line: string, condition: Readonly<{ flowdrop: string; peers: string }>) => ({
    flowdrop: `${line} WHERE ${condition.flowdrop}`,
    peers: `${line} WHERE ${condition.peers}`,
  });
  const gex = (condition: string) =>
    `SELECT strike, sum(s * g * o * 100 * u * u / 100) AS gex FROM (
       SELECT option_symbol, strike, min(CASE WHEN put_call = 'CALL' THEN 1 ELSE -1 END) AS s, avg(gamma) AS g, max(oi) AS o, avg(underlying_price) AS u
       FROM trades WHERE ${condition} AND symbol = 'SPX' GROUP BY option_symbol, strike) AS series
     GROUP BY strike ORDER BY strike`;
  const above = (condition: string) =>
    `SELECT option_symbol, max(daily_volume) AS volume, max(oi) AS open_interest FROM trades
     WHERE ${condition} AND symbol = 'TSLA' GROUP BY option_symbol HAVING max(daily_volume) > max(oi)
     ORDER BY volume DESC, option_symbol LIMIT 50`;
  const top = list('SELECT id, time, symbol, option_symbol, side, size, price, premium FROM trades', inQuarter);
  return [
    {
      name: 'premium by symbol by day',
      flowdrop: 'SELECT date, symbol, sum(premium) AS premium FROM trades GROUP BY date, symbol ORDER BY date, symbol',
      peers:
        'SELECT session, symbol, sum(premium) AS premium FROM trades GROUP BY session, symbol ORDER BY session, symbol',
    },
    {
      name: "one contract's history",
      flowdrop: `SELECT date, count(*) AS trades, sum(size) AS contracts, min(price) AS low, max(price) AS high, max(oi) AS open_interest
        FROM trades WHERE option_symbol = '${contract}' GROUP BY date ORDER BY date`,
      peers: `SELECT session, count(*) AS trades, sum(size) AS contracts, min(price) AS low, max(price) AS high, max(oi) AS open_interest
        FROM trades WHERE option_symbol = '${contract}' GROUP BY session ORDER BY session`,
    },
    { name: 'GEX by strike on a date', flowdrop: gex(onDay.flowdrop), peers: gex(onDay.peers) },
    {
      name: 'top trades of a quarter',
      flowdrop: `${top.flowdrop} ORDER BY premium DESC, id LIMIT 50`,
      peers: `${top.peers} ORDER BY premium DESC, id LIMIT 50`,
    },
    {
      name: '0DTE share by month',
      flowdrop: `SELECT toStartOfMonth(date) AS month, sumIf(premium, expiration_date = date) / sum(premium) AS share
        FROM trades GROUP BY month ORDER BY month`,
      peers: `SELECT date_trunc('month', session) AS month, sum(premium) FILTER (WHERE expiration_date = date) / sum(premium) AS share
        FROM trades GROUP BY date_trunc('month', session) ORDER BY month`,
    },
    {
      name: '25-delta skew of SPY by day, a month',
      flowdrop: `SELECT date, avgIf(iv, put_call = 'PUT' AND delta BETWEEN -0.3 AND -0.2) - avgIf(iv, put_call = 'CALL' AND delta BETWEEN 0.2 AND 0.3) AS skew
        FROM trades WHERE symbol = 'SPY' AND ${inMonth.flowdrop} AND expiry_days BETWEEN 20 AND 45 GROUP BY date ORDER BY date`,
      peers: `SELECT session, avg(iv) FILTER (WHERE put_call = 'PUT' AND delta BETWEEN -0.3 AND -0.2) - avg(iv) FILTER (WHERE put_call = 'CALL' AND delta BETWEEN 0.2 AND 0.3) AS skew
        FROM trades WHERE symbol = 'SPY' AND ${inMonth.peers} AND expiry_days BETWEEN 20 AND 45 GROUP BY session ORDER BY session`,
    },
    {
      name: 'put/call by half hour of a day',
      flowdrop: `SELECT toHour(time) * 2 + intDiv(toMinute(time), 30) AS half_hour,
          sumIf(size, put_call = 'PUT') / sumIf(size, put_call = 'CALL') AS ratio
        FROM trades WHERE ${onDay.flowdrop} GROUP BY half_hour ORDER BY half_hour`,
      peers: `SELECT EXTRACT(hour FROM time) * 2 + EXTRACT(minute FROM time) // 30 AS half_hour,
          CAST(sum(size) FILTER (WHERE put_call = 'PUT') AS DOUBLE) / sum(size) FILTER (WHERE put_call = 'CALL') AS ratio
        FROM trades WHERE ${onDay.peers} GROUP BY EXTRACT(hour FROM time) * 2 + EXTRACT(minute FROM time) // 30 ORDER BY half_hour`,
    },
    {
      name: 'net premium of NVDA by week',
      flowdrop: `SELECT toMonday(date) AS week, sumIf(premium, sentiment = 'BULLISH') - sumIf(premium, sentiment = 'BEARISH') AS net
        FROM trades WHERE symbol = 'NVDA' GROUP BY week ORDER BY week`,
      peers: `SELECT date_trunc('week', session) AS week, sum(premium) FILTER (WHERE sentiment = 'BULLISH') - sum(premium) FILTER (WHERE sentiment = 'BEARISH') AS net
        FROM trades WHERE symbol = 'NVDA' GROUP BY date_trunc('week', session) ORDER BY week`,
    },
    { name: 'volume above OI of TSLA on a date', flowdrop: above(onDay.flowdrop), peers: above(onDay.peers) },
    {
      name: 'sweeps above $1M by month',
      flowdrop: `SELECT toStartOfMonth(date) AS month, count(*) AS sweeps, sum(premium) AS dollars
        FROM trades WHERE option_activity_type = 'ISOI' AND premium >= 1000000 GROUP BY month ORDER BY month`,
      peers: `SELECT date_trunc('month', session) AS month, count(*) AS sweeps, sum(premium) AS dollars
        FROM trades WHERE option_activity_type = 'ISOI' AND premium >= 1000000 GROUP BY date_trunc('month', session) ORDER BY month`,
    },
    {
      name: 'last-hour share by symbol, a month',
      flowdrop: `SELECT symbol, sumIf(premium, toHour(time) >= 15) / sum(premium) AS share
        FROM trades WHERE ${inMonth.flowdrop} GROUP BY symbol ORDER BY symbol`,
      peers: `SELECT symbol, coalesce(sum(premium) FILTER (WHERE EXTRACT(hour FROM time) >= 15), 0) / sum(premium) AS share
        FROM trades WHERE ${inMonth.peers} GROUP BY symbol ORDER BY symbol`,
    },
    {
      name: 'distinct contracts by day',
      flowdrop: 'SELECT date, count(DISTINCT option_symbol) AS contracts FROM trades GROUP BY date ORDER BY date',
      peers: 'SELECT session, count(DISTINCT option_symbol) AS contracts FROM trades GROUP BY session ORDER BY session',
    },
  ];
}
