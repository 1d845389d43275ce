"""Tests for app.widgets.hero."""

from __future__ import annotations

from app.widgets.hero import Hero


def test_at_large_text_its_words_go_on_in_the_next_line(qtbot, large_text):
    hero = Hero()
    qtbot.addWidget(hero)
    hero.show_sentence("Answers come from 55 files in 2 collections.")
    assert hero.minimumSizeHint().width() <= 360
    hero.resize(360, 400)
    hero.show()
    assert hero._title.height() >= 2 * hero._title.fontMetrics().lineSpacing()
