"""What an unknown word may have meant. Pure."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean X?`, or all that is known where nothing is near."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.4)
    return f"did you mean {by_lower[close[0]]}?" if close else f"known are {', '.join(by_lower.values())}"
