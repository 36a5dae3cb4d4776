"""The language: values by the specification of CEL and by the documentation of Kubernetes' libraries."""

from __future__ import annotations

import pytest

from scheduler.devices.cel import CelCompileError, CelCostError, CelError, CelEvaluator
from scheduler.model.devices import Attribute, Capacity, Device

DRIVER = "gpu.example.com"
D = f'device.attributes["{DRIVER}"]'
GPU = Device(
    name="gpu-0",
    attributes={
        "model": Attribute("string", "A100"),
        "index": Attribute("int", 3),
        "healthy": Attribute("bool", value=True),
        "driverVersion": Attribute("version", "12.4.1"),
        "links": Attribute("ints", (1, 2)),
        "dra.example.com/fast": Attribute("bool", value=True),
    },
    capacity={"memory": Capacity("80Gi"), "dra.example.com/slots": Capacity("4")},
)


def holds(expression: str, device: Device = GPU) -> bool:
    """Evaluate an expression on a device."""
    return CelEvaluator().holds(expression, DRIVER, device)


@pytest.mark.parametrize(
    "expression",
    [
        # what a device has
        f'device.driver == "{DRIVER}"',
        f'{D}.model == "A100"',
        f'{D}["model"] == "A100"',
        f"{D}.index == 3 && {D}.healthy",
        'device.attributes["dra.example.com"].fast',
        "!device.allowMultipleAllocations",
        f"2 in {D}.links && {D}.links.includes(1) && {D}.index.includes(3)",
        f'"model" in {D} && !("vendor" in {D})',
        f'has({D}.model) && !has({D}.vendor) && !has(device.attributes["other.example.com"].model)',
        '!("other.example.com" in device.attributes)',
        f'{D}.?vendor.orValue("none") == "none" && {D}.?model.orValue("none") == "A100"',
        f"{D}[?'model'].hasValue() && !{D}[?'vendor'].hasValue()",
        f'cel.bind(d, {D}, d.model.startsWith("A") && d.index < 4)',
        # quantities, from the documentation in quantity.go of Kubernetes
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) == 1',
        f'device.capacity["{DRIVER}"].memory == quantity("81920Mi")',
        'device.capacity["dra.example.com"].slots.asInteger() == 4',
        'quantity("50000000G").isInteger() && quantity("50k").asInteger() == 50000',
        '!quantity("9999999999999999999999999999999999999G").isInteger()',
        'quantity("50k").add(quantity("20k")) == quantity("70k") && quantity("50k").add(20) == quantity("50020")',
        'quantity("50k").add(20).sub(quantity("100k")).sub(-50000) == quantity("20")',
        'quantity("200M").compareTo(quantity("0.2G")) == 0 && quantity("50M").isLessThan(quantity("50Mi"))',
        'isQuantity("1.3Gi") && !isQuantity("1,3G") && !isQuantity("200K") && !isQuantity("Mi")',
        'quantity("50k").sub(20000).asApproximateFloat() == 30000.0 && quantity("-1").sign() == -1',
        # versions, from that in semverlib.go
        f'{D}.driverVersion.isGreaterThan(semver("12.0.0")) && {D}.driverVersion.major() == 12',
        f'{D}.driverVersion == semver("12.4.1+build") && {D}.driverVersion.compareTo(semver("12.4.1")) == 0',
        'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10")) && semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))',
        'semver("v1.0", true) == semver("1.0.0") && semver("01.01.01", true) == semver("1.1.1")',
        'isSemver("1.0.0") && !isSemver("v1.0") && isSemver("v1.0", true) && !isSemver("01.0.0") && !isSemver("hello")',
        # lists, from that in lists.go and regex.go, and of cel-go
        "[1, 2, 3].isSorted() && ![1, 3, 2].isSorted() && [1, 2].sum() == 3 && [1.0].sum() == 1.0",
        '[1, 3].max() == 3 && ["b", "a"].min() == "a" && [1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2',
        "sets.contains([1, 2, 3], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1, 2], [2, 1])",
        "[3, 1].sort() == [1, 3] && [1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2] && [1, 2].reverse() == [2, 1]",
        "[1, 2, 3].slice(1, 3) == [2, 3] && lists.range(3) == [0, 1, 2] && [2, 1].sortBy(x, -x) == [2, 1]",
        '"abc 123".find("[0-9]+") == "123" && "123 abc 456".findAll("[0-9]+") == ["123", "456"]',
        '"123 abc 456".findAll("[0-9]+", 1) == ["123"] && "x".find("y") == ""',
        # texts
        '"hello".contains("ell") && "hello".endsWith("lo") && "abc".matches("^a.c$") && matches("abc", "b")',
        '"Hi".lowerAscii() == "hi" && "hi".upperAscii() == "HI" && " x ".trim() == "x" && "abc".charAt(1) == "b"',
        '"a,b".split(",") == ["a", "b"] && "a,b,c".split(",", 2) == ["a", "b,c"] && ["a", "b"].join("-") == "a-b"',
        '"hello".replace("l", "L", 1) == "heLlo" && "tacocat".substring(4) == "cat" && "tacocat".indexOf("a", 3) == 5',
        '"tacocat".substring(0, 4) == "taco" && "tacocat".lastIndexOf("at") == 5 && "abc".reverse() == "cba"',
        # numbers
        "7 / -2 == -3 && 7 % -2 == 1 && -7 % 2 == -1 && 2 + 3 * 4 == 14 && (2 + 3) * 4 == 20",
        "1.5 + 1.5 == 3.0 && 1u + 2u == 3u && 0x10 == 16 && -0x1 == -1 && 1e3 == 1000.0",
        "1 < 2u && 2.5 > 2 && 1 <= 1.0 && dyn(1) == dyn(1.0) && dyn(1) == dyn(1u)",
        'int("42") == 42 && int(3.9) == 3 && double("1.5") == 1.5 && string(1) == "1" && string(1.0) == "1" && uint(3) == 3u',
        'string(true) == "true" && bool("true") && bytes("abc") == b"abc" && string(b"abc") == "abc" && size("héllo") == 5',
        "type(1) == int && type(1.0) == double && type([]) == list && type({}) == map && type(null) == null_type",
        # logic and macros
        "(1 / 0 == 0 || true) && !(1 / 0 == 0 && false)",
        "true ? true : 1 / 0 == 0",
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x == 2) && ![1, 1].exists_one(x, x == 1)",
        "[0, 1].exists(x, 1 / x == 1) && ![0, 2].all(x, 1 / x == 1)",
        "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6] && [1, 2].map(x, x > 1, x) == [2]",
        '{"a": 1, "b": 2}.exists(k, k == "b") && {"a": 1}.all(k, v, k == "a" && v == 1) && [5, 6].exists(i, v, i == 1 && v == 6)',
        "[1, 2].transformList(i, v, i + v) == [1, 3] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().hasValue() && optional.none().orValue(3) == 3",
        "[1, ?optional.of(2), ?optional.none()] == [1, 2] && {?'a': optional.none()} == {}",
        "dyn('1') != dyn(1) && dyn(null) != dyn(0)",
        r"'\u00e9' == 'é' && r'\n'.size() == 2 && b'\xff'.size() == 1 && '\x41\101' == 'AA'",
        "'''a'b''' == \"a'b\"",
        "true // a comment",
    ],
)  # fmt: skip
def test_an_expression_holds(expression: str) -> None:
    """Every line is true by the specification."""
    assert holds(expression) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("", "Syntax error at 1:1: unexpected end of the expression"),
        ("1 +", "unexpected end of the expression"),
        ("(true", "expecting ')'"),
        ("true true", "unexpected 'true'"),
        ("@", "unexpected '@'"),
        ("device.", "expecting a field"),
        ("foo", "undeclared reference to 'foo'"),
        ("device.memory", "undefined field 'memory'"),
        ("devices.driver == 'x'", "undeclared reference to 'devices'"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("quantity('1')", "not kubernetes.Quantity"),
        ("1 + 'a' == 2", "found no matching overload for '_+_' applied to '(int, string)'"),
        ("1 == 1.0", "found no matching overload for '_==_'"),
        ("[1, 'a'].size() == 2", "expected type 'int' for all elements"),
        ("true ? 1 : 'a'", "found no matching overload for '_?_:_'"),
        ("1 && true", "expected type 'bool' but found 'int'"),
        (f'device.capacity["{DRIVER}"].memory > quantity("1")', "found no matching overload for '_>_'"),
        (f'device.capacity["{DRIVER}"].memory == 1', "found no matching overload for '_==_'"),
        (
            "ip('1.2.3.4').family() == 4",
            "undeclared reference to 'ip' (in container ''), or not known to this scheduler",
        ),
        ("timestamp('2020-01-01T00:00:00Z') == now", "not known to this scheduler"),
        ("has(device)", "invalid argument to has() macro"),
        ("[1].all(1, true)", "argument is not an identifier"),
        ("1.all(x, true)", "cannot be range of a comprehension"),
        ("for == 1", "reserved identifier: for"),
        ("9223372036854775808 == 1", "invalid int literal"),
        ("'\\q' == ''", "unknown escape"),
        ("Foo{a: 1}.a == 1", "messages are not known here"),
    ],
)
def test_what_makes_no_sense_is_told_before_any_device_is_looked_at(expression: str, text: str) -> None:
    """The message says what and where."""
    assert text in CelEvaluator().compiled(expression)
    with pytest.raises(CelCompileError):
        holds(expression)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (f"{D}.vendor == 'x'", "no such key: vendor. consider using CEL optional chaining"),
        ('device.attributes["other.example.com"].model == "x"', "no such key: model"),
        (f"{D}.index", "CEL result of type int could not be converted to bool"),
        (f'{D}.driverVersion == "12.4.1"', "no such overload: _==_(semver, string)"),
        (f"{D}.model.major() == 1", "no such overload: major(string)"),
        (f"{D}.model && true", "no such overload: _&&_(string)"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("-9223372036854775808 - 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("1 / 0 == 0", "division by zero"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("quantity(device.driver).isInteger()", "is not a quantity"),
        ("semver(device.driver).major() == 1", "is not a semantic version"),
        ("[0].all(x, 1 / x == 1)", "division by zero"),
        ("[2, 0].exists(x, 1 / x == 1)", "division by zero"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("int('x') == 1", "type conversion error"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range"),
        ("'a'.matches('(')", "error parsing regexp"),
        (f"dyn({D}.links.map(x, dyn(x)) + ['a']).sum() == 3", "no such overload"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error_never_a_no(expression: str, text: str) -> None:
    """As kube-scheduler, which stops at it."""
    assert CelEvaluator().compiled(expression) == ""
    with pytest.raises(CelError) as caught:
        holds(expression)
    assert text in str(caught.value)


def doubled(times: int) -> str:
    """An expression that doubles a text so often."""
    inner = f"size(v{times}) > 0"
    for turn in range(times, 0, -1):
        inner = f"cel.bind(v{turn}, v{turn - 1} + v{turn - 1}, {inner})"
    return f'cel.bind(v0, "xxxxxxxxxx", {inner})'


TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


@pytest.mark.parametrize(
    "expression",
    [
        doubled(40),
        doubled(40).replace('"xxxxxxxxxx"', TEN),
        "".join(f"{TEN}.all({name}, " for name in "abcdefg") + "true" + ")" * 7,
        '"x"' + '.replace("", "yyyyyyyyyyyyyyyyyyyy")' * 12 + ".size() > 0",
        "".join(f"{TEN}.map({name}, " for name in "abcdefg") + "1" + ")" * 7 + ".size() == 0",
        f'"{"a" * 4000}".matches("{"(a*)*" * 200}b")',
    ],
)
def test_what_takes_too_much_work_is_refused(expression: str) -> None:
    """At the cost that kube-apiserver allows, and nothing of the expression can swallow that."""
    with pytest.raises(CelCostError, match="cost limit exceeded"):
        CelEvaluator(most_cost=100_000).holds(expression, DRIVER, GPU)
    with pytest.raises(CelCostError):
        CelEvaluator(most_cost=100_000).holds(f"({expression}) || true", DRIVER, GPU)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("x" * 10_241, "longer than 10240 bytes"),
        ("(" * 400 + "true" + ")" * 400, "nested deeper than 64 levels"),
        ("[" * 400 + "]" * 400 + " == []", "nested deeper than 64 levels"),
        ("-" * 3000 + "1 == 1", ""),
        ("true && " * 1000 + "true", ""),
        ("1 + " * 2000 + "1 == 2001", "nested too deeply"),
    ],
)
def test_what_is_too_long_or_too_deep_is_refused(expression: str, text: str) -> None:
    """Long chains of logic are no depth."""
    assert text in (said := CelEvaluator().compiled(expression))
    assert bool(said) is bool(text)


def test_an_expression_that_is_dear_on_every_device_is_refused_after_some() -> None:
    """Thousands of devices would add up: the sum of heavy evaluations is limited, too."""
    evaluator = CelEvaluator()
    dear = "".join(f"{TEN}.all({name}, " for name in "abcde") + f"{D}.index >= 0" + ")" * 5
    devices = [Device(name=f"d{i}", attributes={"index": Attribute("int", i)}) for i in range(100)]
    with pytest.raises(CelCostError, match="the expression costs too much: "):
        assert all(evaluator.holds(dear, DRIVER, device) for device in devices)
    assert evaluator.holds(f"{D}.index == 3", DRIVER, devices[3])
    with pytest.raises(CelCostError):
        evaluator.holds(dear, DRIVER, devices[99])


def test_equal_devices_are_evaluated_once() -> None:
    """By what an expression can see; another value is another device."""
    evaluator = CelEvaluator()
    twins = [Device(name=name, attributes={"index": Attribute("int", 1)}) for name in ("a", "b")]
    assert all(evaluator.holds(f"{D}.index == 1", DRIVER, twin) for twin in twins)
    assert len(evaluator._facts) == 1
    assert not evaluator.holds(f"{D}.index == 1", DRIVER, Device(name="a", attributes={"index": Attribute("int", 2)}))
    assert not evaluator.holds(
        f"{D}.index == 1", DRIVER, Device(name="a", attributes={"index": Attribute("bool", value=True)})
    )


@pytest.mark.parametrize("attribute", [Attribute("version", "1.0"), Attribute("")])
def test_a_device_that_cannot_be_shown_is_an_error(attribute: Attribute) -> None:
    """Whatever the expression asks for; as kube-scheduler."""
    with pytest.raises(CelError, match="attribute odd: "):
        holds("true", Device(name="x", attributes={"odd": attribute}))
