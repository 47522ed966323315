"""Fixtures of the integration tests."""

import pytest

from tests.integration.command import Command


@pytest.fixture
def fediac(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
