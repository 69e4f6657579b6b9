"""`opjoule fleet`: who may enter the broker: authority, certificates, passwords, access list, one bundle per device."""

from opjoule.fleet.command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
