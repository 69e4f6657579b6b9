"""A Python of its own on the chosen libcrypto: for capability masks, which it reads when it is loaded, and for memory.

Parent and child speak in pickles over pipes, one question and one answer at a time. The child ends when its input does.
"""

import contextlib
import functools
import pickle
import select
import subprocess
import sys
from collections.abc import Mapping
from typing import IO, Any

from errors import SettingsError
from runner.openssl.libraries import Libraries, find_libraries
from runner.openssl.process import Launch, find_launch
from runner.openssl.program import OpenSsl, own_environment
from runner.stopping import Stop

END_LIMIT_S = 5.0


def libraries_of(openssl: OpenSsl) -> Libraries:
    """The libraries of a program. Raises SettingsError where it has none that can be loaded."""
    libraries = _libraries(openssl)
    if isinstance(libraries, str):
        raise SettingsError(libraries)
    return libraries


class Child:
    """One child, started at once. Raises SettingsError when it cannot be started."""

    def __init__(self, openssl: OpenSsl, module: str, extra_environment: Mapping[str, str], stop: Stop) -> None:
        launch = _launch(openssl)
        if isinstance(launch, str):
            raise SettingsError(launch)
        self._stop = stop
        self._process = subprocess.Popen(
            (*launch.argv_prefix, "-P", "-m", module),
            env={**launch.environment, **extra_environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def put(self, question: Any) -> None:
        """Ask without waiting for the answer. Raises SettingsError when the child has ended."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            pickle.dump(question, stdin)
            stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def ask(self, question: Any) -> Any:
        """The answer to a question. Raises SettingsError when the child ends instead, Stopped when asked to end."""
        self.put(question)
        stdout = self._process.stdout
        assert stdout is not None
        either: list[IO[bytes] | Stop] = [stdout, self._stop]
        select.select(either, [], [])
        self._stop.check()
        try:
            return pickle.load(stdout)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None

    def close(self) -> int:
        """End it, by the end of its input, and by force where it does not follow or was asked to; its exit status."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if self._stop.requested:
            self._process.kill()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return self._process.wait()

    def _ended(self) -> SettingsError:
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").strip().rpartition("\n")[2]
        return SettingsError(f"the process for libcrypto ended: {said[:200] or f'exit {self._process.wait()}'}")


@functools.cache
def _libraries(openssl: OpenSsl) -> Libraries | str:
    return find_libraries(openssl)


@functools.cache
def _launch(openssl: OpenSsl) -> Launch | str:
    libraries = _libraries(openssl)
    if isinstance(libraries, str):
        return libraries
    if sys.platform != "linux":
        return Launch((sys.executable,), own_environment())
    return find_launch(openssl, libraries)
