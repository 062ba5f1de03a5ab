"""Reads a dataset's folder with each reader, as its users would type it: rows and premium by date. Argument: a document as
JSON with `folder`, `readers` (names), `s3` (endpoint, region, key, secret, or null), `jars` (Spark's), `stop` (a file, or null).

Prints one answer of each reader as a line of JSON: [reader, {date: [rows, premium]}]. With `stop` it reads again and again
until the file exists, then prints every answer once, and how often it saw it."""

import glob
import importlib
import json
import os
import sys

SPEC = json.loads(sys.argv[1])
S3 = SPEC["s3"]
FOLDER = SPEC["folder"]
# pyarrow's file systems take paths without a scheme.
PATH = FOLDER.removeprefix("s3://")


def file_system():
    if not S3:
        return None
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(
        access_key=S3["key"],
        secret_key=S3["secret"],
        region=S3["region"],
        endpoint_override=S3["endpoint"].removeprefix("http://"),
        scheme="http",
    )


def by_pandas():
    import pandas as pd

    table = pd.read_parquet(PATH, columns=["date", "premium"], filesystem=file_system())
    return table.groupby("date")["premium"].agg(["count", "sum"]).itertuples()


def by_pandas_partition():
    import pandas as pd

    table = pd.read_parquet(PATH, columns=["session", "premium"], filesystem=file_system())
    return table.groupby("session", observed=True)["premium"].agg(["count", "sum"]).itertuples()


def by_pandas_one_date():
    import pandas as pd
    from pyarrow.fs import FileSelector, LocalFileSystem

    files = file_system() or LocalFileSystem()
    for folder in sorted(files.get_file_info(FileSelector(PATH)), key=lambda one: one.path):
        table = pd.read_parquet(folder.path, filesystem=file_system())
        yield table["date"].iloc[0], len(table), table["premium"].sum()


def by_pyarrow():
    import pyarrow.dataset as ds

    sessions = ds.dataset(PATH, format="parquet", partitioning="hive", filesystem=file_system())
    return grouped(sessions.to_table(columns=["session", "premium"]))


def by_pyarrow_plain():
    import pyarrow.dataset as ds

    table = ds.dataset(PATH, format="parquet", filesystem=file_system()).to_table(columns=["date", "premium"])
    return grouped(table.rename_columns(["session", "premium"]))


def grouped(table):
    import pyarrow.compute as pc

    sums = table.group_by("session").aggregate([("premium", "count"), ("premium", "sum")]).sort_by("session")
    return zip(pc.cast(sums["session"], "string").to_pylist(), sums["premium_count"].to_pylist(), sums["premium_sum"].to_pylist())


def polars_folder():
    # It takes an address in S3 for one object, unless it ends with a slash.
    return f"{FOLDER}/" if S3 else FOLDER


def polars_options():
    return S3 and {
        "aws_endpoint_url": S3["endpoint"],
        "aws_region": S3["region"],
        "aws_access_key_id": S3["key"],
        "aws_secret_access_key": S3["secret"],
        "aws_allow_http": "true",
    }


def by_polars():
    import polars as pl

    table = pl.scan_parquet(polars_folder(), storage_options=polars_options())
    return table.group_by("date").agg(pl.len(), pl.col("premium").sum()).collect().rows()


def by_polars_eager():
    import polars as pl

    table = pl.read_parquet(polars_folder(), hive_partitioning=False, storage_options=polars_options())
    return table.group_by("date").agg(pl.len(), pl.col("premium").sum()).rows()


def by_polars_partition():
    import polars as pl

    table = pl.scan_parquet(polars_folder(), hive_partitioning=True, storage_options=polars_options())
    return table.group_by("session").agg(pl.len(), pl.col("premium").sum()).collect().rows()


def duckdb_rows(query):
    import duckdb

    if not S3:
        return duckdb.sql(query).fetchall()
    [folder] = importlib.import_module("duckdb_extension_httpfs").__path__
    [extension] = glob.glob(f"{folder}/extensions/*/httpfs.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"""CREATE SECRET (TYPE s3, KEY_ID '{S3["key"]}', SECRET '{S3["secret"]}', REGION '{S3["region"]}',
        ENDPOINT '{S3["endpoint"].removeprefix("http://")}', URL_STYLE 'path', USE_SSL false)"""
    )
    return connection.execute(query).fetchall()


def by_duckdb():
    return duckdb_rows(f"SELECT date, count(*), sum(premium) FROM '{FOLDER}/**/*.parquet' GROUP BY date")


def by_duckdb_partition():
    files = f"read_parquet('{FOLDER}/**/*.parquet', hive_partitioning = true)"
    return duckdb_rows(f"SELECT session, count(*), sum(premium) FROM {files} GROUP BY session")


def by_duckdb_plain():
    files = f"read_parquet('{FOLDER}/**/*.parquet', hive_partitioning = false)"
    return duckdb_rows(f"SELECT date, count(*), sum(premium) FROM {files} GROUP BY date")


def spark_rows(key):
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.jars", SPEC["jars"])
    )
    if S3:
        for name, value in {
            "fs.s3a.endpoint": S3["endpoint"],
            "fs.s3a.access.key": S3["key"],
            "fs.s3a.secret.key": S3["secret"],
            "fs.s3a.path.style.access": "true",
        }.items():
            builder = builder.config(f"spark.hadoop.{name}", value)
    spark = builder.getOrCreate()
    trades = spark.read.parquet(FOLDER.replace("s3://", "s3a://"))
    return trades.groupBy(key).agg({"*": "count", "premium": "sum"}).select(key, "count(1)", "sum(premium)").collect()


def by_spark():
    return spark_rows("date")


def by_spark_partition():
    return spark_rows("session")


def answer(name):
    try:
        rows = globals()[f"by_{name}"]()
        return {str(date)[:10]: [int(count), round(float(total), 2)] for date, count, total in rows}
    except BaseException as error:  # A reader that fails is an answer, too; Polars panics outside of Exception.
        return {"error": f"{type(error).__name__}: {error}"[:300]}


if SPEC["stop"] is None:
    for reader in SPEC["readers"]:
        print(json.dumps([reader, answer(reader)], sort_keys=True))
else:
    seen = {}
    while not os.path.exists(SPEC["stop"]):
        for reader in SPEC["readers"]:
            line = json.dumps([reader, answer(reader)], sort_keys=True)
            seen[line] = seen.get(line, 0) + 1
    for line, times in seen.items():
        print(json.dumps([*json.loads(line), times]))
