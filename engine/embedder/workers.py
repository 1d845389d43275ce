"""Several batches at once: one core for each achieves more than the same cores on one batch together.

Two cores on one batch wait for each other some hundred times; two cores with a batch each never do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


def at_once(num_workers: int, work: Callable[[list[int]], None], batches: Sequence[list[int]]) -> None:
    """Calls `work` for each of `batches`, started in order, `num_workers` at a time.

    Raises:
        BaseException: What the first failed `work` raised; batches that were not started are skipped.
    """
    num_workers = min(num_workers, len(batches))
    if num_workers <= 1:
        for batch in batches:
            work(batch)
        return
    # A pool for this call alone, so that it does not wait behind less urgent callers.
    with ThreadPoolExecutor(num_workers, thread_name_prefix="embedding") as pool:
        for _ in pool.map(work, batches):
            pass
