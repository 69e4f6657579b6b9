"""`opjoule study`: a published study recomputed from its recordings, through the real path, figure by figure."""

from opjoule.study.command import SUMMARY, add_arguments, run

__all__ = ["SUMMARY", "add_arguments", "run"]
