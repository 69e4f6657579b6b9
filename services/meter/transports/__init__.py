"""Doors to the outside: open, read, close. They know nothing of frames or power."""
