"""Reads an Iceberg table as its users do, and prints one line a reader and snapshot:
["reader", snapshot or null, {"2026-11-19": [rows, premium], ...}]. Arguments: reader, metadata file or warehouse, table, snapshots."""

import json
import sys


def pyiceberg(metadata, snapshots):
    import pyarrow.compute as pc
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata)
    for snapshot in [None, *snapshots]:
        rows = table.scan(snapshot_id=snapshot).to_arrow()
        yield snapshot, sums(rows.group_by("date").aggregate([("premium", "count"), ("premium", "sum")]).to_pylist())
    dates = pc.unique(table.scan().to_arrow()["date"]).to_pylist()
    for date in dates:
        # A date's rows are in one file: the partition and the bounds rule out all others.
        files = list(table.scan(row_filter=f"date = '{date}'").plan_files())
        assert len(files) == 1, (date, len(files))


def spark(location, snapshots, jar):
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", jar)
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    for snapshot in [None, *snapshots]:
        reader = session.read.format("iceberg")
        if snapshot is not None:
            reader = reader.option("snapshot-id", str(snapshot))
        reader.load(location).createOrReplaceTempView("trades")
        found = session.sql("SELECT date, count(*) AS premium_count, sum(premium) AS premium_sum FROM trades GROUP BY date")
        yield snapshot, sums(row.asDict() for row in found.collect())
    session.stop()


def sums(rows):
    return {str(row["date"]): [row["premium_count"], round(row["premium_sum"], 3)] for row in rows}


if __name__ == "__main__":
    reader, place, snapshots, *more = sys.argv[1:]
    for snapshot, answer in {"pyiceberg": pyiceberg, "spark": spark}[reader](place, json.loads(snapshots), *more):
        print(json.dumps([reader, snapshot, answer]), flush=True)
