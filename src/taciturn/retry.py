"""How long a server asks its clients to wait."""

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str], now: datetime) -> float:
    """Seconds to wait by the header Retry-After, a number or a date; 0 without it, or if it cannot be read.

    A date is compared with that of the answer where it has one, since clocks differ. The names of `headers` are found
    in any case, as in those of httpx and requests.
    """
    given = headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        start = parsedate_to_datetime(headers["date"]) if "date" in headers else now
        return max((parsedate_to_datetime(given) - start).total_seconds(), 0.0)
    except (ValueError, TypeError):  # no date; or only one of the two has a time zone
        return 0.0
