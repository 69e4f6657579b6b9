"""Errors that say who must act. A service's `__main__` prints them as one line."""


class SettingsError(Exception):
    """The operator must act: a setting, a file or a program is missing or wrong."""


class ContractError(Exception):
    """The sender must act: a message or a file does not say what it should."""


class FrameError(Exception):
    """The device must act: bytes that are not a frame."""
