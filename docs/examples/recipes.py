"""The recipes of ../recipes.md in Polars, where `out/drops` is. Each cell ends with its `answer`: run them one by one in
Jupyter or VS Code, after the first two. `counted` has all hours; ../python.md has the mail's. Those over `option_chain` (3, 12, the second of 2) need drops of the job
option-chain, the join with prices a file `prices.csv`. A test runs every cell against the SQL of the page."""

# %% Frames
import polars as pl

trades = pl.scan_parquet("out/drops/trades", missing_columns="insert", extra_columns="ignore")
summary = (
    pl.scan_parquet("out/drops/_flowdrop/trades/*/summary.parquet", include_file_paths="path")
    .with_columns(date=pl.col("path").str.extract(r"session=([0-9-]+)").str.to_date())
    .filter(pl.col("symbol") != "", pl.col("segment") == "")
)
# Only with drops of the job option-chain
option_chain = pl.scan_parquet("out/drops/option-chain", missing_columns="insert", extra_columns="ignore")

# %% The trades that count
CANCELS = ["CANC", "CNCL", "CNCO", "CNOL"]
LATE = ["OSEQ", "LATE", "OPEN", "OPNL"]
KEY = ["date", "symbol", "root", "put_call", "thousandths", "expiration_date", "size", "price_key"]

last = trades.select(pl.col("date").max()).collect().item()
kind = pl.col("option_activity_type").fill_null("")
text = pl.col("option_symbol").fill_null("").str.replace_all(" ", "")
counted = (
    trades.filter(pl.col("date") == last)
    .with_columns(
        step=pl.when(kind.is_in(CANCELS)).then(-1).otherwise(1),
        root=pl.when(text == "").then(pl.col("symbol")).otherwise(text).str.replace(r"^(.+).{15}$", "$1"),
        thousandths=(pl.col("strike") * 1000 + 0.5).floor(),
        price_key=(pl.col("price") * 10000 + 0.5).floor(),
    )
    .sort("time", -pl.col("step"), "id", "option_activity_type", "premium")
    .with_columns(level=pl.col("step").cum_sum().over(KEY))
    .with_columns(lowest=pl.col("level").cum_min(reverse=True).over(KEY))
    .filter(~kind.is_in(CANCELS + LATE), ~((pl.col("step") == 1) & (pl.col("lowest") < pl.col("level"))))
)

# %% 1. 0DTE share
is_zero_dte = pl.col("expiration_date") <= pl.col("date")
answer = counted.select(
    zero_dte_share=pl.col("premium").filter(is_zero_dte).sum() / pl.col("premium").sum()
).collect()

# %% 1. 0DTE share (2)
answer = (
    summary.filter(pl.col("date") == pl.col("date").max())
    .sort(-pl.col("total_premium"), "symbol")
    .limit(10)
    .select("symbol", zero_dte_share=pl.col("zero_dte_premium") / pl.col("total_premium"), total_premium="total_premium")
    .collect()
)

# %% 2. GEX by strike
own = counted.filter(pl.col("symbol") == "SPY").sort("time", "id")
priced = own.filter(pl.col("underlying_price") > 0)
recent = priced.filter(pl.col("time") >= pl.col("time").max() - pl.duration(minutes=5))
spot = recent.select(pl.col("underlying_price").tail(11).median()).collect().item()
exposure = pl.col("gamma") * pl.col("oi") * spot**2
answer = (
    own.filter(pl.col("gamma") > 0)
    .sort("time", -pl.col("gamma"))
    .unique(["option_symbol", "put_call", "strike", "expiration_date"], keep="last", maintain_order=True)
    .filter(pl.col("oi") > 0)
    .group_by("strike")
    .agg(
        call_gex=exposure.filter(pl.col("put_call") == "CALL").sum(),
        put_gex=-exposure.filter(pl.col("put_call") == "PUT").sum(),
    )
    .sort("strike")
    .collect()
)

# %% 2. GEX by strike (2)
spot = (
    counted.filter(pl.col("symbol") == "QQQ", pl.col("underlying_price") > 0)
    .sort("time", "id")
    .filter(pl.col("time") >= pl.col("time").max() - pl.duration(minutes=5))
    .select(pl.col("underlying_price").tail(11).median())
    .collect()
    .item()
)
exposure = pl.col("gamma") * pl.col("open_interest") * spot**2
answer = (
    option_chain.filter(pl.col("symbol") == "QQQ", pl.col("date") == pl.col("date").max())
    .filter(pl.col("gamma") > 0, pl.col("open_interest") > 0)
    .group_by("strike")
    .agg(
        call_gex=exposure.filter(pl.col("put_call") == "CALL").sum(),
        put_gex=-exposure.filter(pl.col("put_call") == "PUT").sum(),
    )
    .sort("strike")
    .collect()
)

# %% 3. 25-delta skew by expiration
distance = (pl.col("delta").abs() - 0.25).abs()
wing = lambda side: pl.col("iv").filter(pl.col("put_call") == side).first()
answer = (
    option_chain.filter(pl.col("symbol") == "QQQ", pl.col("date") == pl.col("date").max())
    .filter(pl.col("expiration_date") >= pl.col("date"), pl.col("iv") > 0, distance <= 0.1)
    .sort(distance, "strike")
    .group_by("expiration_date")
    .agg(skew=wing("PUT") - wing("CALL"))
    .sort("expiration_date")
    .collect()
)

# %% 4. Net premium by half hour
signed = (
    pl.when(pl.col("side").is_in(["AASK", "ASK"])).then(pl.col("premium"))
    .when(pl.col("side").is_in(["BBID", "BID"])).then(-pl.col("premium"))
    .otherwise(0)
)
answer = (
    counted.group_by(
        hour=pl.col("time").dt.hour().cast(pl.Int32),
        minute=pl.when(pl.col("time").dt.minute() < 30).then(0).otherwise(30),
    )
    .agg(
        net_calls=signed.filter(pl.col("put_call") == "CALL").sum(),
        net_puts=signed.filter(pl.col("put_call") == "PUT").sum(),
    )
    .sort("hour", "minute")
    .collect()
)

# %% 5. Put/call ratio by symbol
answer = (
    summary.filter(pl.col("date") == pl.col("date").max())
    .sort(-pl.col("total_premium"), "symbol")
    .limit(10)
    .select(
        "symbol",
        "total_premium",
        by_premium=pl.col("put_premium") / pl.col("call_premium"),
        by_contracts=pl.col("put_contracts") / pl.col("call_contracts"),
    )
    .collect()
)

# %% 6. Top contracts, with volume against open interest
answer = (
    counted.group_by("symbol", "option_symbol", "put_call", "strike", "expiration_date")
    .agg(
        trades=pl.len(),
        volume=pl.col("size").sum(),
        open_interest=pl.col("oi").max(),
        total_premium=pl.col("premium").sum(),
    )
    .sort(-pl.col("total_premium"), "symbol", "option_symbol")
    .limit(10)
    .select("symbol", "option_symbol", "trades", "volume", "open_interest", "total_premium")
    .collect()
)

# %% 7. Large trades
answer = (
    counted.sort(-pl.col("premium"), "time", "id")
    .limit(10)
    .select("id", "symbol", "option_symbol", "size", "price", "premium", "side", "option_activity_type")
    .collect()
)

# %% 8. Premium by time to expiration
days = (pl.col("expiration_date") - pl.col("date")).dt.total_days()
bucket = (
    pl.when(days <= 0).then(pl.lit("0DTE"))
    .when(days <= 7).then(pl.lit("week"))
    .when(days <= 31).then(pl.lit("month"))
    .otherwise(pl.lit("later"))
)
answer = counted.group_by(bucket=bucket).agg(trades=pl.len(), total_premium=pl.col("premium").sum()).sort("bucket").collect()

# %% 9. Delta-adjusted flow
signed = (
    pl.when(pl.col("side").is_in(["AASK", "ASK"])).then(pl.col("dex"))
    .when(pl.col("side").is_in(["BBID", "BID"])).then(-pl.col("dex"))
    .otherwise(0)
)
answer = (
    counted.filter(pl.col("dex").is_not_null())
    .group_by("symbol")
    .agg(delta_flow=signed.sum(), total_premium=pl.col("premium").sum())
    .sort(-pl.col("delta_flow").abs(), "symbol")
    .limit(10)
    .collect()
)

# %% 10. Join with daily prices
prices = pl.scan_csv("prices.csv", try_parse_dates=True)
answer = (
    summary.join(prices, on=["date", "symbol"])
    .sort("symbol", "date")
    .select(
        "date",
        "symbol",
        net_sentiment=(pl.col("bullish_premium") - pl.col("bearish_premium")) / pl.col("total_premium"),
        next_return=pl.col("close").shift(-1).over("symbol") / pl.col("close") - 1,
    )
    .collect()
)

# %% 10. Join with daily prices, in pandas
from glob import glob

import pandas as pd

summary = pd.read_parquet(sorted(glob("out/drops/_flowdrop/trades/session=*/summary.parquet")))
# The folder's name is a category of texts, the date of a CSV a text: both become dates, or nothing matches
summary = summary[summary["segment"] == ""]
summary["date"] = pd.to_datetime(summary["session"].astype(str))
# NA and NULL are tickers; only empty cells are missing
prices = pd.read_csv("prices.csv", keep_default_na=False, na_values=[""], parse_dates=["date"])
joined = summary.merge(prices, on=["date", "symbol"]).sort_values(["symbol", "date"])
joined["net_sentiment"] = (joined["bullish_premium"] - joined["bearish_premium"]) / joined["total_premium"]
joined["next_return"] = joined.groupby("symbol")["close"].shift(-1) / joined["close"] - 1
answer = joined[["date", "symbol", "net_sentiment", "next_return"]]

# %% 11. A month of one symbol
answer = (
    summary.filter(pl.col("symbol") == "SPY")
    .filter(pl.col("date") > pl.col("date").max() - pl.duration(days=31))
    .sort("date")
    .select(
        "date",
        "total_premium",
        of_mean=pl.col("total_premium") / pl.col("total_premium").shift(1).rolling_mean(20, min_samples=1),
        put_call=pl.col("put_premium") / pl.col("call_premium"),
        zero_dte_share=pl.col("zero_dte_premium") / pl.col("total_premium"),
    )
    .collect()
)

# %% 12. Volume against the open interest of the chain
flow = counted.group_by("option_symbol").agg(traded=pl.col("size").sum())
answer = (
    option_chain.filter(pl.col("date") == pl.col("date").max())
    .join(flow, on="option_symbol", how="left")
    .group_by("symbol", "put_call")
    .agg(interest=pl.col("open_interest").sum(), traded=pl.col("traded").sum())
    .with_columns(turnover=pl.col("traded") / pl.col("interest"))
    .sort("symbol", "put_call")
    .collect()
)
