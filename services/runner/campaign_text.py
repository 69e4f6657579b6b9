"""Where in a campaign file something stands, so that every message can name the line. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

Place = Sequence[str | int]
"""The way to a value, e.g. `("measure", 1, "sets", 0)`, as pydantic gives it."""

HEADER = re.compile(r"^\s*\[")
MEASURE_HEADER = re.compile(r"^\s*\[\[\s*measure\s*\]\]")
LONG_STRING = re.compile(r'"""(?:\\.|[^\\])*?"""|' + r"'''.*?'''", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a campaign and the name of what it came from; without a text there are no lines."""

    name: str = ""
    text: str = ""

    def at(self, place: Place, value: object = None) -> str:
        """`NAME, line N` of a key, or of the text `value` in the list that the key begins."""
        line = line_of(self.text, place, value)
        return self.name if line is None else f"{self.name}, line {line}"


def line_of(text: str, place: Place, value: object = None) -> int | None:
    """The line, from 1, of the key; else of the `[[measure]]` that lacks it; None where there is no such place."""
    lines = _without_long_strings(text).split("\n")
    headers = [number for number, line in enumerate(lines) if HEADER.match(line)]
    first, end, rest = _section(lines, headers, place)
    if not rest:
        return first + 1
    key = _key(str(rest[0]))
    for number in [*range(first, end), *headers]:
        if key.match(lines[number]):
            return _of_value(lines, number, value) + 1 if len(rest) > 1 else number + 1
    return first + 1 if first else None


def _section(lines: list[str], headers: list[int], place: Place) -> tuple[int, int, Place]:
    """First line and end of the table that holds the place, and the rest of the way there."""
    measures = [number for number in headers if MEASURE_HEADER.match(lines[number])]
    if len(place) > 1 and place[0] == "measure" and isinstance(place[1], int) and place[1] < len(measures):
        first = measures[place[1]]
        return first, next((number for number in headers if number > first), len(lines)), place[2:]
    return 0, headers[0] if headers else len(lines), place


def _key(name: str) -> re.Pattern[str]:
    escaped = re.escape(name)
    return re.compile(rf"""^\s*(?:["']?{escaped}["']?\s*[=.]|\[+\s*{escaped}\s*[].])""")


def _of_value(lines: list[str], first: int, value: object) -> int:
    """The line of a list's element: the first from the key on that has it, up to the end of the list."""
    written = (f'"{value}"', f"'{value}'") if isinstance(value, str) else (str(value),)
    for number in range(first, len(lines)):
        if any(each in lines[number] for each in written):
            return number
        if "]" in lines[number]:
            break
    return first


def _without_long_strings(text: str) -> str:
    """The same lines, with nothing in strings that go over several: a key in one is none."""
    return LONG_STRING.sub(lambda found: '""' + "\n" * found.group().count("\n"), text)
