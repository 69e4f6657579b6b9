"""`opjoule meter`: which meters are plugged in, whether one works, and recordings of what one says."""

from opjoule.meter.command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
