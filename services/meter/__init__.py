"""The meter service: power readings become sample batches."""
