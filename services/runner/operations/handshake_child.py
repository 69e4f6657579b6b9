"""The process in which handshakes are done apart, for capability masks and memory: `python -m` this."""

import sys

from runner.operations.handshake_work import handshake_work
from runner.operations.lib.child import answer_questions

if __name__ == "__main__":
    sys.exit(answer_questions(handshake_work))
