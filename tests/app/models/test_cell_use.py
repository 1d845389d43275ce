"""Tests for app.models.cell_use."""

from __future__ import annotations

from app.models.cell_use import CellUse, cell_use

COUNTERS = {"kv_cells_used": 300.0, "kv_cells_free": 100.0}


def name_of(question_id: str) -> str:
    return {"q1": "Lease", "q2": "Lease", "q3": "Garden"}.get(question_id, "")


def test_without_cells_nobody_uses_any():
    assert cell_use({"tokens_per_s": 1.0}, name_of) is None
    assert cell_use({"kv_cells_used": 0.0, "kv_cells_free": 0.0}, name_of) is None


def test_questions_of_one_chat_count_together():
    told = COUNTERS | {"kv_cells_of:q1": 60.0, "kv_cells_of:q2": 40.0, "kv_cells_of:q3": 50.0, "kv_cells_of:q9": 10.0}
    assert cell_use(told, name_of) == CellUse(300, 100, (("Lease", 100), ("Garden", 50), ("", 10)))


def test_what_chats_share_is_not_counted_for_each():
    told = COUNTERS | {"kv_cells_of:q1": 300.0, "kv_cells_of:q3": 300.0}
    use = cell_use(told, name_of)
    assert use.by_chat == (("Lease", 150), ("Garden", 150))
    assert sum(cells for _, cells in use.by_chat) <= use.used
