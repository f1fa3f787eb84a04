"""From text in index notation to a tree.

::

    text      = statement {(";" | newline) statement}
    statement = name "[" [index {"," index}] "]" "=" value ["where" range {"," range}]
    range     = index "in" number ":" number
    value     = disjunctions, conjunctions, comparisons, sums, products, powers, as in Python
    reduction = ("sum" | "prod" | "min" | "max" | "mean") "(" (index | range) {"," …} ")" product

A reduction extends over the product that follows it: `sum(k) a[k] * b[k] + c[i]` adds `c[i]` once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise

from afterglow.ops.comprehension.tree import (
    Access,
    Affine,
    Call,
    Expression,
    Index,
    Notation,
    Number,
    Reduction,
    Statement,
    display,
    indices_of,
)
from afterglow.ops.comprehension.vocabulary import ARITIES, COMPARISONS, REDUCTIONS
from afterglow.support.errors import ParseError, UsageError
from afterglow.support.lazy_dataclass import dataclass

_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|#[^\n]*)|(?P<end>[;\n])"
    r"|(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<mark>\*\*|<=|>=|==|!=|[-+*/<>=(),:\[\]])"
)
_KEYWORDS = ("and", "or", "not", "in", "where")
_LARGEST = 1 << 31
_DEEPEST = 30
_MOST_OPERATORS = 200
_EXCERPT = 80
"""Characters before and behind a fault that an error shows."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def excerpt_at(text: str, at: int) -> tuple[str, str]:
    """The line of a text around a position, shortened if it is long, and a caret below."""
    start = max(text.rfind("\n", 0, at) + 1, at - _EXCERPT)
    end = text.find("\n", at)
    end = min(len(text) if end < 0 else end, at + _EXCERPT)
    return text[start:end], " " * (at - start) + "^"


def _fault(text: str, what: str, at: int, help: str = "") -> ParseError:
    return ParseError(what, excerpt=excerpt_at(text, at), help=help)


def _tokens(text: str) -> Iterator[_Token]:
    position, depth = 0, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _fault(text, f"unexpected character {text[position]!r}", position)
        kind, found = match.lastgroup or "", match.group()
        depth += (found in "([") - (found in ")]") if kind == "mark" else 0
        if kind != "space" and (kind != "end" or (found == ";" or depth == 0)):
            yield _Token(kind, found, position)
        position = match.end()
    yield _Token("stop", "the end", len(text))


def with_attributes(text: str, attributes: Mapping[str, float]) -> str:
    """The text with numbers for the names of attributes."""
    pieces, position, used = [], 0, set()
    tokens = list(_tokens(text))
    for token, following in pairwise(tokens):
        if token.text in attributes and token.kind == "name" and following.text not in ("[", "("):
            value = attributes[token.text]
            pieces += [text[position : token.at], f"({value!r})" if value < 0 else repr(value)]
            position = token.at + len(token.text)
            used.add(token.text)
    unused = ", ".join(repr(name) for name in attributes if name not in used)
    if unused:
        raise UsageError(f"the text has no attribute {unused}", help=f"it is {text!r}")
    return "".join((*pieces, text[position:]))


@lru_cache(256)
def parse_notation(text: str) -> Notation:
    """Read a text; a `ParseError` shows the place of what is wrong in it."""
    return _Parser(text).run()


class _Parser:
    """Recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.position = 0
        self.depth = 0
        self.ranges: list[tuple[str, int, int, int]] = []
        self.bound: dict[str, str] = {}
        self.count = 0
        self.operators = 0
        self.target = ""

    def run(self) -> Notation:
        statements: list[Statement] = []
        while self._skip_ends() and self.next.kind != "stop":
            statements.append(self._statement([s.target for s in statements]))
            if self.next.kind not in ("end", "stop"):
                raise self._error(f"expected the end of the statement, found {self.next.text!r}")
        if not statements:
            raise self._error("there is no statement")
        return Notation(self.text, tuple(statements))

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def _skip_ends(self) -> bool:
        while self.next.kind == "end":
            self.position += 1
        return True

    def _error(self, what: str, at: int | None = None, help: str = "") -> ParseError:
        return _fault(self.text, what, self.next.at if at is None else at, help)

    def _accept(self, *marks: str) -> _Token | None:
        token = self.next
        if token.kind in ("mark", "name") and token.text in marks:
            self.position += 1
            return token
        return None

    def _expect(self, mark: str) -> _Token:
        found = self._accept(mark)
        if found is None:
            raise self._error(f"expected {mark!r}, found {self.next.text!r}")
        return found

    def _name(self, what: str) -> _Token:
        token = self.next
        if token.kind != "name" or token.text in _KEYWORDS:
            raise self._error(f"expected {what}, found {token.text!r}")
        self.position += 1
        return token

    def _listed(self, end: str, item: Callable[[], None]) -> None:
        """Items between commas, up to a closing bracket."""
        while not self._accept(end):
            item()
            if self.next.text != end:
                self._expect(",")

    def _statement(self, before: list[str]) -> Statement:
        target = self._name("the name of a result")
        if target.text in before:
            raise self._error(f"{target.text} is defined twice", target.at)
        self._expect("[")
        free: list[str] = []
        self._listed("]", lambda: self._add_free(free))
        self._expect("=")
        self.ranges, self.bound = [], {name: name for name in free}
        self.count, self.operators, self.target = 0, 0, target.text
        value = self._value()
        if self._accept("where"):
            self._range()
            while self._accept(","):
                self._range()
        statement = Statement(target.text, tuple(free), value, tuple(self.ranges), target.at)
        self._check_indices(statement)
        return statement

    def _add_free(self, free: list[str]) -> None:
        token = self._name("an index")
        if token.text in free:
            raise self._error(f"index {token.text} is on the left twice", token.at)
        free.append(token.text)

    def _check_indices(self, statement: Statement) -> None:
        given = {name for name, *_ in statement.ranges}
        used = indices_of(statement.value)
        for name in statement.free:
            if name not in used | given:
                raise self._error(
                    f"index {name} is on the left, but nothing on the right depends on it",
                    statement.at,
                    help=f"give its range: where {name} in 0:8",
                )

    def _range(self) -> None:
        token = self._name("an index")
        if token.text not in self.bound:
            raise self._error(
                f"{token.text} is not an index on the left", token.at, help="sum(k in 0:3) …"
            )
        self._expect("in")
        self._bounds(self.bound[token.text], token.at)

    def _bounds(self, index: str, at: int) -> None:
        first = self._integer()
        self._expect(":")
        end = self._integer()
        if not first < end:
            raise self._error(f"range {first}:{end} of {display(index)} is empty", at)
        if end - first >= _LARGEST:
            raise self._error(f"range {first}:{end} of {display(index)} is too large", at)
        if any(name == index for name, *_ in self.ranges):
            raise self._error(f"the range of {display(index)} is given twice", at)
        if "#" not in index and first != 0:
            raise self._error(f"index {index} is on the left: its range must begin at 0", at)
        self.ranges.append((index, first, end, at))

    def _integer(self) -> int:
        at = self.next.at
        affine = self._affine(self._sum(), at)
        if affine.terms:
            raise self._error("the end of a range must be a number", at)
        return affine.constant

    def _value(self) -> Expression:
        return self._left(self._conjunction, {"or": "or"})

    def _conjunction(self) -> Expression:
        return self._left(self._negation, {"and": "and"})

    def _negation(self) -> Expression:
        token = self._accept("not")
        return self._comparison() if token is None else Call("not", (self._negation(),), token.at)

    def _comparison(self) -> Expression:
        left = self._sum()
        token = self._accept(*COMPARISONS)
        if token is None:
            return left
        return Call(token.text, (left, self._sum()), token.at)

    def _sum(self) -> Expression:
        return self._left(self._product, {"+": "+", "-": "-"})

    def _product(self) -> Expression:
        return self._left(self._signed, {"*": "*", "/": "/"})

    def _left(self, part: Callable[[], Expression], names: Mapping[str, str]) -> Expression:
        """Parts joined by operators that associate to the left."""
        left = part()
        while token := self._accept(*names):
            self.operators += 1
            if self.operators > _MOST_OPERATORS:
                raise self._error(
                    f"a statement has more than {_MOST_OPERATORS} operators",
                    token.at,
                    help="define temporaries: t[i] = …; o[i] = t[i] + …",
                )
            left = Call(names[token.text], (left, part()), token.at)
        return left

    def _signed(self) -> Expression:
        token = self._accept("-", "+")
        if token is None:
            return self._power()
        inner = self._nested(self._signed)
        if token.text == "+":
            return inner
        if isinstance(inner, Number):
            return Number(-inner.value, token.at)
        return Call("neg", (inner,), token.at)

    def _power(self) -> Expression:
        base = self._atom()
        token = self._accept("**")
        return base if token is None else Call("pow", (base, self._nested(self._signed)), token.at)

    def _nested(self, inner: Callable[[], Expression]) -> Expression:
        """A part of an expression, unless expressions are nested too deeply."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error(f"expressions are nested more than {_DEEPEST} deep")
        found = inner()
        self.depth -= 1
        return found

    def _atom(self) -> Expression:
        token = self.next
        if self._accept("("):
            inner = self._nested(self._value)
            self._expect(")")
            return inner
        if token.kind == "number":
            self.position += 1
            value = int(token.text) if token.text.isdigit() else float(token.text)
            return Number(value, token.at)
        calls_where = token.text == "where" and self.tokens[self.position + 1].text == "("
        name = self._expect("where") if calls_where else self._name("a value")
        match self.next.text:
            case "[":
                return self._access(name)
            case "(":
                return self._reduction(name) if self._reduces(name) else self._call(name)
        if name.text not in self.bound:
            raise self._error(
                f"unknown index {name.text}: it is not on the left, and no reduction binds it",
                name.at,
                help=f"sum({name.text}) binds it in the product that follows, "
                "or in a sum in parentheses",
            )
        return Index(self.bound[name.text], name.at)

    def _access(self, name: _Token) -> Access:
        if name.text == self.target:
            raise self._error(f"{name.text} is what the statement defines", name.at)
        self._expect("[")
        indices: list[Affine] = []

        def index() -> None:
            at = self.next.at
            indices.append(self._affine(self._nested(self._sum), at))

        self._listed("]", index)
        return Access(name.text, tuple(indices), name.at)

    def _affine(self, value: Expression, at: int) -> Affine:
        match value:
            case Number(number) if isinstance(number, int):
                return Affine(number, ())
            case Index(name):
                return Affine(0, ((name, 1),))
            case Call("neg", (inner,)):
                return Affine(0, ()).plus(self._affine(inner, at), -1)
            case Call("+" | "-" as sign, (left, right)):
                return self._affine(left, at).plus(self._affine(right, at), 1 - 2 * (sign == "-"))
            case Call("*", (left, right)):
                factors = self._affine(left, at), self._affine(right, at)
                scale, other = sorted(factors, key=lambda factor: len(factor.terms))
                if not scale.terms:
                    return Affine(0, ()).plus(other, scale.constant)
        raise self._error(
            "an index must be a sum of whole multiples of indices and numbers, as i + 2*k", at
        )

    def _reduces(self, name: _Token) -> bool:
        """Whether this is a reduction: `max(i, j)` may also be the larger of two indices."""
        if name.text not in REDUCTIONS:
            return False
        if name.text not in ARITIES:
            return True
        closing = next((t for t in self.tokens[self.position :] if t.text in (")", "[")), None)
        if closing is None or closing.text == "[":
            return False
        following = self.tokens[self.tokens.index(closing) + 1]
        starts = following.kind == "number" or following.text == "("
        return starts or (following.kind == "name" and following.text not in _KEYWORDS)

    def _reduction(self, name: _Token) -> Reduction:
        self._expect("(")
        indices: list[str] = []
        self._listed(")", lambda: self._bind(indices))
        if not indices:
            raise self._error(f"{name.text} needs an index to run over", name.at)
        body = self._nested(self._product)
        ranged = {index for index, *_ in self.ranges}
        for index in indices:
            if index not in indices_of(body) | ranged:
                raise self._error(
                    f"nothing under {name.text} depends on index {display(index)}", name.at
                )
        for index in indices:
            del self.bound[display(index)]
        return Reduction(name.text, tuple(indices), body, name.at)

    def _bind(self, indices: list[str]) -> None:
        token = self._name("an index")
        if token.text in self.bound:
            where = "on the left" if "#" not in self.bound[token.text] else "bound already"
            raise self._error(
                f"index {token.text} is {where}: a reduction cannot run over it", token.at
            )
        self.count += 1
        index = self.bound[token.text] = f"{token.text}#{self.count}"
        indices.append(index)
        if self._accept("in"):
            self._bounds(index, token.at)

    def _call(self, name: _Token) -> Call:
        if name.text not in ARITIES:
            known = ", ".join(sorted({*ARITIES, *REDUCTIONS} - {*COMPARISONS}))
            raise self._error(
                f"there is no function {name.text}", name.at, help=f"there are {known}"
            )
        self._expect("(")
        arguments: list[Expression] = []
        self._listed(")", lambda: arguments.append(self._nested(self._value)))
        wanted = ARITIES[name.text]
        if len(arguments) != wanted:
            raise self._error(
                f"{name.text} takes {wanted} argument{'s' * (wanted > 1)}, got {len(arguments)}",
                name.at,
            )
        return Call(name.text, tuple(arguments), name.at)
