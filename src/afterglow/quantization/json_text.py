"""JSON that people can read, and reading it with errors that say what is wrong, and where."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass


def format_json(data: Mapping[str, Any]) -> str:
    """A text with a line for each entry of an object; lists are on one line."""
    return _formatted(data, 0) + "\n"


def _formatted(data: Any, depth: int) -> str:
    if not isinstance(data, Mapping) or not data:
        return json.dumps(data, ensure_ascii=False, allow_nan=False)
    indent = " " * (depth + 1)
    entries = (
        f"{indent}{json.dumps(key, ensure_ascii=False)}: {_formatted(value, depth + 1)}"
        for key, value in data.items()
    )
    return "{\n" + ",\n".join(entries) + "\n" + " " * depth + "}"


@dataclass(frozen=True)
class JsonObject:
    """An object of a JSON file, whose entries are checked as they are read."""

    file: str
    data: Mapping[str, Any]
    place: str = ""

    @staticmethod
    def parse(file: str, text: str) -> JsonObject:
        """The object that a text holds."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            line = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
            what = error.msg.lower() if isinstance(error, json.JSONDecodeError) else "no text"
            raise UsageError(
                f"{file} is not a profile: it is not JSON",
                where=f"{line}{what}",
                help="afterglow quantize writes profiles",
            ) from None
        if not isinstance(data, dict):
            raise UsageError(
                f"{file} is not a profile: it holds no object",
                help="afterglow quantize writes profiles",
            )
        return JsonObject(file, data)

    def damaged(self, key: str, wanted: str) -> UsageError:
        """The error about an entry that is not what it should be."""
        return UsageError(
            f"{self.file} is damaged: {self.place}{key} must be {wanted}",
            help="make the profile again, with afterglow quantize",
        )

    def object(self, key: str) -> JsonObject:
        """An entry that is an object."""
        found = self.data.get(key)
        if not isinstance(found, dict):
            raise self.damaged(key, "an object")
        return JsonObject(self.file, found, f"{self.place}{key}.")

    def objects(self) -> Iterator[tuple[str, JsonObject]]:
        """All entries, which are objects."""
        for key in self.data:
            yield key, self.object(key)

    def text(self, key: str) -> str:
        """An entry that is a text."""
        found = self.data.get(key)
        if not isinstance(found, str):
            raise self.damaged(key, "a text")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """An entry that is a list of texts."""
        found = self.data.get(key)
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise self.damaged(key, "a list of texts")
        return tuple(found)

    def count(self, key: str) -> int:
        """An entry that is a whole number, not below 0."""
        found = self.data.get(key)
        if not _is_count(found):
            raise self.damaged(key, "a whole number, not below 0")
        assert isinstance(found, int)
        return found

    def counts(self, key: str) -> list[int]:
        """An entry that is a list of such numbers."""
        found = self.data.get(key)
        if not isinstance(found, list) or not all(map(_is_count, found)):
            raise self.damaged(key, "a list of whole numbers, not below 0")
        return found

    def number(self, key: str) -> float:
        """An entry that is a finite number."""
        found = self.data.get(key)
        if not _is_number(found):
            raise self.damaged(key, "a finite number")
        assert isinstance(found, (int, float))
        return float(found)

    def numbers(self, key: str) -> list[float]:
        """An entry that is a list of finite numbers."""
        found = self.data.get(key)
        if not isinstance(found, list) or not all(map(_is_number, found)):
            raise self.damaged(key, "a list of finite numbers")
        return found


def _is_count(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**63


def _is_number(found: object) -> bool:
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    return is_number and math.isfinite(found)  # type: ignore[arg-type]  # it is a number
