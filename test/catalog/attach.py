"""Attaches to an Iceberg REST catalog as its users do. For each line on stdin (a JSON list of snapshots) it prints a line:
{"snapshot or null": {"2026-11-19": [rows, premium], ...}, ...}. Arguments: reader, address, options as JSON."""

import json
import sys

TABLE = "flowdrop.trades"
GROUPED = "SELECT date, count(*) AS n, sum(premium) AS p FROM {} GROUP BY date"


def pyiceberg(url, options):
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("drops", type="rest", uri=url, **options["properties"])
    assert catalog.list_namespaces() == [("flowdrop",)]
    assert catalog.list_tables("flowdrop") == [("flowdrop", "trades")]
    assert not catalog.table_exists("flowdrop.other")
    table = catalog.load_table(TABLE)

    def read(snapshot):
        table.refresh()
        rows = table.scan(snapshot_id=snapshot).to_arrow()
        found = rows.group_by("date").aggregate([("premium", "count"), ("premium", "sum")]).to_pylist()
        return [(row["date"], row["premium_count"], row["premium_sum"]) for row in found]

    return read


def spark(url, options):
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", options["jars"])
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.drops", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.drops.type", "rest")
        .config("spark.sql.catalog.drops.uri", url)
        # Otherwise a session keeps a table for 30 seconds.
        .config("spark.sql.catalog.drops.cache-enabled", "false")
    )
    for name, value in options["properties"].items():
        builder = builder.config(f"spark.sql.catalog.drops.{name}", value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    assert [row["tableName"] for row in session.sql("SHOW TABLES IN drops.flowdrop").collect()] == ["trades"]

    def read(snapshot):
        at = "" if snapshot is None else f" VERSION AS OF {snapshot}"
        return session.sql(GROUPED.format(f"drops.{TABLE}{at}")).collect()

    return read


def duckdb(url, options):
    import duckdb

    session = duckdb.connect()
    load_extensions(session)
    if options["secret"]:
        session.sql(f"CREATE SECRET (TYPE s3, {options['secret']})")
    session.sql(
        f"ATTACH 'drops' AS drops (TYPE iceberg, ENDPOINT '{url}', {options['access']}, ACCESS_DELEGATION_MODE 'none')"
    )

    def read(snapshot):
        at = "" if snapshot is None else f" AT (VERSION => {snapshot})"
        return session.sql(GROUPED.format(f"drops.{TABLE}{at}")).fetchall()

    return read


def load_extensions(session):
    """From PyPI: DuckDB itself takes them from its own server, and checks their signatures either way."""
    import duckdb as package

    for name in ["avro", "httpfs", "iceberg"]:
        module = __import__(f"duckdb_extension_{name}")
        session.sql(f"LOAD '{module.__path__[0]}/extensions/v{package.__version__}/{name}.duckdb_extension'")


if __name__ == "__main__":
    reader, address, more = sys.argv[1:]
    read = {"pyiceberg": pyiceberg, "spark": spark, "duckdb": duckdb}[reader](address, json.loads(more))
    for line in sys.stdin:
        answers = {}
        for snapshot in json.loads(line):
            found = {str(date): [rows, round(premium, 3)] for date, rows, premium in read(snapshot)}
            answers["null" if snapshot is None else str(snapshot)] = found
        print("ANSWER " + json.dumps(answers), flush=True)
