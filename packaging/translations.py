"""Keeps the window's translations: collects every text of app/, brings the .ts files up to date, compiles the .qm.

    python packaging/translations.py                  new texts come in as unfinished, vanished ones leave
    python packaging/translations.py --take FILE      and takes translations from lines of `text<TAB>translation`,
                                                      or `context<TAB>text<TAB>translation` for one context alone
    python packaging/translations.py --check          changes nothing; fails where something would change or is missing

A text is collected under the name by which Qt looks it up: for `self.tr` that of the class it stands in (PySide asks
for each class that an object is of, so those that inherit it find it), for `widget.tr` that of the parameter's type,
for `translate` and functions that do no more than call it the context they name.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("resources/translations")
LANGUAGES = ("zh_CN",)

# Text and context; a translation of "" is yet to be written.
Key = tuple[str, str]
Translations = dict[Key, str]


@dataclass
class Collected:
    """The texts of modules by context, and where one could not be read."""

    texts: set[Key] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


# --- collecting ----------------------------------------------------------------------------------


def collect(package: Path) -> Collected:
    """All texts of a package's modules."""
    found = Collected()
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))}
    marked = {path.stem: _marked_contexts(module) for path, module in modules.items()}
    for path, module in modules.items():
        looked_up = marked[path.stem].union(*(marked.get(name, set()) for name in _imported(module)))
        _Collector(path.relative_to(package.parent).as_posix(), module, looked_up, found).visit(module)
    return found


class _Collector(ast.NodeVisitor):
    """Walks through one module; knows in which class and in which functions it is."""

    def __init__(self, file: str, module: ast.Module, looked_up: set[str], found: Collected) -> None:
        self._file, self._found = file, found
        # Contexts whose texts are marked in tables, so that what is translated need not be written where it is.
        self._looked_up = looked_up
        self._translators = dict(_translators(module))
        self._classes: list[str] = []
        self._functions: list[ast.FunctionDef] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._classes.append(node.name)
        self.generic_visit(node)
        self._classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in self._translators and not self._classes:
            return
        self._functions.append(node)
        self.generic_visit(node)
        self._functions.pop()

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr == "tr":
            self._take(node, self._class_of(called.value), node.args[0])
        elif isinstance(called, ast.Name) and called.id in self._translators:
            self._take(node, self._translators[called.id], node.args[0], may_be_looked_up=True)
        elif isinstance(called, ast.Name) and called.id == "QT_TRANSLATE_NOOP":
            self._take(node, _literal(node.args[0]), node.args[1])
        elif _is_translate(called):
            self._take(node, _literal(node.args[0]), node.args[1], may_be_looked_up=True)
        self.generic_visit(node)

    def _take(self, node: ast.Call, context: str, text: ast.expr, *, may_be_looked_up: bool = False) -> None:
        texts = _literals(text)
        if context and all(texts):
            self._found.texts |= {(context, literal) for literal in texts}
        elif not (may_be_looked_up and context in self._looked_up and _is_looked_up(text)):
            what = "no class or context is known of" if not context else "this is no literal:"
            self._found.problems.append(f"{self._file}:{node.lineno}: {what} {ast.unparse(text)}")

    def _class_of(self, receiver: ast.expr) -> str:
        """The class that `tr` is called on: that around it, or the type of a parameter; "" where that is not told."""
        if not isinstance(receiver, ast.Name):
            return ""
        if receiver.id == "self" and self._classes:
            return self._classes[-1]
        for function in reversed(self._functions):
            for argument in (*function.args.args, *function.args.kwonlyargs):
                if argument.arg == receiver.id and argument.annotation is not None:
                    return ast.unparse(argument.annotation).rpartition(".")[2]
        return ""


def _translators(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Functions that only translate what they are given, with their contexts."""
    for node in module.body:
        match node:
            case ast.FunctionDef(
                name=name,
                args=ast.arguments(args=[ast.arg(arg=given)]),
                body=[ast.Return(value=ast.Call(func=called, args=[context, ast.Name(id=passed)]))],
            ) if _is_translate(called) and given == passed:
                yield name, _literal(context)


def _is_translate(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and ast.unparse(called) == "QCoreApplication.translate"


def _marked_contexts(module: ast.Module) -> set[str]:
    return {
        _literal(node.args[0])
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "QT_TRANSLATE_NOOP"
    }


def _imported(module: ast.Module) -> Iterator[str]:
    """The last names of modules that this one imports."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module).rpartition(".")[2]
            yield from (alias.name for alias in node.names)


def _literals(text: ast.expr) -> list[str]:
    """All that a text can be, "" for what is no literal."""
    if isinstance(text, ast.IfExp):
        return [*_literals(text.body), *_literals(text.orelse)]
    return [_literal(text)]


def _literal(text: ast.expr) -> str:
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def _is_looked_up(text: ast.expr) -> bool:
    """Whether a text comes out of a table or a variable, and is not put together here."""
    if isinstance(text, ast.Call) and ast.unparse(text.func) == "str":
        return _is_looked_up(text.args[0])
    return isinstance(text, ast.Name | ast.Attribute | ast.Subscript)


# --- the files -----------------------------------------------------------------------------------


def read(file: Path) -> Translations:
    """What a .ts file has; nothing where there is none."""
    if not file.exists():
        return {}
    return {
        (str(context.findtext("name")), str(message.findtext("source"))): message.findtext("translation") or ""
        for context in ET.parse(file).getroot().iter("context")
        for message in context.iter("message")
    }


def written(language: str, translations: Mapping[Key, str]) -> str:
    """A .ts file, sorted, and without the lines of the code, so that a change shows what has changed."""
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        "<!DOCTYPE TS>",
        f'<TS version="2.1" language="{language}" sourcelanguage="en">',
    ]
    for context in sorted({context for context, _ in translations}):
        lines += ["<context>", f"    <name>{escape(context)}</name>"]
        for text in sorted(text for name, text in translations if name == context):
            translation = translations[context, text]
            state = "" if translation else ' type="unfinished"'
            lines += [
                "    <message>",
                f"        <source>{escape(text)}</source>",
                f"        <translation{state}>{escape(translation)}</translation>",
                "    </message>",
            ]
        lines.append("</context>")
    return "\n".join([*lines, "</TS>", ""])


def brought_up_to_date(texts: set[Key], known: Mapping[Key, str], taken: Mapping[Key, str]) -> Translations:
    """Each text with its translation: what is `taken` for its context or for any, what was `known`, or "".

    A text that has moved to another context keeps its translation, if all contexts agreed on one.
    """
    by_text: dict[str, set[str]] = {}
    for (_, text), translation in known.items():
        by_text.setdefault(text, set()).add(translation)

    def of(key: Key) -> str:
        text = key[1]
        agreed = by_text.get(text, set())
        elsewhere = next(iter(agreed)) if len(agreed) == 1 else ""
        return taken.get(key) or taken.get(("", text)) or known.get(key) or elsewhere

    return {key: of(key) for key in sorted(texts)}


def taken_from(file: Path) -> Translations:
    """Translations from lines with tabs in them; the context is "" where all are meant."""
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if "\t" in line]
    return {("" if len(line) == 2 else line[0], line[-2]): line[-1] for line in lines}


def compiled(file: Path) -> bytes:
    """What Qt reads at run time, made of a .ts file.

    Raises:
        SystemExit: Qt's compiler refuses the file.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.qm"
        command = [str(Path(sys.executable).parent / "pyside6-lrelease"), "-silent", str(file), "-qm", str(made)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(f"{file} cannot be compiled: {ended.stderr}")
        return made.read_bytes()


# --- the program ---------------------------------------------------------------------------------


def unfinished(translations: Mapping[Key, str]) -> list[str]:
    return [f"{context}: {text}" for (context, text), translation in translations.items() if not translation]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, metavar="FILE", help="translations to take in")
    parser.add_argument("--check", action="store_true", help="change nothing")
    chosen = parser.parse_args(arguments)
    found = collect(root / "app")
    if found.problems:
        print("These texts cannot be collected:", *found.problems, sep="\n  ", file=sys.stderr)
        return 1
    taken = taken_from(chosen.take) if chosen.take else {}
    is_well = all(_bring_up_to_date(root, language, found.texts, taken, chosen.check) for language in LANGUAGES)
    return 0 if is_well else 1


def _bring_up_to_date(root: Path, language: str, texts: set[Key], taken: Translations, is_check: bool) -> bool:
    """Writes both files of a language; whether nothing of it is missing, or would have to be written."""
    file = root / FOLDER / f"ragdoll_{language}.ts"
    translations = brought_up_to_date(texts, read(file), taken)
    text = written(language, translations)
    if is_check and not (file.exists() and file.read_text(encoding="utf-8") == text):
        print(f"{file} is old; run {Path(__file__).name}.", file=sys.stderr)
        return False
    if not is_check:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.with_suffix(".qm").write_bytes(compiled(file))
    missing = unfinished(translations)
    if missing:
        print(f"{language}: {len(missing)} of {len(texts)} texts are not translated:", *missing, sep="\n  ")
    return not missing


if __name__ == "__main__":
    raise SystemExit(main())
