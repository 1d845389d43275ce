"""Several batches at once: one core for each achieves more than the same cores on one batch together.

Two cores at one batch wait for each other some hundred times in it; two at a batch each never do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


def at_once(num_workers: int, work: Callable[[list[int]], None], batches: Sequence[list[int]]) -> None:
    """Does `work` for each of `batches`, begun in their order, `num_workers` at a time.

    Raises:
        BaseException: What the first `work` that failed raised; the batches that were not begun are left.
    """
    num_workers = min(num_workers, len(batches))
    if num_workers <= 1:
        for batch in batches:
            work(batch)
        return
    # Threads of this call: none queues behind those of a caller who is less urgent.
    with ThreadPoolExecutor(num_workers, thread_name_prefix="embedding") as pool:
        for _ in pool.map(work, batches):
            pass
