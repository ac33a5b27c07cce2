"""How every other room keeps things on disk: durable writes, checksums, Parquet form, event log."""
