"""Quantities against Kubernetes' own parser."""

import random
import subprocess
from pathlib import Path

from rescheduler.model.quantities import BadQuantity, milli_units, nanos, whole_units

SUFFIXES = [
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "e0",
    "e2",
    "E-2",
    "e+3",
    "e-9",
]
WRONG = ["", "1 ", "1ki", "5oom", "1.2.3", "--1", "1e", "0x1", "1mm", "1m1", "1e1e1", "one", "1,5"]
# Negative amounts, which no object of ours may have, it rounds in more than one way.
# Beyond this Kubernetes' own conversions overflow, silently and differently by suffix.
LARGEST_COMPARED = 2**53


def test_amounts_agree_with_kubernetes_for_thousands_of_texts(binary: Path) -> None:
    texts = [text for text in generated(random.Random(7), 20_000) if is_comparable(text)] + WRONG
    answers = subprocess.run(
        [binary, "quantities"],
        input="\n".join(texts) + "\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert len(answers) == len(texts) > 10_000
    disagreements = {
        text: (answer, ours(text))
        for text, answer in zip(texts, answers, strict=True)
        if answer != ours(text)
    }
    assert disagreements == {}


def generated(chance: random.Random, count: int) -> list[str]:
    def digits(most: int) -> str:
        return "".join(chance.choices("0123456789", k=chance.randint(1, most)))

    shapes = [
        lambda: digits(9),
        lambda: f"{digits(6)}.{digits(12)}",
        lambda: f".{digits(4)}",
        lambda: f"{digits(3)}.",
        lambda: f"00{digits(3)}",
    ]
    return [
        chance.choice(["", "+"]) + chance.choice(shapes)() + chance.choice(SUFFIXES)
        for _ in range(count)
    ]


def is_comparable(text: str) -> bool:
    return abs(milli_units(nanos(text))) < LARGEST_COMPARED


def ours(text: str) -> str:
    try:
        amount = nanos(text)
    except BadQuantity:
        return "refused"
    return f"{whole_units(amount)} {milli_units(amount)}"
