"""What tests of the open chat share."""

from __future__ import annotations

import pytest

from tests.helpers.chat_desk import Desk


@pytest.fixture
def desk(client, store) -> Desk:
    return Desk(client, store)
