"""`afterglow generate`: text from a language model, as it comes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from afterglow.cli.session import Session, general_options
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.options import CACHE_TYPES
from afterglow.support.durations import duration
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.text import Generation, Generator
from afterglow.text.options import ON_FULL


@dataclass(frozen=True)
class Asked:
    """What to generate for: a text or a file with it, as it is or as a message of a chat."""

    prompt: str | None
    prompt_file: Path | None
    chat: bool
    system: str | None

    def read(self) -> str:
        """The text of the prompt."""
        if (self.prompt is None) == (self.prompt_file is None):
            raise UsageError(
                "a prompt is needed" if self.prompt is None else "there are two prompts",
                help="write --prompt TEXT, or --prompt-file FILE with - for standard input",
            )
        if self.system is not None and not self.chat:
            raise UsageError("--system is for chats", help="write --chat, too")
        return self.prompt if self.prompt is not None else _read(self.prompt_file or Path())

    def given(self, text: str, generator: Generator) -> str | Sequence[int]:
        """What the generator is given for a text: itself, or the tokens of a chat."""
        if not self.chat:
            return text
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        return generator.chat_tokens([*system, {"role": "user", "content": text}])


_SAMPLING = (
    click.option("--temperature", type=float, default=0.0, help="0 for the likeliest tokens."),
    click.option("--top-k", type=int, default=0, help="Choose among so many tokens; 0 for all."),
    click.option(
        "--top-p", type=float, default=1.0, help="Choose among the likeliest of this sum."
    ),
    click.option("--min-p", type=float, default=0.0, help="Drop what is less likely, relatively."),
    click.option("--repetition-penalty", type=float, default=1.0, help="Above 1, repeat less."),
    click.option("--seed", type=int, help="Decides what is chosen at random."),
    click.option("--stop", multiple=True, metavar="TEXT", help="End before this text."),
    click.option(
        "--on-full",
        type=click.Choice(ON_FULL),
        default="stop",
        show_default=True,
        help="What happens when the context is full.",
    ),
)


def _takes_sampling(command: Any) -> Any:
    for option in reversed(_SAMPLING):
        command = option(command)
    return command


@click.command(cls=VerbCommand)
@click.argument("model")
@click.option("--prompt", metavar="TEXT", help="What the text begins with.")
@click.option(
    "--prompt-file", type=click.Path(path_type=Path), help="A file with it; - is standard input."
)
@click.option("--chat", is_flag=True, help="The prompt is a message, for the model's template.")
@click.option("--system", metavar="TEXT", help="The system message of a chat.")
@click.option("-n", "--max-new-tokens", type=int, default=256, show_default=True)
@_takes_sampling
@click.option("--context", type=int, help="The most tokens of prompt and text together.")
@click.option(
    "--cache-type", type=click.Choice(tuple(CACHE_TYPES)), help="What keys and values are kept in."
)
@click.option("--tokenizer", metavar="FILE", help="A tokenizer.json, if the model has none.")
@click.option("--draft", metavar="MODEL|ngram", help="What proposes tokens, to be verified.")
@click.option("--draft-tokens", type=int, default=6, show_default=True)
@click.option("--threads", type=int, help="Number of threads; by default one per core.")
@click.option("--no-cache", is_flag=True, help="Do not read or write the cache on disk.")
@general_options
@click.pass_obj
def generate(
    session: Session,
    /,
    model: str,
    prompt: str | None,
    prompt_file: Path | None,
    chat: bool,
    system: str | None,
    max_new_tokens: int,
    context: int | None,
    cache_type: str | None,
    tokenizer: str | None,
    draft: str | None,
    draft_tokens: int,
    threads: int | None,
    no_cache: bool,
    **options: Any,
) -> int:
    """Generate text with MODEL, and show it as it comes.

    MODEL is a GGUF file, a folder of Hugging Face, an ONNX language model with its cache, or one of
    these compiled (FILE.agc). How fast it was is written to standard error.

    \b
    Examples:
      afterglow generate model.gguf --prompt "Once upon a time" -n 64
    """  # noqa: D301  click keeps lines after its mark as they are
    asked = Asked(prompt, prompt_file, chat, system)
    text = asked.read()
    started = perf_counter()
    generator = Generator(
        model,
        tokenizer=tokenizer,
        context=context,
        cache_type=cache_type,
        draft=draft,
        draft_tokens=draft_tokens,
        threads=threads,
        cache=not no_cache,
    )
    loaded = perf_counter() - started
    given = asked.given(text, generator)
    if session.json:
        result = generator.generate(given, max_new_tokens, **options)
        session.answer(_data(model, loaded, result), lambda: None)
        return 0
    _show(session, generator, given, max_new_tokens, options)
    return 0


def _show(
    session: Session,
    generator: Generator,
    given: str | Sequence[int],
    max_new_tokens: int,
    options: dict[str, Any],
) -> None:
    """Print pieces as they come, then how fast they came."""
    started = perf_counter()
    first, count = 0.0, 0
    for piece in generator.stream(given, max_new_tokens, **options):
        first = first or perf_counter() - started
        count += len(piece.tokens)
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    decoding = perf_counter() - started - first
    rate = f", {(count - 1) / decoding:.1f} tokens/s" if count > 1 else ""
    session.err.print(f"{count} tokens{rate}, the first after {duration(first)}", style="dim")


def _data(model: str, loaded: float, result: Generation) -> dict[str, Any]:
    """What was generated, as JSON can hold it."""
    return {
        "model": model,
        "load_seconds": loaded,
        "prompt_tokens": len(result.prompt),
        "tokens": list(result.tokens),
        "text": result.text,
        "finish_reason": result.finish_reason,
        "time_to_first_token": result.time_to_first_token,
        "tokens_per_second": result.tokens_per_second,
        "drafted": result.drafted,
        "accepted": result.accepted,
    }


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text in UTF-8") from None
