"""`opjoule run`: how a person starts a measurement, on this machine by time alone or on the boards of a fleet."""

from opjoule.run.command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
