"""Bytes into recordings and readings. No I/O, no clock, no logging."""
