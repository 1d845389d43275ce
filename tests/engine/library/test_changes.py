"""Tests for engine.library.changes."""

from __future__ import annotations

from engine.catalog import GONE_AT_ONCE, Root
from engine.core import Document, FoundFile
from engine.library.changes import absence, choose_moved, diff, is_below, judge_missing, outermost, upwards
from engine.library.scanner import Scan, ScanProblem

ROOT = Root(1, "Documents", "/d", is_folder=True, device=7, is_surveyed=True)


def document(number: int, path: str = "", size: int = 1, mtime: int = 1) -> Document:
    return Document(number, (), path or f"/d/{number}", "indexed", "", size, mtime, f"h{number}", "text", 1)


def file(path: str, size: int = 1, mtime: int = 1) -> FoundFile:
    return FoundFile(path, size, mtime)


def documents(count: int) -> list[Document]:
    return [document(number) for number in range(count)]


def test_each_file_and_each_document_falls_into_one_kind() -> None:
    same, bigger, touched, gone = (document(number) for number in range(4))
    found = [file("/d/0"), file("/d/1", size=2), file("/d/2", mtime=2), file("/d/new")]

    result = diff(found, [same, bigger, touched, gone])

    assert result.new == (file("/d/new"),)
    assert result.changed == ((bigger, found[1]), (touched, found[2]))
    assert result.unchanged == (same,)
    assert result.missing == (gone,)


def test_a_root_with_its_files_is_present() -> None:
    assert absence(ROOT, Scan("/d", (file("/d/0"),), device=7), documents(1)) == ""


def test_a_missing_root_is_absent_for_the_scanners_reason() -> None:
    assert absence(ROOT, Scan("/d", absence="It is not there."), documents(1)) == "It is not there."


def test_an_empty_mount_point_is_absent_but_a_folder_that_never_had_documents_is_not() -> None:
    empty = Scan("/d", device=7)

    assert "drive" in absence(ROOT, empty, documents(1))
    assert absence(ROOT, empty, []) == ""


def test_an_empty_mount_point_is_absent_whatever_else_hides_files() -> None:
    problems = (ScanProblem("/d/link", "This link leads nowhere.", hides_files=True),)
    known = [document(1, "/d/link/a"), document(2, "/d/usb/b")]

    assert "drive" in absence(ROOT, Scan("/d", problems=problems, device=7), known)
    assert absence(ROOT, Scan("/d", problems=problems, device=7), known[:1]) == ""


def test_another_drive_in_its_place_is_absence() -> None:
    stranger = Scan("/d", (file("/d/other"),), device=8)

    assert absence(ROOT, stranger, documents(4)) == "Another drive is in this folder's place."


def test_the_same_drive_under_another_number_is_recognised_by_its_files() -> None:
    found = tuple(file(f"/d/{number}") for number in range(2))

    assert absence(ROOT, Scan("/d", found, device=8), documents(4)) == ""
    assert absence(ROOT, Scan("/d", found, device=8), documents(5)) != ""


def test_the_same_drive_under_another_number_is_recognised_also_where_its_files_were_edited() -> None:
    edited = tuple(file(f"/d/{number}", size=99_999) for number in range(4))

    assert absence(ROOT, Scan("/d", edited, device=8), documents(4)) == ""


def test_what_lies_on_a_drive_of_its_own_that_is_away_says_nothing_of_the_folder() -> None:
    away = [ScanProblem("/d/vault", "Its drive is not connected.", hides_files=True)]
    known = [*documents(4), *(document(10 + number, f"/d/vault/{number}") for number in range(20))]
    here = Scan("/d", tuple(file(f"/d/{number}") for number in range(4)), tuple(away), device=8)

    assert absence(ROOT, here, known) == ""
    assert absence(ROOT, Scan("/d", problems=tuple(away), device=8), known[4:]) == "Its drive is not connected."


def test_a_file_in_a_folders_place_is_absence() -> None:
    assert "something else" in absence(ROOT, Scan("/d", (file("/d"),), is_folder=False, device=7), documents(1))


def test_a_few_missing_documents_are_gone() -> None:
    known = documents(20)

    verdict = judge_missing(known, [ROOT], [], lambda root: 20)

    assert (verdict.gone, verdict.offline) == (tuple(known), ())


def test_many_missing_documents_are_gone_when_most_remain() -> None:
    known = documents(100)

    assert len(judge_missing(known[:50], [ROOT], [], lambda root: 100).gone) == 50


def test_most_of_a_folder_missing_at_once_is_kept() -> None:
    known = documents(100)

    verdict = judge_missing(known[:51], [ROOT], [], lambda root: 100)

    assert verdict.gone == ()
    assert {reason for _, reason in verdict.offline} == {GONE_AT_ONCE}
    assert len(verdict.offline) == 51


def test_most_of_a_folder_missing_little_by_little_is_kept() -> None:
    known = documents(100)

    def judged(count: int, *, left: int, undecided: int = 0) -> int:
        """How many of so many missing documents are gone, where a hundred are still known."""
        verdict = judge_missing(known[:count], [ROOT], [], lambda root: 100, lambda root: left, lambda root: undecided)
        assert {reason for _, reason in verdict.offline} <= {GONE_AT_ONCE}
        return len(verdict.gone)

    assert judged(1, left=98) == 1
    assert judged(1, left=99) == 0
    assert judged(20, left=60) == 20
    assert judged(20, left=61) == 0
    assert judged(30, left=0, undecided=20) == 30
    assert judged(30, left=0, undecided=21) == 0
    # Of nothing missing nothing is asked.
    assert judged(0, left=1000) == 0


def test_what_went_before_from_a_small_folder_is_no_question() -> None:
    (one,) = documents(1)
    assert judge_missing([one], [ROOT], [], lambda root: 1, lambda root: 19).gone == (one,)
    assert judge_missing([one], [ROOT], [], lambda root: 1, lambda root: 20).gone == ()


def test_what_lies_below_an_unreadable_folder_is_kept() -> None:
    known = [document(1, "/d/closed/a"), document(2, "/d/closed"), document(3, "/d/closed.txt")]
    problems = [
        ScanProblem("/d/closed", "Permission denied.", hides_files=True),
        ScanProblem("/d/closed.txt", "A pipe."),
    ]

    verdict = judge_missing(known, [ROOT], problems, lambda root: 3)

    assert verdict.gone == (known[2],)
    assert [doc for doc, _ in verdict.offline] == known[:2]


def test_a_folder_of_links_that_lead_nowhere_is_judged_at_once() -> None:
    known = documents(20_000)
    problems = [ScanProblem(one.path, "This link leads nowhere.", hides_files=True) for one in known]

    verdict = judge_missing(known, [ROOT], problems, lambda root: 20_000)

    assert verdict.gone == ()
    assert len(verdict.offline) == 20_000


def test_below_means_below_and_not_merely_alike() -> None:
    assert is_below("/d/a", "/d/a")
    assert is_below("/d/a/b", "/d/a")
    assert is_below("/d", "/")
    assert not is_below("/d/ab", "/d/a")


def test_of_equal_contents_the_one_with_the_files_name_moved() -> None:
    first, second = document(1, "/d/x.md"), document(2, "/d/old/y.md")

    assert choose_moved(file("/d/new/y.md"), [first, second]) is second
    assert choose_moved(file("/d/new/z.md"), [first, second]) is first
    assert choose_moved(file("/d/new/z.md"), []) is None


def test_upwards_of_a_path_lies_what_it_is_below() -> None:
    assert list(upwards("/d/a/x.md")) == ["/d/a/x.md", "/d/a", "/d", "/"]
    assert all(is_below("/d/a/x.md", above) for above in upwards("/d/a/x.md"))
    assert list(upwards("/")) == ["/"]


def test_the_outermost_of_paths_are_those_below_no_other() -> None:
    assert outermost(["/d/a/x.md", "/d/ab", "/d/a", "/d/a", "/e/x.md"]) == ["/d/ab", "/d/a", "/e/x.md"]
    assert outermost(["/", "/d"]) == ["/"]
