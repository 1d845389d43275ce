"""Tests for packaging/linux: a desktop that reads our entry and description finds them whole and in agreement."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine import __version__

ID = "io.github.ragdoll_desktop.Ragdoll"
# freedesktop.org's menu specification; a program in two of them shows up twice.
MAIN_CATEGORIES = {
    "AudioVideo", "Audio", "Video", "Development", "Education", "Game", "Graphics",
    "Network", "Office", "Science", "Settings", "System", "Utility",
}  # fmt: skip


@pytest.fixture
def linux(root: Path) -> Path:
    return root / "packaging" / "linux"


@pytest.fixture
def entry(linux: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(linux / f"{ID}.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


@pytest.fixture
def component(linux: Path) -> ElementTree.Element:
    return ElementTree.parse(linux / f"{ID}.metainfo.xml").getroot()


def test_the_entry_starts_a_script_that_the_wheel_installs(entry: configparser.SectionProxy, root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert entry["Type"] == "Application"
    assert entry["Exec"].split()[0] in project["gui-scripts"]


def test_the_entry_has_one_main_category(entry: configparser.SectionProxy) -> None:
    categories = [category for category in entry["Categories"].split(";") if category]

    assert len(MAIN_CATEGORIES.intersection(categories)) == 1
    assert entry["Version"] == "1.4"


def test_entry_icon_and_description_bear_one_name(
    entry: configparser.SectionProxy, component: ElementTree.Element
) -> None:
    assert entry["Icon"] == ID
    assert component.findtext("icon") == ID
    assert component.findtext("id") == ID
    assert component.findtext("launchable") == f"{ID}.desktop"
    assert entry["Name"] == component.findtext("name")
    assert entry["Comment"] == component.findtext("summary")


def test_the_description_tells_this_version_and_licence(component: ElementTree.Element, root: Path) -> None:
    releases = [release.get("version") for release in component.iter("release")]

    assert releases[0] == __version__
    assert f"## [{__version__}]" in (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert component.findtext("project_license") == "Apache-2.0"


def test_the_icon_is_a_picture(root: Path) -> None:
    picture = ElementTree.parse(root / "resources" / "icons" / "ragdoll.svg").getroot()

    assert picture.tag.endswith("svg")
    assert picture.get("viewBox")


@pytest.mark.skipif(shutil.which("desktop-file-validate") is None, reason="desktop-file-utils is not installed")
def test_freedesktops_validator_accepts_the_entry(linux: Path) -> None:
    done = subprocess.run(
        ["desktop-file-validate", str(linux / f"{ID}.desktop")], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("appstreamcli") is None, reason="appstream is not installed")
def test_appstreams_validator_accepts_the_description(linux: Path) -> None:
    done = subprocess.run(
        ["appstreamcli", "validate", "--no-net", str(linux / f"{ID}.metainfo.xml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_the_menu_entry_points_at_this_checkout_and_goes_again(root: Path, tmp_path: Path) -> None:
    checkout, share = tmp_path / 'my "$files"', tmp_path / "share"
    shutil.copytree(root / "packaging" / "linux", checkout / "packaging" / "linux")
    shutil.copytree(root / "resources" / "icons", checkout / "resources" / "icons")
    program = checkout / ".venv" / "bin" / "ragdoll-gui"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    install = [str(checkout / "packaging" / "linux" / "install")]
    environment = {"XDG_DATA_HOME": str(share), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    subprocess.run(install, env=environment, check=True, capture_output=True)
    entry = (share / "applications" / f"{ID}.desktop").read_text(encoding="utf-8")
    installed = {file.name for file in share.rglob("*") if file.is_file()}
    subprocess.run([*install, "--remove"], env=environment, check=True, capture_output=True)

    escaped = str(program).replace('"', '\\\\"').replace("$", "\\\\$")
    assert f'Exec="{escaped}" %F\n' in entry
    assert installed == {f"{ID}.desktop", f"{ID}.svg", f"{ID}.metainfo.xml"}
    assert not [file for file in share.rglob("*") if file.is_file()]
