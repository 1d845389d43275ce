"""Tests for engine.memory.measured, and for what the profile and the plan make of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.memory.cost_model import Courses, Disk, Homes, decode_work
from engine.memory.demand import Backlog
from engine.memory.known_profile import KnownProfile
from engine.memory.measured import INFEASIBLE, Beside, Corrections, Kind, Measured, Point, Split, table_key
from engine.memory.profile import PassObserved, Profile, refined
from engine.memory.profile_file import load_profile, save_profile
from engine.memory.work import Work
from tests.engine.memory.test_ladder import SHAPE

REPACKED, PLAIN = Split(), Split(is_repacked=False)
WORK = Work(processor_bytes=12e9)
# By the rates alone, a second for each pass.
PROFILE = Profile(ram_bytes_per_s=12e9, step_s=0.0)


def point(size: int, seconds: float | None, kind: Kind = "write", split: Split = REPACKED) -> Point:
    return Point(split, kind, size, WORK, seconds)


def corrections(*points: Point) -> Corrections:
    table = Measured()
    for one in points:
        table = table.with_point(one)
    return PROFILE.with_table("m", table).corrections("m")


# --- the table ---


def test_a_newer_measurement_takes_the_place_of_an_older_one():
    table = Measured().with_point(point(4, 2.0)).with_point(point(8, 3.0)).with_point(point(4, 1.0))
    assert [(one.size, one.seconds) for one in table.points] == [(8, 3.0), (4, 1.0)]


def test_with_other_layers_on_a_device_nothing_of_before_stays():
    table = (
        Measured().with_point(point(4, 2.0)).with_point(point(4, 5.0, "read")).with_point(point(4, 3.0, split=PLAIN))
    )
    moved = table.with_point(point(8, 1.0, split=Split(20)))
    assert [(one.kind, one.size, one.split) for one in moved.points] == [
        ("read", 4, Split()),
        ("write", 4, PLAIN),
        ("write", 8, Split(20)),
    ]


def test_what_is_known_is_not_asked_for_again():
    table = Measured().with_point(point(4, 2.0, split=Split(20)))
    assert table.knows(Split(20), "write", 4, 32)
    assert table.knows(Split(22), "write", 4, 32)
    assert not table.knows(Split(30), "write", 4, 32)
    assert not table.knows(Split(0), "write", 4, 32)
    assert not table.knows(Split(20), "write", 8, 32)
    assert not table.knows(Split(20), "read", 4, 32)


def test_a_size_that_could_not_be_computed_answers_for_all_larger_ones():
    table = Measured().with_point(point(8, None))
    assert table.knows(Split(), "write", 16, 32)
    assert not table.knows(Split(), "write", 4, 32)


def test_what_the_disk_hid_is_not_asked_for_again_and_corrects_nothing():
    hidden = Point(PLAIN, "write", 4, WORK, None, is_hidden=True)
    table = Measured().with_point(hidden)
    assert table.knows(PLAIN, "write", 4, 32)
    assert not table.knows(PLAIN, "write", 8, 32)
    assert corrections(hidden).factor("write", 4, is_repacked=False) == 1.0


def test_models_of_one_shape_share_a_table_whatever_they_are_called():
    assert table_key(replace(SHAPE, name="other")) == table_key(SHAPE)
    assert table_key(replace(SHAPE, layer_bytes=(*SHAPE.layer_bytes[1:], 1))) != table_key(SHAPE)


# --- corrections ---


def test_a_measured_size_is_as_it_was_measured_and_between_two_a_line():
    factors = corrections(point(1, 1.0), point(4, 4.0))
    found = [factors.factor("write", size, is_repacked=True) for size in (1, 2, 4)]
    assert found == [pytest.approx(1.0), pytest.approx(2.0), pytest.approx(4.0)]


def test_beyond_the_last_size_it_is_as_there():
    factors = corrections(point(2, 3.0), point(4, 2.0))
    assert factors.factor("write", 1, is_repacked=True) == pytest.approx(3.0)
    assert factors.factor("write", 64, is_repacked=True) == pytest.approx(2.0)


def test_kinds_do_not_mix_and_nothing_measured_corrects_nothing():
    factors = corrections(point(4, 3.0))
    assert factors.factor("read", 4, is_repacked=True) == 1.0
    assert corrections().factor("write", 4, is_repacked=True) == 1.0


def test_weights_that_are_not_repacked_are_never_the_faster_ones():
    both = corrections(point(4, 3.0), point(4, 2.0, split=PLAIN))
    assert both.factor("write", 4, is_repacked=False) == pytest.approx(3.0)
    slow = corrections(point(4, 3.0), point(4, 5.0, split=PLAIN))
    assert slow.factor("write", 4, is_repacked=False) == pytest.approx(5.0)
    one = corrections(point(4, 5.0, split=PLAIN))
    assert one.factor("write", 4, is_repacked=True) == pytest.approx(5.0)


def test_what_a_device_computes_of_streamed_layers_is_measured_by_itself():
    copying = Split(12, is_repacked=False, copies_streamed=True)
    both = corrections(point(64, 9.0, "read", PLAIN), point(64, 4.0, "read", copying))
    assert both.factor("read", 64, is_repacked=False) == pytest.approx(9.0)
    assert both.factor("read", 64, is_repacked=False, copies_streamed=True) == pytest.approx(4.0)
    assert not copying.is_near(Split(12, is_repacked=False), 32)
    # What was never measured is at least as slow as what was.
    one = corrections(point(64, 4.0, "read", copying))
    assert one.factor("read", 64, is_repacked=False) == pytest.approx(4.0)
    assert one.factor("read", 64, is_repacked=True) == pytest.approx(4.0)


def test_an_infeasible_size_is_planned_with_by_nobody_who_has_a_choice():
    factors = corrections(point(4, 1.0), point(8, None))
    assert factors.factor("write", 8, is_repacked=True) == pytest.approx(INFEASIBLE)
    assert factors.factor("write", 4, is_repacked=True) == pytest.approx(1.0)


def test_a_course_is_as_slow_as_the_table_says():
    homes = Homes(processor_bytes=12e9)
    backlog = Backlog(waiting=4, prompt_tokens=512, answer_tokens=10)
    work = decode_work(homes, 4, 0)
    expected = PROFILE.computing_seconds(work)
    table = Measured().with_point(Point(Split(), "write", 4, work, 3 * expected))
    slow = PROFILE.with_table("m", table).corrections("m")
    plain, corrected = (
        Courses(PROFILE, backlog, *given).of(homes, 4, 512).step_seconds(Disk()) for given in ((), (slow,))
    )
    assert corrected == pytest.approx(3 * plain)


# --- refining ---


def seen(seconds: float, size: int = 4, split: Split = REPACKED, kind: Kind = "write") -> PassObserved:
    return PassObserved(WORK, seconds, table="m", split=split, kind=kind, size=size)


def test_a_step_that_was_measured_teaches_the_table_and_leaves_the_rates():
    profile = PROFILE.with_table("m", Measured().with_point(point(4, 2.0)).with_point(point(1, 1.0)))
    for _ in range(60):
        profile = refined(profile, seen(4.0))
    assert [one.seconds for one in profile.table("m").points] == [pytest.approx(4.0, rel=0.01), 1.0]
    assert profile.ram_bytes_per_s == PROFILE.ram_bytes_per_s


@pytest.mark.parametrize("truth", [1e-4, 0.001, 30.0])
def test_a_step_comes_to_what_is_seen_and_stays_there_however_far_off_the_rates_are(truth: float):
    # Repacked weights are slower by the table, which bounds the correction of plain ones.
    table = Measured().with_point(point(4, 50.0)).with_point(point(4, 1.0, split=PLAIN))
    profile = replace(PROFILE, step_s=0.002).with_table("m", table)
    for _ in range(400):
        profile = refined(profile, seen(truth, split=PLAIN))
    step = profile.table("m").point(PLAIN, "write", 4)
    assert step is not None
    assert step.seconds == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("other", [seen(4.0, size=2), seen(4.0, split=PLAIN), replace(seen(4.0), table="x")])
def test_any_other_step_teaches_the_rates(other: PassObserved):
    profile = PROFILE.with_table("m", Measured().with_point(point(4, 2.0)))
    learnt = refined(profile, other)
    assert learnt.tables == profile.tables
    assert learnt.ram_bytes_per_s < profile.ram_bytes_per_s


def test_reading_teaches_the_pass_over_about_as_many_tokens_and_without_one_the_rates():
    table = Measured()
    for size in (16, 128, 512):
        table = table.with_point(Point(REPACKED, "read", size, WORK, 2.0))
    profile = PROFILE.with_table("m", table)
    for _ in range(60):
        profile = refined(profile, seen(4.0, size=100, kind="read"))
    seconds = {one.size: one.seconds for one in profile.table("m").points}
    assert seconds == {16: 2.0, 128: pytest.approx(4.0, rel=0.01), 512: 2.0}
    assert profile.processor_rate == PROFILE.processor_rate
    learnt = refined(PROFILE.with_table("m", Measured().with_point(point(4, 2.0))), seen(4.0, kind="read"))
    assert learnt.ram_bytes_per_s < PROFILE.ram_bytes_per_s


# --- on the disk ---


def full_profile() -> Profile:
    table = Measured().with_point(point(1, 1.0)).with_point(point(8, None, split=Split(3)))
    table = table.with_point(Point(PLAIN, "read", 512, Work(streamed_bytes=5.0, ring_slots=2), is_hidden=True))
    return Profile().with_table("m", table.with_beside(Beside(Split(), 2, 1, 0.7, 0.6)))


def test_tables_survive_a_restart(tmp_path: Path):
    save_profile(tmp_path / "p.json", full_profile())
    assert load_profile(tmp_path / "p.json") == full_profile()


@pytest.mark.expects_warnings
@pytest.mark.parametrize(
    "damage",
    [
        lambda table: table["points"][0].update(seconds=0.0),
        lambda table: table["points"][0].update(size=0),
        lambda table: table["points"][0].update(kind="fly"),
        lambda table: table["points"][0].pop("work"),
        lambda table: table["beside"][0].update(writing=float("nan")),
    ],
)
def test_a_table_that_makes_no_sense_is_measured_again_and_all_else_is_kept(tmp_path: Path, damage):
    file = tmp_path / "p.json"
    whole = full_profile().with_table("n", Measured().with_point(point(2, 0.5)))
    save_profile(file, whole)
    content = json.loads(file.read_text())
    damage(content["tables"][0][1])
    file.write_text(json.dumps(content))
    assert load_profile(file) == replace(whole, tables=whole.tables[1:])


def test_each_point_is_kept_at_once(tmp_path: Path):
    file = tmp_path / "p.json"
    known = KnownProfile(file)
    known.note_table("m", lambda table: table.with_point(point(4, 2.0)))
    # As a killed process leaves it.
    assert load_profile(file) == known()
    known.close()


def test_measuring_bandwidths_forgets_no_table(tmp_path: Path):
    known = KnownProfile(tmp_path / "p.json", measure=lambda profile, folder, wanted: Profile(), delay_seconds=0.0)
    known.note_table("m", lambda table: table.with_point(point(4, 2.0)))
    known._measure_machine()
    assert known().table("m").points == (point(4, 2.0),)
    known.close()
