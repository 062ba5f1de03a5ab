"""Reads a dataset's folder with each reader, as its users would type it: rows and premium by date.

python read_folder.py FOLDER            one answer of each reader as a line of JSON: [reader, {date: [rows, premium]}]
python read_folder.py FOLDER STOP_FILE  reads again and again until the file exists, then prints every answer it saw once
"""

import json
import os
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds

FOLDER = sys.argv[1]


def by_pandas():
    table = pd.read_parquet(FOLDER, columns=["date", "premium"])
    return table.groupby("date")["premium"].agg(["count", "sum"]).itertuples()


def by_pandas_partition():
    table = pd.read_parquet(FOLDER, columns=["session", "premium"])
    return table.groupby("session", observed=True)["premium"].agg(["count", "sum"]).itertuples()


def by_pandas_one_date():
    for name in sorted(os.listdir(FOLDER)):
        table = pd.read_parquet(os.path.join(FOLDER, name))
        yield table["date"].iloc[0], len(table), table["premium"].sum()


def by_pyarrow():
    table = ds.dataset(FOLDER, format="parquet", partitioning="hive").to_table(columns=["session", "premium"])
    return grouped(table)


def by_pyarrow_plain():
    table = ds.dataset(FOLDER, format="parquet").to_table(columns=["date", "premium"])
    return grouped(table.rename_columns(["session", "premium"]))


def grouped(table):
    sums = table.group_by("session").aggregate([("premium", "count"), ("premium", "sum")]).sort_by("session")
    return zip(pc.cast(sums["session"], "string").to_pylist(), sums["premium_count"].to_pylist(), sums["premium_sum"].to_pylist())


def by_polars():
    return pl.scan_parquet(FOLDER).group_by("date").agg(pl.len(), pl.col("premium").sum()).collect().rows()


def by_polars_eager():
    return pl.read_parquet(FOLDER, hive_partitioning=False).group_by("date").agg(pl.len(), pl.col("premium").sum()).rows()


def by_polars_partition():
    table = pl.scan_parquet(FOLDER, hive_partitioning=True)
    return table.group_by("session").agg(pl.len(), pl.col("premium").sum()).collect().rows()


def by_duckdb():
    return duckdb.sql(f"SELECT date, count(*), sum(premium) FROM '{FOLDER}/**/*.parquet' GROUP BY date").fetchall()


def by_duckdb_partition():
    files = f"read_parquet('{FOLDER}/**/*.parquet', hive_partitioning = true)"
    return duckdb.sql(f"SELECT session, count(*), sum(premium) FROM {files} GROUP BY session").fetchall()


def by_duckdb_plain():
    files = f"read_parquet('{FOLDER}/**/*.parquet', hive_partitioning = false)"
    return duckdb.sql(f"SELECT date, count(*), sum(premium) FROM {files} GROUP BY date").fetchall()


READERS = {name[3:]: read for name, read in list(globals().items()) if name.startswith("by_")}


def answer(name):
    try:
        rows = READERS[name]()
        return {str(date)[:10]: [int(count), round(float(total), 2)] for date, count, total in rows}
    except BaseException as error:  # A reader that fails is an answer, too; Polars panics outside of Exception.
        return {"error": f"{type(error).__name__}: {error}"[:300]}


if len(sys.argv) == 2:
    for reader in READERS:
        print(json.dumps([reader, answer(reader)], sort_keys=True))
else:
    seen = {}
    while not os.path.exists(sys.argv[2]):
        for reader in READERS:
            line = json.dumps([reader, answer(reader)], sort_keys=True)
            seen[line] = seen.get(line, 0) + 1
    for line, times in seen.items():
        print(json.dumps([*json.loads(line), times]))
