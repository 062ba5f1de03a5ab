"""Entry of a process that answers SQL over Parquet files with DuckDB or Polars: a line of JSON each way."""

import json
import sys
import time
from datetime import date, datetime

engine, files = sys.argv[1:]


def plain(value):
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else value


if engine == "duckdb":
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW trades AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)")

    def ask(sql):
        return connection.execute(sql).fetchall()

    version = duckdb.__version__
else:
    import polars

    version = polars.__version__

    def ask(sql):
        # As in a session of its own: the files are listed again, since new ones may have come.
        trades = polars.scan_parquet(files, hive_partitioning=True)
        return polars.SQLContext(trades=trades).execute(sql).collect(engine="streaming").rows()


print(json.dumps({"version": version}), flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    rows = ask(json.loads(line)["sql"])
    ms = (time.perf_counter() - started) * 1000
    rows = [[plain(value) for value in row] for row in rows]
    print(json.dumps({"ms": ms, "rows": rows}), flush=True)
