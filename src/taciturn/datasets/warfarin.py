"""The IWPC warfarin cohort: 91 binary columns for each patient, and the dose as one of three arms.

Covariates are one-hot encoded with "unknown" as a category; a yes/no covariate has the columns "yes" and "unknown",
both 0 for "no". The columns, in order (91):

    3  gender                              male, female, unknown
    4  race                                White, Asian, Black or African American, unknown
    3  ethnicity                           Hispanic or Latino, not Hispanic or Latino, unknown
    10 age                                 10 - 19 … 80 - 89, 90+, unknown
    9  indication                          codes 1 … 8 (a patient can have several), unknown
    8  diabetes, heart failure, valve replacement, smoker              yes, unknown
    34 17 medications                                                  yes, unknown
    12 CYP2C9 consensus genotype           11 genotypes, unknown
    8  VKORC1 −1639 and 1173 consensus genotypes                       3 genotypes and unknown each

Height and weight, the two features of large magnitude, are left out, as in the paper. Cerivastatin is left out
because no patient took it: its "yes" column would be empty.
"""

import csv
import gzip
import io
import re
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from taciturn.datasets.files import RawData, damaged_file
from taciturn.errors import InvalidData

ARMS = ["low", "medium", "high"]
DOSE = "Therapeutic Dose of Warfarin"
INDICATION = "Indication for Warfarin Treatment"
MISSING = {"", "NA", "Unknown"}

CATEGORIES = {
    "Gender": ["male", "female"],
    "Race": ["White", "Asian", "Black or African American"],
    "Ethnicity": ["Hispanic or Latino", "not Hispanic or Latino"],
    "Age": [f"{decade} - {decade + 9}" for decade in range(10, 90, 10)] + ["90+"],
}
YES_NO = [
    "Diabetes",
    "Congestive Heart Failure and/or Cardiomyopathy",
    "Valve Replacement",
    "Current Smoker",
    "Aspirin",
    "Acetaminophen or Paracetamol (Tylenol)",
    "Was Dose of Acetaminophen or Paracetamol (Tylenol) >1300mg/day",
    "Simvastatin (Zocor)",
    "Atorvastatin (Lipitor)",
    "Fluvastatin (Lescol)",
    "Lovastatin (Mevacor)",
    "Pravastatin (Pravachol)",
    "Rosuvastatin (Crestor)",
    "Amiodarone (Cordarone)",
    "Carbamazepine (Tegretol)",
    "Phenytoin (Dilantin)",
    "Rifampin or Rifampicin",
    "Sulfonamide Antibiotics",
    "Macrolide Antibiotics",
    "Anti-fungal Azoles",
    "Herbal Medications, Vitamins, Supplements",
]
GENOTYPES = {
    "CYP2C9 consensus": [f"*1/*{b}" for b in (1, 2, 3, 5, 6, 11, 13, 14)] + ["*2/*2", "*2/*3", "*3/*3"],
    "VKORC1 -1639 consensus": ["A/A", "A/G", "G/G"],
    "VKORC1 1173 consensus": ["C/C", "C/T", "T/T"],
}


def read_warfarin(path: Path) -> RawData:
    """Read the patients with a known weekly dose: low below 21 mg, medium from 21 to 49 mg, high above."""
    try:
        with gzip.open(path) as file:
            table = list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig")))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise damaged_file(path, error) from None
    if not table:
        raise damaged_file(path, "it is empty")
    wanted = [DOSE, INDICATION, *CATEGORIES, *YES_NO, *GENOTYPES]
    absent = [name for name in wanted if name not in table[0]]
    if absent:
        raise InvalidData(f"{path.name}: no column {absent[0]!r}; this is not the IWPC cohort")
    patients = [row for row in table if row[DOSE] and row[DOSE].strip() not in MISSING]
    columns = [_one_hot(patients, name, values) for name, values in CATEGORIES.items()]
    columns.append(_indications(patients))
    columns += [_one_hot(patients, name, ["1"], known=["0"]) for name in YES_NO]
    columns += [_one_hot(patients, name, values) for name, values in GENOTYPES.items()]
    features = [name for _, names in columns for name in names]
    doses = np.array([float(row[DOSE]) for row in patients])
    covariates = sp.csr_matrix(np.hstack([block for block, _ in columns]))
    return RawData(covariates, np.digitize(doses, [21.0, 49.0 + 1e-9]), None, features)


def _one_hot(
    patients: list[dict[str, str]], name: str, values: list[str], known: list[str] | None = None
) -> tuple[NDArray[np.float64], list[str]]:
    """Return columns (N, values + 1), one per value and one for unknown, and their names; `known` values have none."""
    cells = [row[name].strip() for row in patients]
    unexpected = set(cells) - set(values) - set(known or []) - MISSING
    if unexpected:
        raise InvalidData(f"warfarin: column {name!r} holds {min(unexpected)!r}, which is not one of its values")
    block = [[cell == value for value in values] + [cell in MISSING] for cell in cells]
    return np.array(block, dtype=float), [f"{name}={value}" for value in [*values, "unknown"]]


def _indications(patients: list[dict[str, str]]) -> tuple[NDArray[np.float64], list[str]]:
    codes = [set(re.findall(r"[1-8]", row[INDICATION])) for row in patients]
    block = [[str(code) in present for code in range(1, 9)] + [not present] for present in codes]
    return np.array(block, dtype=float), [f"{INDICATION}={value}" for value in [*range(1, 9), "unknown"]]
