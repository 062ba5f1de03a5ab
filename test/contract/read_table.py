"""Reads an Iceberg table as its users do. Argument: a document as JSON with `reader`, `table` (its folder), `metadata` (its
newest document), `snapshots`, `s3` (endpoint, region, key, secret, or null), `jars` (Spark's), `stop` (a file, or null).

Prints a line for each snapshot, null for the table now: [snapshot, {"2026-11-19": [rows, premium, hash of the ids, values of
"exchange"]}]. With `stop` it reads the table now, again and again until the file exists, then prints every answer once; after the first it says so."""

import glob
import hashlib
import importlib
import json
import os
import sys

SQL = """SELECT CAST(date AS varchar{n}) AS date, count(*), sum(premium), {ids}, {exchange} FROM {rows} GROUP BY date"""


def s3_options():
    """In the names of PyIceberg, which Polars takes too."""
    s3 = spec["s3"]
    names = {"endpoint": "endpoint", "region": "region", "access-key-id": "key", "secret-access-key": "secret"}
    return {f"s3.{name}": s3[key] for name, key in names.items()} if s3 else {}


def pyiceberg(newest, snapshots):
    import pyarrow.compute as pc
    from pyiceberg.table import StaticTable

    for snapshot in snapshots:
        table = StaticTable.from_metadata(newest(), s3_options())
        yield snapshot, sums(table.scan(snapshot_id=snapshot).to_arrow().to_pylist())
    if spec["stop"] is None:
        for date in pc.unique(table.scan().to_arrow()["date"]).to_pylist():
            # A date's rows are in one file: the partition and the bounds rule out all others.
            files = list(table.scan(row_filter=f"date = '{date}'").plan_files())
            assert len(files) == 1, (date, len(files))


def polars(newest, snapshots):
    import polars as pl

    for snapshot in snapshots:
        table = pl.scan_iceberg(newest(), snapshot_id=snapshot, storage_options=s3_options() or None)
        yield snapshot, sums(table.collect().to_dicts())


def duckdb(newest, snapshots):
    import duckdb

    connection = duckdb.connect()
    # As `INSTALL iceberg; LOAD iceberg` does where DuckDB's own server can be reached: these come from PyPI.
    for name in ["avro", "httpfs", "iceberg"]:
        [folder] = importlib.import_module(f"duckdb_extension_{name}").__path__
        [path] = glob.glob(f"{folder}/extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{path}'")
    s3 = spec["s3"]
    if s3:
        connection.execute(
            f"""CREATE SECRET (TYPE s3, KEY_ID '{s3["key"]}', SECRET '{s3["secret"]}', REGION '{s3["region"]}',
            ENDPOINT '{s3["endpoint"].removeprefix("http://")}', URL_STYLE 'path', USE_SSL false)"""
        )
    for snapshot in snapshots:
        at = "" if snapshot is None else f", snapshot_from_id = {snapshot}"
        rows = f"iceberg_scan('{spec['table']}'{at})"
        names = [name for name, *_ in connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()]
        exchange = "count(exchange)" if "exchange" in names else "0"
        query = SQL.format(n="", ids="md5(string_agg(id, ',' ORDER BY id))", exchange=exchange, rows=rows)
        yield snapshot, {date: list(row) for date, *row in connection.execute(query).fetchall()}


def spark(newest, snapshots):
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.jars", spec["jars"])
        .config("spark.sql.session.timeZone", "UTC")
    )
    s3 = spec["s3"]
    if s3:
        for name, value in {
            # Data files are named s3://, as other readers need it.
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "fs.s3a.endpoint": s3["endpoint"],
            "fs.s3a.access.key": s3["key"],
            "fs.s3a.secret.key": s3["secret"],
            "fs.s3a.path.style.access": "true",
        }.items():
            builder = builder.config(f"spark.hadoop.{name}", value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for snapshot in snapshots:
        reader = session.read.format("iceberg")
        if snapshot is not None:
            reader = reader.option("snapshot-id", str(snapshot))
        rows = reader.load(spec["table"])
        rows.createOrReplaceTempView("trades")
        exchange = "count(exchange)" if "exchange" in rows.columns else "0"
        ids = "md5(array_join(array_sort(collect_list(id)), ','))"
        found = session.sql(SQL.format(n="(10)", ids=ids, exchange=exchange, rows="trades")).collect()
        yield snapshot, {date: list(row) for date, *row in found}
    session.stop()


def sums(rows):
    dates = {}
    for row in rows:
        dates.setdefault(str(row["date"]), []).append(row)
    return {
        date: [
            len(some),
            sum(row["premium"] for row in some),
            hashlib.md5(",".join(sorted(row["id"] for row in some)).encode()).hexdigest(),
            sum(row.get("exchange") is not None for row in some),
        ]
        for date, some in dates.items()
    }


def find_newest():
    """The newest metadata document, as a catalog would know it."""
    if spec["stop"] is None:
        return spec["metadata"]
    folder = os.path.dirname(spec["metadata"])
    with open(os.path.join(folder, "version-hint.text")) as hint:
        return f"{folder}/v{hint.read()}.metadata.json"


def until_stopped():
    while not os.path.exists(spec["stop"]):
        yield None


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    read = {"pyiceberg": pyiceberg, "polars": polars, "duckdb": duckdb, "spark": spark}[spec["reader"]]
    if spec["stop"] is None:
        for line in read(find_newest, [None, *spec["snapshots"]]):
            print(json.dumps(line), flush=True)
    else:
        seen = set()
        for line in read(find_newest, until_stopped()):
            if not seen:
                print("first answer", flush=True)
            seen.add(json.dumps(line, sort_keys=True))
        for line in seen:
            print(line)
