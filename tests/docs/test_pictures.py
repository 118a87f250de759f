"""The build takes the pictures of the service's page, or says why it shows those that are stored."""

import os

import pytest
from PIL import Image

from docs_kit import HOME
from docsite import pictures


def test_pictures_are_taken_of_a_service_at_work(tmp_path, monkeypatch):
    if pictures.browser() is None:
        reason = pictures.take(tmp_path)
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    monkeypatch.setattr(pictures, "AGENTS", {name: (kind, 20) for name, (kind, _) in pictures.AGENTS.items()})
    assert pictures.take(tmp_path) == "pictures: 4 taken of the service's page"
    for shot in pictures.SHOTS:
        with Image.open(tmp_path / shot.name) as picture, Image.open(HOME / "docs" / shot.name) as stored:
            assert picture.width == stored.width == shot.width
            corner = picture.convert("L").getpixel((2, 2))
        assert (corner < 60) == shot.dark
        assert (tmp_path / shot.name).stat().st_size < 200_000


def test_without_a_browser_the_stored_pictures_stay_and_a_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no chromium" in pictures.take(tmp_path)
    assert list(tmp_path.iterdir()) == []
