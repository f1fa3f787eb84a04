"""Chat templates: how a model wants to be given a conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from afterglow.support.errors import ModelError, UnsupportedError, UsageError


def render_chat(
    template: str | None,
    messages: Any,
    *,
    bos_token: str = "",
    eos_token: str = "",
    add_generation_prompt: bool = True,
    **variables: Any,
) -> str:
    """The text of a conversation as a template of a model writes it.

    Messages are dictionaries with "role" and "content". The template runs in the sandbox of
    Jinja, which lets it read what it is given and nothing else.
    """
    if not template:
        raise UsageError(
            "the model has no chat template",
            help="write the prompt as the model wants it, without chat, or give chat_template=",
        )
    given = {
        "messages": _checked(messages),
        "bos_token": bos_token,
        "eos_token": eos_token,
        "add_generation_prompt": add_generation_prompt,
        **variables,
    }
    return _render(template, given)


def _checked(messages: Any) -> list[dict[str, Any]]:
    is_list = isinstance(messages, Sequence) and not isinstance(messages, str)
    if not is_list or not messages or not all(map(_is_message, messages)):
        raise UsageError(
            "messages of a chat must be a list of dictionaries with 'role' and 'content', "
            f"got {messages!r}",
            help='write [{"role": "user", "content": "…"}]',
        )
    return [dict(message) for message in messages]


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and isinstance(message.get("role"), str)


def _render(template: str, variables: Mapping[str, Any]) -> str:
    try:
        # here, because only chats need it
        from jinja2 import TemplateError  # noqa: PLC0415
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415
    except ImportError:
        raise UnsupportedError(
            "chat templates need the package jinja2", help="pip install 'afterglow[text]'"
        ) from None
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_raise, strftime_now=_now)
    try:
        return environment.from_string(template).render(**variables)
    except AssertionError as refused:
        raise UsageError(f"the chat template refuses the messages: {refused}") from None
    except TemplateError as error:
        raise ModelError(f"the chat template cannot be used: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelError(f"the chat template failed: {error}") from None
    except RecursionError:
        raise ModelError("the chat template failed: it is nested too deeply") from None


def _raise(message: str) -> NoReturn:
    raise AssertionError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    """As JSON, with characters as they are: Jinja's own filter escapes them for HTML."""
    return json.dumps(value, indent=indent, ensure_ascii=False)
