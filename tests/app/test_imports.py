"""Tests for the wall between the processes: the window's never holds what belongs to the engine's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "llama_cpp", "lancedb", "sentence_transformers", "transformers", "pyarrow", "pypdfium2"}
LIGHT_ENGINE = {"engine", "engine.protocol", "engine.wire", "engine.core", "engine.errors"}

IMPORT_ALL = """
import importlib, json, pkgutil, sys
import app
for module in pkgutil.walk_packages(app.__path__, "app."):
    if module.name != "app.__main__":
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""

RUN = """
import json, sys
from pathlib import Path
from PySide6.QtCore import QTimer
from app import main
from app.settings import AppHome
from app.single_instance import SingleInstance

application = main.make_application(["test"])
home = AppHome.find()
home.create()
instance = SingleInstance(home.lock_file, home.socket_file)
assert instance.claim()
session = main.Session(home, instance, (), (sys.executable, sys.argv[1]))
before_paint = []
session._first_paint.painted.disconnect(session._on_painted)
session._first_paint.painted.connect(lambda: before_paint.extend(sys.modules))
session._first_paint.painted.connect(session._on_painted)
session.show()

def look():
    if session.models is None or session.models.client.state != "ready":
        QTimer.singleShot(20, look)
        return
    for place in ("library", "memory", "models", "settings", "chats"):
        session.window.go_to(place)
    session.models.conversation.ask("What notice applies?")
    QTimer.singleShot(300, application.quit)

look()
application.exec()
print(json.dumps([before_paint, sorted(sys.modules)]))
session.close()
"""


def modules_after(script: str, *arguments: str) -> list:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def is_light(name: str) -> bool:
    return name in LIGHT_ENGINE or name.startswith("engine.protocol.")


def strangers(modules: list[str]) -> set[str]:
    heavy = {name for name in modules if name.split(".")[0] in HEAVY}
    engine = {name for name in modules if name.split(".")[0] == "engine" and not is_light(name)}
    return heavy | engine


def test_no_module_of_the_window_imports_what_belongs_to_the_engine():
    assert strangers(modules_after(IMPORT_ALL)) == set()


def test_a_window_in_use_has_not_imported_it_either_and_paints_before_the_protocol_is_there():
    scripted = ROOT / "tests" / "helpers" / "scripted_engine.py"
    before_paint, at_the_end = modules_after(RUN, str(scripted))
    assert strangers(at_the_end) == set()
    assert "engine.protocol" in at_the_end
    late = {"engine.protocol", "engine.wire", "pydantic", "sqlite3", "numpy", "tomlkit"}
    assert late & set(before_paint) == set()
