"""What is stored: a small order, the same for every contestant."""

import time
from typing import Any
from uuid import UUID


def now_micros() -> int:
    """Microseconds since 1970: all processes are on one machine."""
    return time.time_ns() // 1000


def placed(writer: int, number: int) -> dict[str, Any]:
    """The next order of a writer; its id is 64 bits of writer and 64 bits of number."""
    return {
        "order_id": UUID(int=writer << 64 | number),
        "customer": "c-1029",
        "amount": now_micros(),
        "currency": "EUR",
        "lines": [{"sku": "A-100", "qty": 2}, {"sku": "B-7", "qty": 1}],
        "note": "leave at the door please",
    }


def origin(order_id: UUID) -> tuple[int, int]:
    """Who wrote it, and as which of theirs."""
    return order_id.int >> 64, order_id.int & (1 << 64) - 1
