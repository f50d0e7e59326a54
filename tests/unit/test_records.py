"""Records: made as frozen dataclasses with slots are, and they behave as these do."""

import copy
import dataclasses
import inspect
import pickle

import pytest
from pydantic import TypeAdapter, ValidationError

from pytest_agentv.model.base import record, replaced
from pytest_agentv.model.results import EvalResult


@record
class Point:
    x: int
    y: int = 2
    seen: list[int] = dataclasses.field(default_factory=list, repr=False, compare=False)
    name: str | None = dataclasses.field(default=None, kw_only=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """What `Point` is compared with."""

    x: int
    y: int = 2
    seen: list[int] = dataclasses.field(default_factory=list, repr=False, compare=False)
    name: str | None = dataclasses.field(default=None, kw_only=True)


@record
class Named(Point):
    tag: str = "t"


@record
class Empty:
    """Has no fields."""


@dataclasses.dataclass(frozen=True, slots=True)
class Child(Point):
    z: int = 3


CALLS = [
    ((1,), {}),
    ((1, 3), {}),
    ((1, 3, [4]), {"name": "n"}),
    ((), {"x": 1, "seen": [5], "name": "n"}),
]


@pytest.mark.parametrize(("args", "named"), CALLS)
def test_a_record_is_what_a_dataclass_would_be(args, named):
    made, model = Point(*args, **named), Model(*args, **named)
    assert dataclasses.asdict(made) == dataclasses.asdict(model)
    assert repr(made) == repr(model).replace("Model", "Point")
    assert hash(made) == hash(model)
    assert made == Point(*args, **named)
    assert made != model


@pytest.mark.parametrize(
    ("args", "named", "message"),
    [
        ((), {}, "missing a required argument: 'x'"),
        ((1, 2, [], "n"), {}, "takes 3 positional arguments but 4 were given"),
        ((1,), {"x": 2}, "got multiple values for argument 'x'"),
        ((1,), {"w": 2}, "got an unexpected keyword argument 'w'"),
    ],
)
def test_a_wrong_call_is_a_type_error_that_names_the_argument(args, named, message):
    with pytest.raises(TypeError, match=rf"^Point\(\) {message}"):
        Point(*args, **named)
    with pytest.raises(TypeError):
        Model(*args, **named)


def test_a_value_that_is_left_out_is_made_for_each_record():
    first, second = Point(1), Point(1)
    first.seen.append(1)
    assert second.seen == []


def test_equality_looks_at_the_fields_that_are_compared():
    assert Point(1, seen=[1]) == Point(1, seen=[2])
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    assert Empty() == Empty()


@pytest.mark.parametrize("made", [Point(1), Named(1), Child(1), Empty()], ids=lambda made: type(made).__name__)
def test_records_are_frozen_and_have_no_place_for_other_attributes(made):
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.x
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize("made", [Point(1, name="n"), Named(1, tag="u"), Child(1, z=4), Empty()])
def test_records_are_copied_and_pickled_with_all_their_values(made):
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), dataclasses.replace(made)):
        assert other == made
        assert type(other) is type(made)


def test_a_record_inherits_fields_and_a_frozen_dataclass_inherits_from_a_record():
    assert dataclasses.astuple(Named(1, tag="u")) == (1, 2, [], None, "u")
    assert dataclasses.astuple(Child(1, z=4)) == (1, 2, [], None, 4)
    assert repr(Child(1)) == "Child(x=1, y=2, name=None, z=3)"


def test_methods_of_the_class_are_kept_and_what_follows_the_init_is_called():
    @record
    class Checked:
        x: int

        def __post_init__(self):
            if self.x < 0:
                raise ValueError("negative")

        def __repr__(self):
            return "checked"

    assert repr(Checked(1)) == "checked"
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)


def test_pydantic_checks_a_record_as_a_dataclass():
    adapter = TypeAdapter(Named)
    assert adapter.validate_python({"x": "1", "tag": "u"}) == Named(1, tag="u")
    with pytest.raises(ValidationError, match="x"):
        adapter.validate_python({"x": "one"})


def test_a_class_shows_its_signature_and_can_be_matched():
    assert str(inspect.signature(Point)) == str(inspect.signature(Model)).replace(
        "<factory>", "<class 'list'>"
    ).removesuffix(" -> None")
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)


def test_a_copy_with_changes_is_what_a_dataclass_would_make():
    result = EvalResult(
        "t", "e", "d", conversation_id="c", score=1, hits=(), misses=(), candidate_answer="a", target="t"
    )
    changes = {"conversation_id": "other", "score": 0.5, "status": "fail"}
    assert result.replace(**changes) == dataclasses.replace(result, **changes)
    assert list(result.replace(**changes).to_plain()) == list(result.to_plain())
    with pytest.raises(TypeError, match="unknown"):
        result.replace(unknown=1)


def _made_often(is_checked=False):
    """Return a class like `Point` of which so many records were made that it has an `__init__` of its own."""

    @record
    class Often:
        x: int
        y: int = 2
        seen: list[int] = dataclasses.field(default_factory=list, repr=False, compare=False)
        name: str | None = dataclasses.field(default=None, kw_only=True)

        if is_checked:

            def __post_init__(self):
                if self.x < 0:
                    raise ValueError("negative")

    before = Often.__init__
    for number in range(100):
        Often(number)
    assert Often.__init__ is not before
    return Often


OFTEN = [_made_often(), _made_often(is_checked=True)]


@pytest.mark.parametrize("often", OFTEN)
@pytest.mark.parametrize(("args", "named"), CALLS)
def test_a_record_of_a_class_that_makes_many_is_what_a_dataclass_would_be(often, args, named):
    assert dataclasses.asdict(often(*args, **named)) == dataclasses.asdict(Model(*args, **named))
    first, second = often(1), often(1)
    first.seen.append(1)
    assert second.seen == []


@pytest.mark.parametrize(("args", "named"), [((), {}), ((1, 2, [], "n"), {}), ((1,), {"x": 2}), ((1,), {"w": 2})])
def test_a_wrong_call_of_such_a_class_is_a_type_error_that_names_it(args, named):
    with pytest.raises(TypeError, match=r"Often\.__init__\(\)"):
        OFTEN[0](*args, **named)


def test_what_follows_the_init_is_called_for_each_of_many_records():
    with pytest.raises(ValueError, match="negative"):
        OFTEN[1](-1)


def test_a_class_with_an_init_of_its_own_keeps_it():
    class Counted(Point):
        def __init__(self, x):
            super().__init__(x, y=x)

    made = [Counted(number) for number in range(200)]
    assert [each.y for each in made] == list(range(200))
    assert Counted.__init__ is vars(Counted)["__init__"]


def test_a_record_without_fields_may_be_made_often():
    @record
    class Nothing:
        """Has no fields."""

    assert [Nothing() for _ in range(101)][-1] == Nothing()


@pytest.mark.parametrize("often", [*OFTEN, Point])
def test_a_copy_stays_what_it_is_when_its_class_has_been_copied_often(often):
    record = often(1, seen=[3], name="n")
    copies = [replaced(record, {"y": number}) for number in range(120)]
    for number, made in enumerate(copies):
        assert type(made) is often
        assert dataclasses.asdict(made) == {"x": 1, "y": number, "seen": [3], "name": "n"}
        assert made.seen is record.seen
    with pytest.raises(dataclasses.FrozenInstanceError):
        copies[-1].x = 2
    for _ in range(120):
        with pytest.raises(TypeError, match="unknown"):
            replaced(record, {"unknown": 1})


@pytest.mark.parametrize("often", OFTEN)
def test_a_class_of_users_may_inherit_from_a_class_that_makes_many(often):
    class Own(often):
        """Has a `__dict__`, so that its objects cannot have another class."""

    own = Own(1, seen=[3], name="n")
    assert type(own) is Own
    assert dataclasses.asdict(own) == {"x": 1, "y": 2, "seen": [3], "name": "n"}
    assert type(replaced(own, {"y": 4})) is Own


def test_a_record_that_is_made_often_is_frozen():
    made = OFTEN[0](1)
    assert type(made) is OFTEN[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.x


def test_a_field_of_a_class_that_makes_many_may_have_any_name():
    @record
    class Typed:
        type: str
        record: int = 1

    made = [replaced(Typed("t"), {"record": number}) for number in range(250)]
    assert [dataclasses.astuple(each) for each in made] == [("t", number) for number in range(250)]
