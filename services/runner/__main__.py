"""The runner: measures OpenSSL operations on this board in quiet trains and says what happened when.

Find the OpenSSL and what it can do; connect; then train by train: prepare, try, leave the broker, run, check, come
back, report; then, if asked, wait for commands. Run it with `python -m runner --dut NAME`.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from errors import SettingsError
from runner.openssl.locate import find_openssl
from runner.openssl.process import ensure_process

_FLAG, _VARIABLE = "--openssl", "OPJOULE_OPENSSL"


def main() -> int:
    """Exit status, see `runner.start.run`, which is imported once this process runs on the right libraries.

    Importing all first would be paid for twice where Python has to be started again.
    """
    try:
        without_lib = ensure_process(find_openssl(named(sys.argv[1:], os.environ)).openssl)
    except SettingsError as error:
        without_lib = str(error)  # said by what follows, which knows all settings
    from runner.start import run  # noqa: PLC0415

    return run(without_lib)


def named(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The program that the settings will name, read before they are."""
    for index, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag == _FLAG:
            return value if equals else next(iter(arguments[index + 1 :]), None)
    return environment.get(_VARIABLE) or None


if __name__ == "__main__":
    raise SystemExit(main())
