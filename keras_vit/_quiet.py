"""Keeps native libraries' greetings off standard error."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Holds back what is written to standard error, unless the user set TensorFlow's log level.

    While they start, TensorFlow (its issue 100442) and LiteRT ignore TF_CPP_MIN_LOG_LEVEL and
    write to the descriptor itself. If the body fails, what it wrote is shown.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except BaseException:
            held_back.seek(0)
            os.write(standard_error, held_back.read())
            raise
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
            del os.environ["TF_CPP_MIN_LOG_LEVEL"]  # other processes of the user's stay as they are
