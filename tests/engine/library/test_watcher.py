"""Tests for engine.library.watcher and engine.library.listening."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.catalog import Root
from engine.config import LibrarySettings
from engine.library import listening, watcher
from engine.library.debounce import State
from engine.library.listening import LIMIT_REACHED, NOT_WATCHABLE, reason_for
from engine.library.root_looks import RootLooks, identity_of
from engine.library.watcher import Listen, Watcher, own_name, place_of, places_for, state_of

HANG_SECONDS = 20


def root(path: Path | str, root_id: int = 1) -> Root:
    is_folder = not os.path.isfile(path)
    return Root(root_id, "Documents", str(path), is_folder, device=0, is_surveyed=True)


@dataclass
class Watch:
    """A watcher that writes down what it asks for."""

    roots: list[Root] = field(default_factory=list)
    settings: LibrarySettings = field(default_factory=lambda: LibrarySettings(rescan_minutes=0))
    looks: list[tuple[str, ...]] = field(default_factory=list)
    num_rescans: int = 0

    def __post_init__(self) -> None:
        self._happened = threading.Condition()
        self.watcher = Watcher(lambda: self.roots, lambda: self.settings, self._refresh, self._rescan)

    def with_listener(self, listen: Listen) -> Watch:
        self.watcher = Watcher(lambda: self.roots, lambda: self.settings, self._refresh, self._rescan, listen=listen)
        return self

    def _refresh(self, paths: Sequence[str]) -> None:
        with self._happened:
            self.looks.append(tuple(paths))
            self._happened.notify_all()

    def _rescan(self) -> None:
        with self._happened:
            self.num_rescans += 1
            self._happened.notify_all()

    def link(self, *paths: Path) -> None:
        """Links them, and waits for the look that follows when listening has begun."""
        self.roots = [*self.roots, *(root(path, len(self.roots) + number) for number, path in enumerate(paths))]
        self.watcher.wake()
        for path in paths:
            self.wait_for_look(path)
        self.looks.clear()

    def wait_for_look(self, path: Path) -> None:
        self.wait_until(lambda: any(str(path) in paths for paths in self.looks))

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        with self._happened:
            while not is_so():
                assert time.monotonic() < deadline, self.looks
                self._happened.wait(0.05)

    @property
    def looked_at(self) -> set[str]:
        return {path for paths in self.looks for path in paths}


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.watcher.stop()
    made.watcher.stop()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.md").write_text("a")
    return folder


def test_a_linked_folder_is_looked_at_when_listening_begins(watch: Watch, docs: Path) -> None:
    watch.roots = [root(docs)]
    watch.watcher.start()

    watch.wait_for_look(docs)

    assert watch.watcher.is_watched(root(docs))
    assert watch.looked_at == {str(docs)}


def test_new_changed_and_vanished_files_are_looked_at_and_nothing_else(watch: Watch, docs: Path) -> None:
    watch.watcher.start()
    watch.link(docs)

    (docs / "sub" / "new.md").write_text("new")
    watch.wait_for_look(docs / "sub" / "new.md")
    (docs / "sub" / "new.md").write_text("changed")
    watch.looks.clear()
    watch.wait_for_look(docs / "sub" / "new.md")
    (docs / "sub" / "a.md").unlink()
    watch.wait_for_look(docs / "sub" / "a.md")

    assert watch.looked_at == {str(docs / "sub" / "new.md"), str(docs / "sub" / "a.md")}


def test_a_renamed_folder_is_two_places(watch: Watch, docs: Path) -> None:
    watch.watcher.start()
    watch.link(docs)

    (docs / "sub").rename(docs / "renamed")
    watch.wait_for_look(docs / "renamed")
    watch.wait_for_look(docs / "sub")
    (docs / "renamed" / "b.md").write_text("b")
    watch.wait_for_look(docs / "renamed" / "b.md")


def test_many_files_in_a_new_folder_are_one_look_at_it(watch: Watch, docs: Path) -> None:
    watch.watcher.start()
    watch.link(docs)

    (docs / "many" / "deep").mkdir(parents=True)
    for number in range(300):
        (docs / "many" / "deep" / f"{number}.md").write_text(str(number))
    watch.wait_for_look(docs / "many")

    assert {path for path in watch.looked_at if path.endswith(".md")} == set()


def test_what_is_no_document_is_not_looked_at(watch: Watch, docs: Path) -> None:
    (docs / ".ragdollignore").write_text("*.log")
    (docs / ".git").mkdir()
    watch.watcher.start()
    watch.link(docs)

    (docs / "a.log").write_text("x")
    (docs / ".git" / "index").write_text("x")
    (docs / "last.md").write_text("x")
    watch.wait_for_look(docs / "last.md")

    assert watch.looked_at == {str(docs / "last.md")}


def test_changed_ignore_rules_are_a_look_at_their_folder(watch: Watch, docs: Path) -> None:
    watch.watcher.start()
    watch.link(docs)

    (docs / "sub" / ".ragdollignore").write_text("*.log")

    watch.wait_for_look(docs / "sub")


def test_a_linked_file_is_heard_and_its_neighbours_are_not(watch: Watch, docs: Path) -> None:
    file = docs / "sub" / "a.md"
    watch.watcher.start()
    watch.link(file)

    (docs / "sub" / "other.md").write_text("x")
    file.write_text("changed")
    watch.wait_for_look(file)

    assert watch.looked_at == {str(file)}
    assert watch.watcher.is_watched(root(file))
    assert not watch.watcher.is_watched(root(docs / "sub"))


def test_a_folder_is_heard_as_a_whole_where_one_of_its_files_was_linked_before(watch: Watch, docs: Path) -> None:
    folder, file = docs, docs / "top.md"
    file.write_text("x")
    watch.watcher.start()
    watch.link(file)
    watch.link(folder)
    watch.wait_until(lambda: watch.watcher.is_watched(root(folder)))
    (docs / "sub" / "new.md").write_text("x")
    watch.wait_for_look(docs / "sub" / "new.md")

    watch.roots = [root(file)]
    watch.watcher.wake()
    watch.wait_until(lambda: not watch.watcher.is_watched(root(folder)))
    watch.wait_until(lambda: watch.watcher.is_watched(root(file)))


def test_a_root_that_goes_and_comes_back_is_looked_at_both_times_and_heard_again(watch: Watch, docs: Path) -> None:
    watch.watcher.start()
    watch.link(docs)

    docs.rename(docs.with_name("elsewhere"))
    watch.wait_for_look(docs)
    assert not watch.watcher.is_watched(root(docs))
    watch.looks.clear()
    docs.with_name("elsewhere").rename(docs)
    watch.wait_for_look(docs)
    watch.looks.clear()
    watch.wait_until(lambda: watch.watcher.is_watched(root(docs)))
    (docs / "b.md").write_text("b")
    watch.wait_for_look(docs / "b.md")


def test_another_folder_in_a_roots_place_is_noticed(watch: Watch, docs: Path) -> None:
    watch.watcher.start()
    watch.link(docs)

    shutil.rmtree(docs)
    docs.mkdir()

    watch.wait_for_look(docs)


def test_a_root_that_is_not_there_at_the_start_is_looked_at_all_the_same(watch: Watch, tmp_path: Path) -> None:
    watch.roots = [root(tmp_path / "unplugged")]
    watch.watcher.start()

    watch.wait_for_look(tmp_path / "unplugged")

    assert not watch.watcher.is_watched(watch.roots[0])


def test_a_folder_unlinked_is_not_heard_any_more(watch: Watch, docs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    watch.watcher.start()
    watch.link(docs, other)

    watch.roots = [one for one in watch.roots if one.path != str(docs)]
    watch.watcher.wake()
    watch.wait_until(lambda: not watch.watcher.is_watched(root(docs)))
    (docs / "b.md").write_text("b")
    (other / "c.md").write_text("c")
    watch.wait_for_look(other / "c.md")

    assert watch.looked_at == {str(other / "c.md")}


def test_with_watching_off_there_are_looks_from_time_to_time(docs: Path) -> None:
    made = Watch([root(docs)], LibrarySettings(watch=False, rescan_minutes=0.0001))
    made.watcher.start()

    made.wait_until(lambda: made.num_rescans >= 2)
    made.wait_for_look(docs)

    assert not made.watcher.is_watched(root(docs))
    made.watcher.stop()


def test_a_name_that_is_not_utf8_is_found_by_looking_and_listening_goes_on(watch: Watch, docs: Path) -> None:
    watch.watcher.start()
    watch.link(docs)

    with open(os.fsencode(docs) + b"/caf\xe9.md", "wb") as stream:
        stream.write(b"x")
    watch.wait_for_look(docs)
    watch.wait_until(lambda: watch.watcher.is_watched(root(docs)))


def test_links_that_lead_back_are_told_by_a_files_own_name(watch: Watch, docs: Path) -> None:
    (docs / "sub" / "back").symlink_to(docs)
    watch.watcher.start()
    watch.link(docs)

    (docs / "sub" / "b.md").write_text("b")
    watch.wait_for_look(docs / "sub" / "b.md")

    assert watch.looked_at == {str(docs / "sub" / "b.md")}


class Fleeting:
    """A place whose listener ends by itself once it has been looked up."""

    is_recursive, retry_at = True, 0.0

    def __init__(self, listener: Deaf) -> None:
        self._listeners = [listener]

    @property
    def listener(self) -> Deaf | None:
        return self._listeners.pop() if self._listeners else None


@pytest.mark.parametrize("is_over", [False, True])
def test_a_listener_may_end_by_itself_while_it_is_ended(watch: Watch, docs: Path, is_over: bool) -> None:
    listener = Deaf(lambda reason: None)
    watch.watcher._places[str(docs)] = Fleeting(listener)  # type: ignore[assignment]
    watch.watcher._is_stopping = is_over
    if is_over:
        watch.watcher._run()
    else:
        watch.watcher._leave(str(docs))
    assert listener.num_stops == 1


class Deaf:
    """A listener that never hears: it ends at once, or says so later."""

    def __init__(self, turned: Callable[[str], None]) -> None:
        self.is_listening = False
        self.num_stops = 0
        self._thread = threading.Thread(target=turned, args=(LIMIT_REACHED,))
        self._thread.start()

    def stop(self) -> None:
        self.num_stops += 1
        self._thread.join()


def test_at_the_systems_limit_a_folder_is_looked_at_instead(docs: Path) -> None:
    asked: list[str] = []

    def listen(
        folder: str, is_recursive: bool, heard: Callable[[Collection[str]], None], turned: Callable[[str], None]
    ) -> Deaf:
        asked.append(folder)
        return Deaf(turned)

    made = Watch([root(docs)]).with_listener(listen)
    made.watcher.start()
    made.wait_for_look(docs)

    assert not made.watcher.is_watched(root(docs))
    made.watcher.stop()
    assert asked == [str(docs)]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError("error in underlying watcher: No space left on device (os error 28)"), LIMIT_REACHED),
        (RuntimeError('OS file watch limit reached. about ["/d"]'), LIMIT_REACHED),
        (RuntimeError("Error creating recommended watcher: Too many open files (os error 24)"), LIMIT_REACHED),
        (OSError("Permission denied"), NOT_WATCHABLE),
        (RuntimeError('Unable to decode path "/d/caf\\xE9" to string'), NOT_WATCHABLE),
    ],
)
def test_why_there_is_nothing_to_hear_is_a_sentence(error: Exception, sentence: str) -> None:
    assert reason_for(error) == sentence


def test_a_listener_that_cannot_begin_says_why(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "OS file watch limit reached.")

    told: list[str] = []
    monkeypatch.setattr(listening, "RustNotify", full)
    listener = listening.FolderListener(str(docs), True, lambda paths: None, told.append)
    listener._thread.join()  # `stop` could come before it began, and then there is nothing to tell

    assert (told, listener.is_listening) == ([LIMIT_REACHED], False)


class Panic(BaseException):
    """As Rust code panics."""


@pytest.mark.expects_warnings
@pytest.mark.parametrize("fault", [re.error("bad character range"), Panic()])
def test_a_listener_that_cannot_take_in_what_it_hears_says_so(
    docs: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    class Notify:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Notify:
            return self

        def __exit__(self, *_: object) -> None: ...
        def watch(self, *_: object) -> set[tuple[int, str]]:
            return {(1, str(docs / "a.md"))}

    def fail(_: object) -> None:
        raise fault

    told: list[str] = []
    monkeypatch.setattr(listening, "RustNotify", Notify)
    listener = listening.FolderListener(str(docs), True, fail, told.append)
    listener._thread.join()

    assert (told, listener.is_listening) == (["", NOT_WATCHABLE], False)


@pytest.mark.expects_warnings
def test_a_fault_of_ours_does_not_end_the_watching(docs: Path, watch: Watch) -> None:
    watch.watcher.start()
    watch.link(docs)
    roots, watch.roots = watch.roots, None  # type: ignore[assignment]
    watch.watcher.wake()

    watch.watcher.is_watched(root(docs))
    watch.roots = roots
    watch.watcher.wake()
    (docs / "b.md").write_text("b")

    watch.wait_for_look(docs / "b.md")


@dataclass
class Share:
    """A folder whose looks come back while `answers` is set."""

    folder: Path
    answers: threading.Event

    def look(self, path: str) -> Hashable:
        if path == str(self.folder):
            self.answers.wait()
        return identity_of(path)


@pytest.fixture
def share(watch: Watch, docs: Path) -> Share:
    """One that answers, linked beside another folder."""
    share = Share(docs.with_name("share"), threading.Event())
    share.folder.mkdir()
    share.answers.set()
    watch.watcher._root_looks = RootLooks(share.look, patience_seconds=0.1)
    watch.watcher.start()
    watch.link(docs, share.folder)
    return share


def test_a_share_that_does_not_answer_holds_up_no_other_folder(watch: Watch, docs: Path, share: Share) -> None:
    share.answers.clear()
    (docs / "new.md").write_text("heard all the same")
    watch.wait_for_look(docs / "new.md")
    watch.looks.clear()
    shutil.rmtree(share.folder)
    share.answers.set()
    watch.wait_for_look(share.folder)


def test_a_share_that_answers_again_is_looked_at_though_it_is_what_it_was(watch: Watch, share: Share) -> None:
    share.answers.clear()
    watch.watcher.wake()
    watch.wait_until(lambda: str(share.folder) in watch.watcher._root_looks.silent)
    watch.looks.clear()
    share.answers.set()
    watch.wait_for_look(share.folder)


@pytest.mark.parametrize("looks_before", [0, 1])
def test_a_share_that_hangs_when_a_change_is_looked_at_holds_up_nobody_who_asks(
    watch: Watch, docs: Path, monkeypatch: pytest.MonkeyPatch, looks_before: int
) -> None:
    """It hangs when the change is heard, or when it is about to be told."""
    begins, answers, num_looks = threading.Event(), threading.Event(), 0

    def look(path: str) -> State:
        nonlocal num_looks
        num_looks += 1
        if num_looks > looks_before:
            begins.set()
            assert answers.wait(HANG_SECONDS)
        return state_of(path)

    watch.watcher.start()
    watch.link(docs)
    monkeypatch.setattr(watcher, "state_of", look)
    (docs / "new.md").write_text("new")
    assert begins.wait(HANG_SECONDS)
    asked = threading.Event()

    def ask() -> None:
        assert watch.watcher.is_watched(root(docs))
        watch.watcher.wake()
        asked.set()

    threading.Thread(target=ask, daemon=True).start()
    was_answered = asked.wait(HANG_SECONDS / 4)
    answers.set()
    assert was_answered
    watch.wait_for_look(docs / "new.md")


def test_a_share_that_hangs_when_a_change_is_looked_at_holds_up_no_change_elsewhere(
    watch: Watch, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, begins, answers = docs.with_name("share"), threading.Event(), threading.Event()
    share.mkdir()

    def look(path: str) -> State:
        if path == str(share / "hangs.md") and threading.current_thread().name != "listener":
            begins.set()
            assert answers.wait(HANG_SECONDS)
        return state_of(path)

    monkeypatch.setattr(watcher, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(watcher, "state_of", look)
    watch.watcher.start()
    watch.link(docs, share)
    (share / "hangs.md").write_text("on a share")
    assert begins.wait(HANG_SECONDS)
    (docs / "new.md").write_text("new")
    watch.wait_for_look(docs / "new.md")
    answers.set()
    watch.wait_for_look(share / "hangs.md")


def test_one_place_serves_all_roots_below_it(docs: Path) -> None:
    file, other = docs / "sub" / "a.md", docs.with_name("b.md")
    other.write_text("b")
    roots = [root(docs), root(docs / "sub"), root(file), root(other)]
    identities = {one.path: identity_of(one.path) for one in roots}

    assert places_for(roots, identities) == {str(docs): True, str(docs.parent): False}
    assert places_for(roots, {**identities, str(docs): None}) == {str(docs / "sub"): True, str(docs.parent): False}


def test_a_change_concerns_the_roots_that_take_it_in(docs: Path) -> None:
    hidden = docs / ".hidden" / "a.md"

    assert place_of(str(docs / "x.md"), [root(docs)]) == (str(docs / "x.md"),)
    assert place_of(str(docs), [root(docs)]) == (str(docs),)
    assert place_of("/elsewhere/x.md", [root(docs)]) == ()
    assert place_of(str(hidden), [root(docs)]) == ()
    assert place_of(str(hidden), [root(docs), replace(root(hidden), is_folder=False)]) == (str(hidden),)


def test_folders_are_called_by_their_own_names(docs: Path) -> None:
    link, outside = docs.with_name("link"), docs.with_name("outside")
    link.symlink_to(docs)
    outside.mkdir()
    (docs / "out").symlink_to(outside)
    real = {str(link): str(docs)}

    assert own_name(str(docs / "sub"), {str(docs): str(docs)}) == str(docs / "sub")
    assert own_name(str(link / "sub"), real) == str(link / "sub")
    assert own_name(str(docs / "out"), {str(docs): str(docs)}) == str(docs / "out")
