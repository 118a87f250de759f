"""The model in the wheel of wordllama: loaded without a network, once, and averaged as the package does it."""

import hashlib
import itertools
import logging
import os
import re
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.errors import EmbeddingFailed, TaciturnError
from taciturn.features import embed_wordllama
from taciturn.features.embed import embedder

pytest.importorskip("wordllama")

TEXTS = ["How do I reset my PIN?", "I forgot my passcode", "The exchange rate is wrong", "", "日本語 🦙"]
CUT_OFF = """
import hashlib, logging, socket, sys
def refuse(*_): sys.exit("a connection was tried")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from taciturn.features.embed import embedder
before = logging.getLogger().level, list(logging.getLogger().handlers)
embeds = embedder("wordllama")
assert "wordllama" not in sys.modules
print(hashlib.sha256(embeds.embed({texts!r}).tobytes()).hexdigest())
assert before == (logging.getLogger().level, logging.getLogger().handlers)
"""


@pytest.fixture(scope="module")
def package():
    """The package's own way to embed."""
    import wordllama

    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


def test_it_works_without_a_network_and_without_a_home_and_gives_the_same_bytes_in_every_process():
    nowhere = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}  # where not even root can write
    command = [sys.executable, "-c", CUT_OFF.format(texts=TEXTS)]
    ran = subprocess.run(command, env=os.environ | nowhere, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.strip() == hashlib.sha256(embedder("wordllama").embed(TEXTS).tobytes()).hexdigest()


def test_the_embeddings_are_those_of_the_package(package):
    texts = [*TEXTS, "word " * 10_000]
    ours, theirs = embedder("wordllama").embed(texts), package.embed(texts)
    lengths = np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(ours, theirs / np.maximum(lengths, 1e-30), atol=1e-5)
    assert ours.shape == (6, 256)
    assert not ours[3].any()


def test_the_code_of_embeddings_md_prints_what_it_says_that_like_texts_are_nearer(capsys):
    page = (Path(__file__).parents[2] / "docs" / "embeddings.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "embeddings.md", "exec"), {"__name__": "page"})  # noqa: S102 - our own documentation
    assert f"prints `{capsys.readouterr().out.strip()}`" in page


@settings(max_examples=30)
@given(st.lists(st.text(), min_size=1, max_size=5))
def test_a_text_has_the_same_bytes_alone_and_among_others(texts):
    together = embedder("wordllama", cache_size=0).embed(texts)
    for text, row in zip(texts, together, strict=True):
        assert embedder("wordllama", cache_size=0).embed([text]).tobytes() == row.tobytes()


def test_a_long_text_among_others_takes_little_memory():
    """Padded to the longest, these would take 1.3 GB."""
    texts = ["word " * 20_000, *map(str, range(63))]
    embeds = embedder("wordllama")
    embeds.embed(["loaded before"])
    tracemalloc.start()
    try:
        embeds.embed(texts)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


@pytest.fixture
def unloaded():
    """A process that has not loaded the model, before and after."""
    embed_wordllama.loaded_model.cache_clear()
    yield
    embed_wordllama.loaded_model.cache_clear()


@pytest.mark.usefixtures("unloaded")
def test_threads_load_it_once(monkeypatch):
    loads, start, load = [], threading.Barrier(4), embed_wordllama.load_model
    monkeypatch.setattr(embed_wordllama, "load_model", lambda clock: loads.append(clock) or load(clock))

    def work():
        start.wait()
        embedder("wordllama").embed(["hello"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1


@pytest.mark.parametrize(("seconds", "lines"), [(1.9, []), (2.6, ["the embedder wordllama took 2.6 s to load"])])
def test_a_line_is_logged_where_loading_takes_long(seconds, lines, caplog):
    ticks = itertools.count(0, seconds)
    with caplog.at_level(logging.INFO):
        embed_wordllama.load_model(lambda: next(ticks))
    assert [record.message.partition(",")[0] for record in caplog.records] == lines


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(embed_wordllama.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TaciturnError, match=r"^the embedder wordllama is not installed; pip install '.\[text\]'"):
        embedder("wordllama")


@pytest.mark.usefixtures("unloaded")
def test_a_package_without_its_files_is_one_line(monkeypatch, tmp_path):
    import wordllama

    monkeypatch.setattr(wordllama, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(EmbeddingFailed, match="^the embedder wordllama cannot be loaded: Tokenizer file .* disabled"):
        embedder("wordllama").embed(["hello"])
