"""Logs: lines of JSON on stderr."""

import json
import logging
import time
from collections.abc import Callable
from typing import Any


class JSONLines(logging.Formatter):
    """Formats each message as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; a traceback if there is one."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(level: str) -> Callable[[str], None]:
    """Log to stderr from this level on; of other libraries only warnings: at debug, compilers write thousands of lines.

    Returns a function that writes lines as they are, never in the middle of another line.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JSONLines())
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)
    logging.getLogger("taciturn").setLevel(number)

    def write(lines: str) -> None:
        handler.acquire()
        try:
            handler.stream.write(lines)
            handler.flush()
        finally:
            handler.release()

    return write
