"""Tests for app.engine_client.log_file."""

from __future__ import annotations

import pytest

from app.engine_client.log_file import RotatedLog


def test_a_full_log_moves_up_and_the_oldest_goes(tmp_path):
    log = RotatedLog(tmp_path / "logs" / "engine.log", max_bytes=10, num_kept=2)
    for number in range(5):
        log.write(b"line %d..\n" % number)
    log.close()
    kept = {path.name: path.read_bytes() for path in (tmp_path / "logs").iterdir()}
    assert kept == {
        "engine.log": b"line 4..\n",
        "engine.log.1": b"line 3..\n",
        "engine.log.2": b"line 2..\n",
    }


def test_what_was_there_is_kept_and_counted(tmp_path):
    file = tmp_path / "engine.log"
    for text in (b"first\n", b"second\n", b"third\n"):
        log = RotatedLog(file, max_bytes=13)
        log.write(text)
        log.close()
    assert file.read_bytes() == b"third\n"
    assert (tmp_path / "engine.log.1").read_bytes() == b"first\nsecond\n"


@pytest.mark.expects_warnings
def test_a_disk_that_does_not_let_us_is_told_once_and_never_raised(tmp_path, caplog):
    (tmp_path / "logs").write_text("a file where the folder should be")
    log = RotatedLog(tmp_path / "logs" / "engine.log")
    for _ in range(3):
        log.write(b"x")
    assert len(caplog.records) == 1
