"""Tests for the wheel once installed: in an environment without the checkout it opens the window, with its icons.

Nothing is downloaded: the environment sees the packages of the one that runs the tests, but not the checkout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

PATIENCE_S = 120

# Opens the window as `ragdoll-gui` does, and tells from inside what it looks like and where it came from.
LOOK = """
import json, sys
from pathlib import Path
import app, engine, resources
from app.first_paint import FirstPaint
from app.main import Session, make_application
from app.settings import AppHome
from app.single_instance import SingleInstance
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton

application = make_application(["ragdoll-gui"])
home = AppHome.find()
home.create()
instance = SingleInstance(home.lock_file, home.socket_file)
assert instance.claim()
session = Session(home, instance, (), engine_command=[sys.executable, "-c", "input()"])
seen = {}

def look():
    picture = session.window.grab().toImage()
    colours = {picture.pixel(x, y) for x in range(0, picture.width(), 3) for y in range(0, picture.height(), 3)}
    icons = [b.icon() for b in session.window.findChildren(QAbstractButton) if not b.icon().isNull()]
    seen.update(
        files=[package.__file__ for package in (app, engine, resources)],
        colours=len(colours),
        icons=len(icons),
        painted_icons=sum(opaque(icon) for icon in icons),
        desktop=QGuiApplication.desktopFileName(),
        window_icon=not application.windowIcon().isNull() or not session.window.windowIcon().isNull(),
        styled=bool(application.styleSheet() or session.window.styleSheet()),
    )
    session.window.close()
    application.quit()

def opaque(icon):
    image = icon.pixmap(20, 20).toImage()
    return any(image.pixelColor(x, y).alpha() for x in range(image.width()) for y in range(image.height()))

FirstPaint(session.window).painted.connect(look)
session.show()
application.exec()
session.close()
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def environment(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel installed; returns its `bin`."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    venv.create(folder / "env", with_pip=False, symlinks=True)
    scripts = folder / "env" / "bin"
    # A path file makes packages visible without reading the path files among them, such as the checkout's own.
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "env")}))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install", "--no-deps", "--no-index"]
    # "--ignore-installed": an editable install among the borrowed packages is not ours to remove.
    subprocess.run([*pip, "--quiet", "--ignore-installed", wheel], check=True, capture_output=True, cwd=folder)
    return scripts


def start(environment: Path, home: Path, *command: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.Popen(
        command,
        cwd=environment.parent,
        env={**clean, "RAGDOLL_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", "RAGDOLL_TRACE_STARTUP": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_window_shows_its_icons_and_theme(environment: Path, root: Path, ragdoll_home: Path) -> None:
    with start(environment, ragdoll_home, str(environment / "python"), "-c", LOOK) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    seen = json.loads(out.splitlines()[-1])

    assert all(Path(file).is_relative_to(environment.parent) for file in seen["files"])
    assert seen["styled"]
    assert seen["window_icon"]
    # The name under which the desktop looks for our entry, in packaging/linux.
    assert (root / "packaging" / "linux" / f"{seen['desktop']}.desktop").is_file()
    assert seen["icons"] >= 5
    assert seen["painted_icons"] == seen["icons"]
    assert seen["colours"] > 16


def test_its_program_opens_and_ends_when_it_is_told_to(environment: Path, ragdoll_home: Path) -> None:
    with start(environment, ragdoll_home, str(environment / "ragdoll-gui")) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line.partition("=")[0])
            if said[-1] == "attached_s":
                process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE_S)

    assert said[:2] == ["first_paint_s", "attached_s"], said
    assert code == 0


def test_its_command_line_starts(environment: Path, ragdoll_home: Path) -> None:
    with start(environment, ragdoll_home, str(environment / "ragdoll"), "status", "--json") as process:
        out, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0, err
    assert json.loads(out)["chunks"] == 0
