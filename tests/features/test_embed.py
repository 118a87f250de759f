"""Embedders: what they return, refuse, hold and are called."""

import copy
import functools
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import embed_kit
from embed_kit import Recorder, letter_counts
from taciturn.errors import EmbeddingFailed, InvalidContext, TaciturnError, UnknownName
from taciturn.features.embed import embedder, unit_rows

PATH = "embed_kit:letter_counts"
WORDS = st.sampled_from(["", "a", "b", "ab", "aab", "abc", "ä", "zz top"])


def expected(texts):
    """The same rows, one at a time."""
    rows = []
    for row in letter_counts(texts):
        length = np.linalg.norm(row)
        rows.append(row / length if length else row)
    return np.array(rows).reshape(len(texts), 26)


class LeastRecentlyUsed:
    """The texts that a cache of this size holds, the oldest first."""

    def __init__(self, size):
        self.size, self.texts = size, []

    def use(self, texts):
        """Look up all, then add those that are not here in order of their first appearance; return these."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.texts]
        for text in texts:
            if text in self.texts:
                self.texts.remove(text)
                self.texts.append(text)
        self.texts = (self.texts + missing)[-self.size :] if self.size else []
        return missing


@given(st.lists(st.lists(WORDS, max_size=6), max_size=8), st.integers(0, 5))
def test_any_requests_are_answered_with_one_call_each_for_the_texts_that_are_not_held(requests, size):
    function, held = Recorder(), LeastRecentlyUsed(size)
    embeds = embedder(function, cache_size=size)
    for texts in requests:
        before = len(function.calls)
        np.testing.assert_allclose(
            embeds.embed(texts), expected(texts) if embeds.dimension else np.zeros((0, 0)), atol=1e-7
        )
        missing = held.use(texts)
        assert function.calls[before:] == ([missing] if missing else [])


@given(st_numpy.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 40)), elements=st.floats(-1e308, 1e308)))
def test_rows_have_unit_length_whatever_their_scale_and_zeros_stay(rows):
    result = embedder(lambda _: rows).embed([str(i) for i in range(len(rows))])
    assert result.dtype == np.float32
    lengths = np.linalg.norm(result.astype(float), axis=1)
    np.testing.assert_allclose(lengths, np.abs(rows).max(axis=1) > 0, atol=1e-6)
    assert (np.sign(result) * np.sign(rows) >= 0).all()


@given(st_numpy.arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(1, 300)), elements=st.floats(-9, 9)))
def test_a_row_has_the_same_bytes_alone_and_among_others(rows):
    together = unit_rows(rows)
    for row, alone in zip(rows, together, strict=True):
        assert unit_rows(row[None]).tobytes() == alone.tobytes()


@pytest.mark.parametrize(
    "result",
    [
        [[3, 4], [0, 0]],
        np.array([[3, 4], [0, 0]], np.float16),
        np.array([[3, 4], [0, 0]], np.uint8),
        ([3.0, 4], [0, 0]),
    ],
    ids=["lists", "float16", "uint8", "tuple"],
)
def test_whatever_numpy_takes_as_a_matrix_of_numbers_is_taken(result):
    np.testing.assert_allclose(embedder(lambda _: result).embed(["x", "y"]), [[0.6, 0.8], [0, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([[1.0, 2.0]], "shape (1, 2); an array of 2 rows of numbers is needed, one for each text"),
        ([1.0, 2.0], "shape (2,)"),
        ([[], []], "shape (2, 0)"),
        (np.ones((2, 2, 2)), "shape (2, 2, 2)"),
        ([["a", "b"], ["c", "d"]], "array of <U1 of shape (2, 2)"),
        (None, "array of object of shape ()"),
        ([[1.0], [1.0, 2.0]], "returned a list that is no array"),
        ([[1.0, np.nan], [1.0, 2.0]], "returned NaN or infinity; finite numbers are needed"),
        ([[1.0, np.inf], [1.0, 2.0]], "returned NaN or infinity"),
        ([[1j, 1], [1, 2]], "array of complex128"),
    ],
    ids=str,
)
def test_a_wrong_result_is_one_line_that_names_the_embedder_and_nothing_is_held(monkeypatch, result, says):
    function = embed_kit.letter_counts
    embeds = embedder(function)
    monkeypatch.setattr(embeds, "_function", lambda _: result)
    with pytest.raises(EmbeddingFailed) as failed:
        embeds.embed(["x", "y"])
    assert str(failed.value).startswith(f"the embedder {PATH} returned ")
    assert says in str(failed.value)
    assert "\n" not in str(failed.value)
    monkeypatch.setattr(embeds, "_function", function)
    assert embeds.embed(["x", "y"]).shape == (2, 26)


def test_the_length_of_vectors_never_changes():
    lengths = iter([3, 4, 3])
    embeds = embedder(lambda texts: np.ones((len(texts), next(lengths))))
    embeds.embed(["a"])
    with pytest.raises(EmbeddingFailed, match="returned 4 numbers for a text, and 3 for those before$"):
        embeds.embed(["b"])
    assert embeds.embed(["a", "b"]).shape == (2, 3)
    assert embeds.embed([]).shape == (0, 3)
    assert embeds.dimension == 3


def test_an_embedder_that_raises_is_named_and_its_error_is_the_cause():
    def broken(_):
        raise RuntimeError("out\nof memory")

    with pytest.raises(EmbeddingFailed, match=r"broken.* raised RuntimeError: 'out\\nof memory'$") as failed:
        embedder(broken).embed(["a"])
    assert isinstance(failed.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ("one text", "one text was given where a list of texts is needed"),
        (["a", 5], "text 1 is 5; a string is needed"),
        ([b"a"], "text 0 is b'a'; a string is needed"),
        (["a", "\ud800"], r"a text has half a character, '\\ud800'; remove it"),
    ],
)
def test_what_is_no_text_is_refused_before_any_call(texts, says):
    function = Recorder()
    with pytest.raises(InvalidContext, match=f"^{says}$"):
        embedder(function).embed(texts)
    assert function.calls == []


def test_what_is_returned_can_be_changed_without_changing_what_is_held():
    embeds = embedder(letter_counts)
    for _ in range(2):
        rows = embeds.embed(["ab", "ab", "c"])
        np.testing.assert_allclose(rows, expected(["ab", "ab", "c"]), rtol=1e-6)
        rows[:] = 7


def test_threads_share_an_embedder():
    embeds, start, wrong = embedder(letter_counts, cache_size=3), threading.Barrier(4), []

    def work(seed):
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(200):
            texts = ["".join(rng.choice(list("abcd"), 3)) for _ in range(3)]
            if not np.allclose(embeds.embed(texts), expected(texts), atol=1e-6):
                wrong.append(texts)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert embeds.nbytes == 3 * embedder_of_one().nbytes


def embedder_of_one():
    embeds = embedder(letter_counts)
    embeds.embed(["a"])
    return embeds


def test_nbytes_is_what_the_embeddings_take():
    embeds = embedder(lambda texts: np.ones((len(texts), 256), np.float32), cache_size=300)
    assert embeds.nbytes == 0
    tracemalloc.start()
    try:
        for start in range(0, 5000, 1000):
            embeds.embed([str(i) for i in range(start, start + 1000)])
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert embeds.nbytes == pytest.approx(taken, rel=0.1)


def test_copies_of_an_agent_share_the_embedder():
    embeds = embedder(letter_counts)
    assert copy.deepcopy({"features": embeds})["features"] is embeds


class Letters:
    def bound(self, texts):
        return letter_counts(texts)

    def __call__(self, texts):
        return letter_counts(texts)


def test_an_importable_function_has_a_name_by_which_it_is_imported_again():
    embeds = embedder(letter_counts)
    assert embeds.name == PATH
    again = embedder(embeds.name, allow_import=True)
    assert again.name == PATH
    assert again.embed(["abba"]).tobytes() == embeds.embed(["abba"]).tobytes()


@pytest.mark.parametrize(
    "function",
    [lambda texts: letter_counts(texts) + 1, Letters(), Letters().bound, functools.partial(letter_counts), Recorder()],
    ids=["lambda", "object", "bound method", "partial", "recorder"],
)
def test_a_function_that_cannot_be_imported_has_no_name(function):
    embeds = embedder(function)
    assert embeds.name is None
    assert embeds.embed(["ab"]).shape == (1, 26)


def test_a_function_of_a_script_or_hidden_by_another_has_no_name(monkeypatch):
    code = "from taciturn.features.embed import embedder\ndef f(texts): ...\nprint(embedder(f).name)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "None\n"
    monkeypatch.setattr(embed_kit, "letter_counts", Recorder())
    assert embedder(letter_counts).name is None


def test_code_is_imported_only_where_that_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "strange.py").write_text("raise SystemExit('the code of a stranger ran')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TaciturnError, match="'strange:embed' is code that would be imported; if you trust"):
        embedder("strange:embed")
    with pytest.raises(SystemExit):
        embedder("strange:embed", allow_import=True)


@pytest.mark.parametrize(
    ("embed", "kind", "says"),
    [
        (
            "wordlama",
            UnknownName,
            "no embedder 'wordlama'; wordllama, openai:<model> or package.module:function is one",
        ),
        ("no_such_module:f", UnknownName, "no embedder at 'no_such_module:f' \\(No module named 'no_such_module'\\)"),
        ("embed_kit:no_such_name", UnknownName, "no embedder at 'embed_kit:no_such_name'"),
        ("embed_kit:", UnknownName, "no embedder at 'embed_kit:'"),
        (":letter_counts", UnknownName, "no embedder at ':letter_counts'"),
        ("embed_kit:NOT_A_FUNCTION", UnknownName, "'embed_kit:NOT_A_FUNCTION' is a int; a function is needed"),
        (5, TaciturnError, "embed=5 is not allowed; a function of a list of texts or a name is"),
    ],
)
def test_what_is_no_embedder_is_refused(embed, kind, says):
    with pytest.raises(kind, match=says):
        embedder(embed, allow_import=True)


@pytest.mark.parametrize("size", [-1, 2.5, True, "many"])
def test_the_size_of_the_cache_is_a_whole_number(size):
    with pytest.raises(TaciturnError, match="cache_size="):
        embedder(letter_counts, cache_size=size)


def test_repr_says_which_embedder_it_is_and_what_it_holds():
    embeds = embedder_of_one()
    assert repr(embeds) == f"<Embedder {PATH}: 1 texts, {embeds.nbytes} bytes>"
