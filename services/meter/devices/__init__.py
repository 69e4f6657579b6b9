"""Meters that are not there. They speak the real bytes through a descriptor, for tests, benchmarks and the demo."""
