"""Tests for engine.memory.profile, profile_file and known_profile."""

from __future__ import annotations

import json
import platform
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.memory import known_profile
from engine.memory.hardware import Device
from engine.memory.known_profile import KnownProfile, measuring
from engine.memory.profile import (
    PassObserved,
    PauseObserved,
    Profile,
    ReadsObserved,
    SweepsLearnt,
    computing_in,
    refined,
)
from engine.memory.profile_file import _processor, load_profile, profile_file, save_profile
from engine.memory.work import Work

READING = Work(processor_bytes=1e9)
STREAMED = Work(processor_bytes=1e9, streamed_bytes=5e9, ring_slots=3)


def after(profile: Profile, observation: object, times: int) -> Profile:
    for _ in range(times):
        profile = refined(profile, observation)  # type: ignore[arg-type]
    return profile


# --- refining ---


def test_passes_pull_the_expectation_towards_what_was_seen():
    profile = replace(Profile(), step_s=0.0)
    truth = profile.seconds(READING) / 2
    learnt = after(profile, PassObserved(READING, truth), 50)
    assert learnt.seconds(READING) == pytest.approx(truth, rel=0.02)
    assert learnt.ram_bytes_per_s == pytest.approx(2 * profile.ram_bytes_per_s, rel=0.02)


def test_only_rates_that_took_part_are_blamed():
    learnt = after(Profile(), PassObserved(READING, 1.0), 20)
    assert learnt.ram_bytes_per_s != Profile().ram_bytes_per_s
    assert (learnt.device_bytes_per_s, learnt.device_rate) == (Profile().device_bytes_per_s, Profile().device_rate)
    assert learnt.disk_bytes_per_s == Profile().disk_bytes_per_s


@pytest.mark.parametrize("reading_seconds", [0.0, 4.5, 5.0])
def test_where_the_disk_is_waited_for_nothing_is_learnt_of_the_processor(reading_seconds: float):
    assert refined(Profile(), PassObserved(STREAMED, 5.0, reading_seconds)) == Profile()


def test_what_the_system_reads_of_a_mapped_file_is_taken_for_no_computing():
    mapped = replace(READING, mapped_bytes=5e9)
    assert refined(Profile(), PassObserved(mapped, 60.0)) == Profile()
    assert computing_in(mapped, 60.0, 0.0) is None
    assert computing_in(READING, 60.0, 0.0) == 60.0


def test_a_disk_that_turns_out_slow_is_no_fault_of_the_processor():
    profile = Profile()
    bandwidth = profile.stream_bytes_per_s / 3
    seconds = STREAMED.streamed_bytes / bandwidth
    learnt = profile
    for _ in range(60):
        learnt = refined(learnt, ReadsObserved(int(STREAMED.streamed_bytes), seconds))
        learnt = refined(learnt, PassObserved(STREAMED, seconds * 1.05, seconds))
    assert learnt.stream_bytes_per_s == pytest.approx(bandwidth, rel=0.02)
    assert learnt.ram_bytes_per_s == profile.ram_bytes_per_s


def test_a_pass_that_takes_longer_than_its_reads_was_computing():
    profile, computing, reading = Profile(), 40.0, 5.0
    truth = profile.step_s + computing + reading / STREAMED.ring_slots**2
    learnt = after(profile, PassObserved(STREAMED, truth, reading), 80)
    assert (learnt.disk_bytes_per_s, learnt.step_s) == (profile.disk_bytes_per_s, profile.step_s)
    assert learnt.computing_seconds(STREAMED) == pytest.approx(computing, rel=0.1)


def test_one_pass_that_was_held_up_changes_little():
    learnt = refined(Profile(), PassObserved(READING, 1000.0))
    assert learnt.seconds(READING) < 1.2 * Profile().seconds(READING)


def test_reads_of_the_ring_say_how_fast_the_disk_is():
    learnt = after(Profile(), ReadsObserved(10**9, 1.0), 60)
    assert learnt.stream_bytes_per_s == pytest.approx(1e9, rel=0.02)


def test_sweeps_and_pauses_are_taken_over():
    learnt = refined(Profile(), SweepsLearnt(0.1, 0.2, 0.3))
    assert learnt.retrieval_seconds(1, 1) == pytest.approx(0.6)
    learnt = after(Profile(), PauseObserved("context", 2.0), 60)
    assert learnt.context_change_s == pytest.approx(2.0, rel=0.02)
    learnt = after(Profile(), PauseObserved("reload", 1.0, 4 * 10**9), 60)
    assert learnt.load_bytes_per_s == pytest.approx(4e9, rel=0.02)


@pytest.mark.parametrize(
    "nothing",
    [PassObserved(READING, 0.0), ReadsObserved(0, 1.0), ReadsObserved(5, 0.0), PauseObserved("reload", 1.0)],
)
def test_what_says_nothing_changes_nothing(nothing: object):
    assert refined(Profile(), nothing) == Profile()  # type: ignore[arg-type]


# --- on the disk ---


def test_a_profile_comes_back_as_it_was_kept(tmp_path: Path):
    profile = Profile(ram_bytes_per_s=3.5e10, disk_bytes_per_s=(1e9, 2e9, 3e9), is_measured=True)
    save_profile(tmp_path / "new" / "p.json", profile)
    assert load_profile(tmp_path / "new" / "p.json") == profile


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"ram_bytes_per_s": 0}',
        '{"ram_bytes_per_s": "fast"}',
        '{"ram_bytes_per_s": NaN}',
        '{"disk_bytes_per_s": [1, 2]}',
        '{"disk_bytes_per_s": [1, 2, -3]}',
        '{"disk_bytes_per_s": null}',
    ],
)
def test_what_is_no_profile_counts_as_none(tmp_path: Path, content: str):
    file = tmp_path / "p.json"
    file.write_text(content)
    assert load_profile(file) is None


def test_what_an_older_version_did_not_know_has_its_default(tmp_path: Path):
    file = tmp_path / "p.json"
    file.write_text('{"step_s": 0.5, "of_a_newer_one": 3}')
    assert load_profile(file) == Profile(step_s=0.5)


def test_another_version_of_llama_has_another_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = profile_file(tmp_path)
    assert before == profile_file(tmp_path)
    monkeypatch.setattr("engine.memory.profile_file._llama_version", lambda: "another")
    assert before != profile_file(tmp_path)


def test_another_processor_has_another_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = profile_file(tmp_path)
    monkeypatch.setattr("engine.memory.profile_file._processor", lambda: "another")
    assert before != profile_file(tmp_path)


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux tells it there")
def test_a_processor_has_a_name():
    assert _processor() not in ("", platform.machine())


# --- in force ---


def test_bandwidths_are_measured_once_and_known_at_the_next_start(tmp_path: Path):
    file, done = tmp_path / "p.json", threading.Event()

    def measure(profile: Profile, folder: Path, is_wanted: Callable[[], bool]) -> Profile:
        assert folder == tmp_path
        done.set()
        return replace(profile, ram_bytes_per_s=7e10, is_measured=True)

    known = KnownProfile(file, measure, delay_seconds=0.0)
    known.start()
    assert done.wait(30)
    known.close()
    again = KnownProfile(file, lambda *_: pytest.fail("it was measured twice"), delay_seconds=0.0)
    again.start()
    assert again().ram_bytes_per_s == 7e10
    again.close()


def test_the_disk_is_measured_on_the_model_that_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, read = tmp_path / "on another disk.gguf", list[Path | None]()
    monkeypatch.setattr(known_profile, "measured", lambda profile, _, sample, **__: (read.append(sample), profile)[1])
    measuring(lambda: model)(Profile(), tmp_path, lambda: True)
    assert read == [model]


CARD = Device("GPU0", "A card", 24 << 30, 20 << 30)
RATES = {
    "device_bytes_per_s": 9e11,
    "device_rate": 4e13,
    "host_to_device_bytes_per_s": 2e10,
    "pageable_to_device_bytes_per_s": 6e9,
}


def counting(rates: dict[str, float], asked: list[bool]) -> Callable[[Callable[[], bool]], dict[str, float]]:
    def measure(is_wanted: Callable[[], bool]) -> dict[str, float]:
        asked.append(is_wanted())
        return rates

    return measure


def test_a_card_is_measured_once_also_by_an_engine_that_knew_its_machine_before(tmp_path: Path):
    file, asked = tmp_path / "p.json", list[bool]()
    save_profile(file, Profile(is_measured=True, ram_bytes_per_s=5e10))
    known = KnownProfile(file, measure_card=counting(RATES, asked))
    known.measure_card(CARD)
    known.measure_card(CARD)
    assert (known().device_bytes_per_s, known().ram_bytes_per_s, known().card) == (9e11, 5e10, "A card")
    known.close()
    again = KnownProfile(file, measure_card=counting(RATES, asked))
    again.measure_card(CARD)
    assert (again(), asked) == (known(), [True])
    again.measure_card(replace(CARD, description="Another card"))
    assert again().card == "Another card"


def test_a_card_is_measured_again_that_was_before_all_of_its_rates_were(tmp_path: Path):
    file, asked = tmp_path / "p.json", list[bool]()
    known = KnownProfile(file, measure_card=counting(RATES, asked))
    known.measure_card(CARD)
    known.close()
    content = json.loads(file.read_text())
    del content["pageable_to_device_bytes_per_s"]
    file.write_text(json.dumps(content))
    again = KnownProfile(file, measure_card=counting(RATES, asked))
    again.measure_card(CARD)
    assert (again(), asked) == (known(), [True, True])


def test_a_card_without_room_is_measured_when_it_has_some(tmp_path: Path):
    asked = list[bool]()
    known = KnownProfile(tmp_path / "p.json", measure_card=counting(RATES, asked))
    known.measure_card(replace(CARD, free_bytes=2**29))
    assert (known().card, asked) == ("", [])
    known.measure_card(CARD)
    assert known().card == "A card"


def test_nobody_waits_twice_for_a_card_that_cannot_be_measured(tmp_path: Path):
    file, asked = tmp_path / "p.json", list[bool]()
    known = KnownProfile(file, measure_card=counting({}, asked))
    known.measure_card(CARD)
    known.measure_card(CARD)
    assert (known(), len(asked)) == (Profile(unmeasurable="A card"), 1)
    known.close()
    assert load_profile(file) == known()

    again = KnownProfile(file, lambda profile, *_: profile, delay_seconds=0.0, measure_card=counting(RATES, asked))
    again.measure_card(CARD)
    assert len(asked) == 1
    # In the background it may take its time: no load waits for it.
    again.start(CARD)
    while again.is_measuring:
        pass
    assert (again().card, again().unmeasurable, len(asked)) == ("A card", "", 2)


def test_the_machine_is_measured_without_forgetting_its_card(tmp_path: Path):
    file, asked = tmp_path / "p.json", list[bool]()

    def measure(profile: Profile, folder: Path, is_wanted: Callable[[], bool]) -> Profile:
        known.measure_card(CARD)
        return replace(profile, is_measured=True)

    known = KnownProfile(file, measure, delay_seconds=0.0, measure_card=counting(RATES, asked))
    known.start(CARD)
    while known.is_measuring:
        pass
    known.close()
    assert (known().is_measured, known().card, known().device_rate, len(asked)) == (True, "A card", 4e13, 1)
    assert load_profile(file) == known()


def test_an_engine_that_ends_soon_measures_nothing(tmp_path: Path):
    known = KnownProfile(tmp_path / "p.json", lambda *_: pytest.fail("it was measured"), delay_seconds=60.0)
    known.start()
    known.close()
    assert known() == Profile()


@pytest.mark.expects_warnings
def test_what_cannot_be_measured_leaves_the_careful_defaults(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    tried = threading.Event()

    def measure(profile: Profile, folder: Path, is_wanted: Callable[[], bool]) -> Profile:
        tried.set()
        raise OSError("no disk")

    known = KnownProfile(tmp_path / "p.json", measure, delay_seconds=0.0)
    known.start()
    assert tried.wait(30)
    known.close()
    assert known() == Profile()
    assert "could not be measured" in caplog.text


def test_what_was_learnt_is_kept_at_most_once_a_minute_and_at_the_end(tmp_path: Path):
    now = 0.0
    known = KnownProfile(tmp_path / "p.json", clock=lambda: now)
    known.note(ReadsObserved(10**9, 1.0))
    assert not (tmp_path / "p.json").exists()
    now = 61.0
    known.note(ReadsObserved(10**9, 1.0))
    assert load_profile(tmp_path / "p.json") == known()
    known.note(ReadsObserved(10**9, 1.0))
    known.close()
    assert load_profile(tmp_path / "p.json") == known()
