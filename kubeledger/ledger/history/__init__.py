"""The history for queries: Parquet, Hive-partitioned, made from segments and disposable."""
