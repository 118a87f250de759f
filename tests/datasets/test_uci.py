"""The data sets of UCI: archives in the documented format, written here, and downloaded from a server on loopback."""

import hashlib
import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import taciturn
from download_kit import send
from taciturn.datasets import catalog
from taciturn.datasets.uci import UCI
from taciturn.errors import DataUnavailable, InvalidData


def zipped(members):
    """Return the bytes of an archive with these files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def numbers(n, separator, label):
    return separator.join([*map(str, range(n)), label]) + "\n"


ADULT = """39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, \
United-States, <=50K
52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, White, Male, 0, 0, 45, ?, >50K

"""
ADULT_TEST = """|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, United-States, <=50K.
44, Private, 160323, Some-college, 10, Married-civ-spouse, Craft-repair, Husband, Black, Male, 7688, 0, 40, \
United-States, >50K.
"""
BANK = """"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";"month";"duration";\
"campaign";"pdays";"previous";"poutcome";"y"
58;"management";"married";"tertiary";"no";2143;"yes";"no";"unknown";5;"may";261;1;-1;0;"unknown";"no"
44;"technician";"single";"secondary";"no";-29;"yes";"no";"unknown";5;"may";151;1;-1;0;"unknown";"yes"
"""

ARCHIVES = {
    "letter": zipped(
        {
            "letter-recognition.data.Z": "compressed",
            "letter-recognition.data": "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nI,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,10\n",
        }
    ),
    "pendigits": zipped(
        {
            "pendigits-orig.tra.Z": "compressed",
            "pendigits.tes": " 88, 92," + "  2," * 14 + " 8\n",
            "pendigits.tra": " 47,100," + " 27," * 14 + " 0\n",
        }
    ),
    "satimage": zipped({"sat.doc": "text", "sat.tst": numbers(36, " ", "7"), "sat.trn": numbers(36, " ", "1")}),
    "spambase": zipped({"spambase.data": numbers(57, ",", "1") + numbers(57, ",", "0")}),
    "car": zipped({"car.data": "vhigh,vhigh,2,2,small,low,unacc\nlow,low,5more,more,big,high,vgood\n"}),
    "nursery": zipped(
        {
            "nursery.data": "usual,proper,complete,1,convenient,convenient,nonprob,recommended,recommend\n"
            "great_pret,very_crit,foster,more,critical,inconv,problematic,not_recom,not_recom\n\n"
        }
    ),
    "adult": zipped({"adult.data": ADULT, "adult.test": ADULT_TEST, "old.adult.names": "text"}),
    "bank-marketing": zipped(
        {
            "bank-additional.zip": zipped({"bank-additional/bank-additional-full.csv": "x"}),
            "bank.zip": zipped({"bank.csv": "x", "bank-full.csv": BANK}),
        }
    ),
    "yeast": zipped(
        {
            "yeast.data": "ADT1_YEAST  0.58  0.61  0.47  0.13  0.50  0.00  0.48  0.22  MIT\n"
            "ADT3_YEAST  0.43  0.67  0.48  0.27  0.50  0.00  0.53  0.22  NUC\n"
        }
    ),
}
EXPECTED = {  # columns, the first column, and the right arm of each row
    "letter": (16, "x-box", ["T", "I"]),
    "pendigits": (16, "x1", ["0", "8"]),
    "satimage": (36, "pixel 1 band 1", ["red soil", "very damp grey soil"]),
    "spambase": (57, "word_freq_make", ["spam", "non-spam"]),
    "car": (6, "buying", ["unacc", "vgood"]),
    "nursery": (8, "parents", ["recommend", "not_recom"]),
    "adult": (14, "age", ["<=50K", ">50K", "<=50K", ">50K"]),
    "bank-marketing": (16, "age", ["no", "yes"]),
    "yeast": (8, "mcg", ["MIT", "NUC"]),
}


def loaded(name, folder):
    (folder / UCI[name].files[0]).write_bytes(ARCHIVES[name])
    return taciturn.load_dataset(name)


def test_every_data_set_of_uci_is_tried_here():
    assert set(ARCHIVES) == set(EXPECTED) == set(UCI)


@pytest.mark.parametrize("name", UCI)
def test_an_archive_in_the_documented_format_is_read(name, folder):
    data = loaded(name, folder)
    columns, first, right = EXPECTED[name]
    assert (len(data.features), data.features[0]) == (columns, first)
    assert [str(data.arms[k]) for k in data.y] == right
    assert len(data.contexts) == len(right)
    assert UCI[name].shape.split(" × ")[1].startswith(str(columns))


@pytest.mark.parametrize("name", ["letter", "pendigits", "satimage", "spambase", "yeast"])
def test_numbers_reach_agents_as_an_array(name, folder):
    data = loaded(name, folder)
    assert isinstance(data.contexts, np.ndarray)
    assert data.contexts.dtype == np.float64


def test_the_parts_of_a_data_set_follow_each_other(folder):
    np.testing.assert_array_equal(loaded("pendigits", folder).contexts[:, :2], [[47, 100], [88, 92]])


def test_words_reach_agents_as_words_and_numbers_as_numbers(folder):
    car = loaded("car", folder).contexts
    assert car[1]["doors"] == "5more"
    assert car[0]["doors"] == "2", "a column of counts and a word is words"
    adult = loaded("adult", folder).contexts
    assert adult[1]["age"] == 52.0
    assert adult[1]["workclass"] is None, "? is a missing value"
    assert adult[3]["native-country"] == "United-States"
    assert (adult.columns[3].kind, adult.columns[10].kind) == ("category", "number")
    bank = loaded("bank-marketing", folder).contexts
    assert (bank[1]["balance"], bank[1]["job"]) == (-29.0, "technician")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("letter", zipped({"other": "x"}), "no file 'letter-recognition.data'"),
        ("bank-marketing", zipped({"bank.zip": zipped({"other": "x"})}), "no file 'bank-full.csv'"),
        ("bank-marketing", zipped({"bank.zip": "not an archive"}), "damaged or truncated"),
        ("car", zipped({"car.data": "vhigh,vhigh,2,2,small,unacc\n"}), "car.*zip: row 0 has 6 cells; the header has 7"),
        ("car", zipped({"car.data": ""}), "no rows"),
        ("spambase", zipped({"spambase.data": numbers(57, ",", "2")}), "not the file of spambase .*'2'"),
        ("yeast", b"PK", "damaged or truncated"),
    ],
)
def test_an_archive_with_other_contents_is_refused_in_one_line(name, content, message, folder):
    (folder / UCI[name].files[0]).write_bytes(content)
    with pytest.raises(InvalidData, match=message) as error:
        taciturn.load_dataset(name)
    assert "\n" not in str(error.value)


def served(name, server, monkeypatch, sha256):
    """Have the catalog download a data set from the server on loopback."""
    (source,) = UCI[name].sources
    moved = replace(source, url=f"{server.url}/{name}.zip", sha256=sha256)
    monkeypatch.setitem(catalog.CATALOG, name, replace(UCI[name], sources=(moved,)))
    server.paths[f"/{name}.zip"] = send(ARCHIVES[name])


@pytest.mark.parametrize("name", ["adult", "yeast"])
def test_it_is_downloaded_when_asked_for_by_name_and_only_once(name, server, folder, monkeypatch):
    served(name, server, monkeypatch, hashlib.sha256(ARCHIVES[name]).hexdigest())
    assert catalog.local_file(name) is None
    assert taciturn.load_dataset(name).source == taciturn.load_dataset(name).source == UCI[name].files[0]
    assert catalog.local_file(name) == folder / "cache" / UCI[name].files[0]
    assert server.requested == [f"/{name}.zip"]


@pytest.mark.usefixtures("folder")
def test_an_archive_with_another_checksum_is_an_error_that_says_what_to_do(server, monkeypatch):
    served("adult", server, monkeypatch, UCI["adult"].sources[0].sha256)
    with pytest.raises(DataUnavailable, match="adult: .*expected sha256.*by hand as .*adult.zip, or set TACITURN_DATA"):
        taciturn.load_dataset("adult")


@pytest.mark.parametrize("name", UCI)
def test_urls_are_those_of_uci(name):
    (source,) = UCI[name].sources
    number = UCI[name].home.removeprefix("UCI ")
    assert source.url == f"https://archive.ics.uci.edu/static/public/{number}/{source.name}"
    assert source.sha256 is None or len(bytes.fromhex(source.sha256)) == 32
