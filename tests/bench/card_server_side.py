"""llama-server on a graphics card, placing layers by its own rule (`--fit on`), with the interface of our side.

Runs as a side (side_process.py); the server is a child process, so both share one limit. Settings: `binary`, `model`,
`num_cells` of all slots together, `num_slots`, `num_threads`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench.llama_server import LlamaServer, ServerOptions, Streamed
from tests.bench.measured_answers import MeasuredAnswers
from tests.bench.process_marks import Marks
from tests.bench.side_process import Said, serve

NOT_TOLD = Marks(0, 0, 0, 0)


def measured(answers: Sequence[Streamed], begun: float) -> MeasuredAnswers:
    """Measures from the last first token to the first end, as on all sides; a pass is a step from token to token."""
    first = max(answer.token_times[0] for answer in answers)
    end = min(answer.token_times[-1] for answer in answers)
    within = [sum(first < at <= end for at in answer.token_times) for answer in answers]
    passes = max(1, max(within))
    return MeasuredAnswers(
        tokens=tuple(answer.tokens for answer in answers),
        read_seconds=first - begun,
        pass_seconds=((end - first) / passes,) * passes,
        num_written=sum(within),
        marks=NOT_TOLD,
    )


class CardServerSide:
    """A server that runs as long as this object exists."""

    def __init__(self, settings: Said) -> None:
        options = ServerOptions(
            settings["num_cells"], settings["num_threads"], settings["num_slots"], cache_mib=0, fits_itself=True
        )
        self._kept = ExitStack()
        started = LlamaServer.started(Path(settings["binary"]), Path(settings["model"]), options)
        self._server = self._kept.enter_context(started)

    def answer(self, asked: Said) -> Said:
        """Sends all prompts at once."""
        if not asked:
            return {}
        begun, prompts = time.perf_counter(), asked["prompts"]
        answers = self._server.complete_all(prompts, [asked["num_tokens"]] * len(prompts))
        return measured(answers, begun).told()


def prepare(settings: Said) -> Callable[[Said], Said]:
    return CardServerSide(settings).answer


if __name__ == "__main__":
    serve(prepare)
