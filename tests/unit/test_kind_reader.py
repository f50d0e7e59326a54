"""A kind is read from its class: keys, spellings, faults at their places, what nobody reads."""

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pytest
from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from pytest_agentv.files.kind_reader import find_kind, known_keys, read_part
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import UnreadKey
from pytest_agentv.files.source import read_yaml
from pytest_agentv.model.kind import Amount, Items, Kind, Part, Text, expected, parts_of, spelled, spellings
from pytest_agentv.model.kind_table import KindTable


class Spice(Part):
    name: Text
    heat: Amount = 0
    shade: Literal["red", "green"] = "red"


class Soup(Kind):
    """Something to eat."""

    kind = "soup"
    hints: ClassVar = {"salt": "use spices"}

    base: Text = Field(description="what it is made of")
    spices: Items[Spice] = ()
    max_heat: Amount | None = spelled("max_heat", "maxHeat", default=None, description="as hot as it may be")
    is_cold: bool = False
    ice: int | None = None

    @field_validator("base")
    @classmethod
    def _is_no_stone(cls, value: str, info: ValidationInfo) -> str:
        if value == "stone":
            raise expected("something to eat")
        return f"{value} of {info.context}" if info.context else value

    @model_validator(mode="after")
    def _is_mild_enough(self) -> Self:
        if self.max_heat is not None and any(spice.heat > self.max_heat for spice in self.spices):
            raise ValueError("a spice is too hot")
        return self

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        if self.ice is not None and not self.is_cold:
            yield "ice", "it belongs to is_cold"


class Open(Kind):
    model_config = ConfigDict(extra="allow")
    kind = "open"

    size: Amount = 1


class Careless(Kind):
    kind = "careless"

    size: int = 1

    @field_validator("size")
    @classmethod
    def _divide(cls, value: int) -> int:
        return 1 // value


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str, kind: type[Kind] = Soup, **options: Any) -> tuple[Kind | None, list[str]]:
    """Read a mapping that begins on line 2, below a key `food`."""
    path = Path("menu.yaml").absolute()
    path.write_text("food:\n" + "".join(f"  {line}\n" for line in text.splitlines()))
    source = read_yaml(path)
    place = Place(source, ("food",), [])
    found = read_part(kind, source.value["food"], place, **options)
    levels = {problem.level for problem in place.problems}
    assert levels <= {"error"}
    return found, [str(problem).removeprefix("menu.yaml:") for problem in place.problems]


def test_a_mapping_becomes_a_frozen_record_with_defaults() -> None:
    soup, problems = read("base: leek\nspices: [{name: pepper, heat: 2}]\nmaxHeat: 3\nis_cold: null")
    assert problems == []
    assert soup == Soup(base="leek", spices=(Spice(name="pepper", heat=2),), max_heat=3)
    assert pickle.loads(pickle.dumps(soup)) == soup
    with pytest.raises(ValidationError, match="frozen"):
        soup.base = "stone"  # type: ignore[union-attr]


def test_it_is_built_from_python_as_well() -> None:
    assert Soup(base="leek", spices=[Spice(name="salt")]).spices == (Spice(name="salt"),)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="expected something to eat"):
        Soup(base="stone")
    with pytest.raises(ValidationError, match="expected a non-empty text"):
        Soup(base=" ")
    with pytest.raises(ValidationError, match="bsae"):
        Soup(base="leek", bsae="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("bse: leek", ["1: food.base: is missing (is 'bse' a misspelling of it?)"]),
        ("base: 5", ['2: food.base: expected a non-empty text, got the number 5 (put it into quotes: "5")']),
        ("base: stone", ["2: food.base: expected something to eat, got the text 'stone'"]),
        ("base: x\nspices: hot", ["3: food.spices: expected a list, got the text 'hot'"]),
        ("base: x\nspices:\n- {name: a}\n- {nam: b, heat: -1}", [
            "5: food.spices[1].name: is missing (is 'nam' a misspelling of it?)",
            "5: food.spices[1].heat: expected a number of 0 or more, got the number -1",
        ]),
        ("base: x\nspices: [{name: a, shade: rde}]", [
            "3: food.spices[0].shade: expected one of red, green, got the text 'rde' (did you mean 'red'?)"
        ]),
        ("base: x\nspices: [salt]", ["3: food.spices[0]: expected a mapping, got the text 'salt'"]),
        ("base: x\nmaxHeat: 1\nspices: [{name: a, heat: 2}]", ["1: food: a spice is too hot"]),
        ("base: x\nmax_heat: .inf\nis_cold: 1\nice: 1.5", [
            "3: food.max_heat: expected a finite number, got the number inf",
            "4: food.is_cold: expected true or false, got the number 1",
            "5: food.ice: expected a whole number, got the number 1.5",
        ]),
    ],
)  # fmt: skip
def test_all_faults_are_told_at_once_at_their_places(text: str, problems: list[str]) -> None:
    found, told = read(text)
    assert (found, sorted(told)) == (None, sorted(problems))


def test_keys_that_nobody_reads_are_noted_and_the_rest_is_read() -> None:
    found, told = read("base: leek\nsalt: 1\nice: 2\nspices: [{name: a, haet: 1}]\nmaxheat: 3")
    assert found == Soup(base="leek", ice=2, spices=(Spice(name="a"),))
    assert sorted(told) == [
        "3: food.salt: unknown key (use spices)",
        "4: food.ice: nobody reads this key (it belongs to is_cold)",
        "5: food.spices[0].haet: unknown key (did you mean 'heat'?)",
        "6: food.maxheat: unknown key (did you mean 'max_heat'?)",
    ]


def test_rules_across_keys_hold_beside_unknown_keys() -> None:
    found, told = read("base: x\nzzz: 1\nmaxHeat: 1\nspices: [{name: a, heat: 2}]")
    assert (found, told) == (None, ["3: food.zzz: unknown key", "1: food: a spice is too hot"])


def test_unread_keys_can_be_told_from_other_faults() -> None:
    place = Place(read_yaml(_written("food: {base: x, zzz: 1}")), ("food",), [])
    read_part(Soup, {"base": "x", "zzz": 1}, place)
    assert [type(problem) for problem in place.problems] == [UnreadKey]


def _written(text: str) -> Path:
    path = Path("other.yaml").absolute()
    path.write_text(text)
    return path


def test_keys_that_are_read_elsewhere_are_left_alone() -> None:
    found, told = read("base: leek\ntype: soup\ntipe: x", elsewhere=("type",))
    assert (found, told) == (Soup(base="leek"), ["4: food.tipe: unknown key (did you mean 'type'?)"])


def test_a_kind_may_welcome_any_key() -> None:
    found, told = read("size: 2\nmine: {a: 1}\nempty: null", Open)
    assert (found, told) == (Open(size=2, mine={"a": 1}, empty=None), [])  # type: ignore[call-arg]


def test_validators_get_the_context() -> None:
    assert read("base: leek", context="Vichy")[0] == Soup(base="leek of Vichy")


def test_a_validator_that_breaks_is_a_fault_of_its_mapping() -> None:
    found, told = read("size: 0", Careless)
    assert (found, told) == (None, ["1: food: Careless raised ZeroDivisionError: integer division or modulo by zero"])


def test_the_class_tells_its_keys_and_its_parts() -> None:
    assert spellings(Soup)["max_heat"] == ("max_heat", "maxHeat")
    assert known_keys(Soup) == ("base", "spices", "max_heat", "maxHeat", "is_cold", "ice")
    assert list(parts_of(Soup)) == [Spice]


def make_kind(word: str, factory: object) -> type[Kind]:
    return type("Made", (Open,), {"kind": word, "__module__": __name__})


def test_a_table_imports_a_class_when_its_word_is_met() -> None:
    table = KindTable({"colour": "colorsys:rgb_to_hsv", "soup": f"{__name__}:Soup"})
    sys.modules.pop("colorsys", None)
    assert (sorted(table), len(table), "soup" in table, "pie" in table) == (["colour", "soup"], 2, True, False)
    assert "colorsys" not in sys.modules
    assert callable(table["colour"])
    assert "colorsys" in sys.modules


def test_own_kinds_come_beside_the_built_in_ones_and_replace_them() -> None:
    table = KindTable({"soup": "nowhere:Gone"}, {"soup": Soup, "made": lambda spec, services: None}, make_kind)
    assert table["soup"] is Soup
    assert table["made"].kind == "made"
    assert table["made"] is table["made"]
    assert table.get("pie") is None
    assert (sorted(table), len(table)) == (["made", "soup"], 2)


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ({"type": "soup"}, []),
        ({"type": "soop"}, ["food.type: expected one of pie, soup, got the text 'soop' (did you mean 'soup'?)"]),
        ({"type": 5}, ["food.type: expected one of pie, soup, got the number 5"]),
        ({}, ["food.type: is missing: expected one of pie, soup"]),
    ],
)
def test_the_word_chooses_the_class(value: dict[str, Any], problems: list[str]) -> None:
    place = Place(read_yaml(_written("food: {type: x}")), ("food",), [])
    found = find_kind({"soup": Soup, "pie": Open}, value, "type", place)
    assert found is (None if problems else Soup)
    assert [
        f"{problem.key}: {problem.message}" + (f" ({problem.hint})" if problem.hint else "")
        for problem in place.problems
    ] == problems
