"""Tests for app.chats.errors: what is told of the disk can be told in every language of the window."""

from __future__ import annotations

import pkgutil
import xml.etree.ElementTree as ET
from dataclasses import astuple
from importlib import import_module

import pytest

import resources
from app import chats
from app.chats.errors import Words


@pytest.mark.parametrize("language", ["zh_CN"])
def test_whatever_the_disk_refuses_is_told_in_the_language_of_the_window(language: str) -> None:
    modules = [import_module(f"app.chats.{module.name}") for module in pkgutil.iter_modules(chats.__path__)]
    told = {
        text
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, Words)
        for text in astuple(kind)
    }
    contexts = ET.parse(resources.path(f"translations/ragdoll_{language}.ts")).getroot().iter("context")
    (known,) = (context for context in contexts if context.findtext("name") == "chats")
    translated = {one.findtext("source") for one in known.iter("message") if one.findtext("translation")}
    assert told
    assert told - translated == set()
