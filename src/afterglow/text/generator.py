"""`Generator`: texts from a language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any, TypeAlias, Unpack, overload

import numpy as np

from afterglow.runtime.bundle import Bundle
from afterglow.support.errors import UsageError
from afterglow.text.chat import render_chat
from afterglow.text.decoder import CachedDecoder
from afterglow.text.generation import Generation, Piece
from afterglow.text.opening import Opening, open_drafter, open_text_model
from afterglow.text.options import GenerateArguments, GenerationOptions, checked_tokens
from afterglow.text.prefix import load_prefix, save_prefix
from afterglow.text.request import GenerationRequest
from afterglow.text.sampling import is_count
from afterglow.text.scheduler import Prefix, Scheduler
from afterglow.text.tokens import Tokenizer

Prompt: TypeAlias = "str | Sequence[int]"
"""A text, or tokens."""


class Generator:
    """Generates text with a language model.

    One generator may serve several threads: their prompts run together, as several prompts of one
    call do. What it generates for a prompt does not depend on the others.

    Args:
        model: a path (GGUF, a folder of Hugging Face, ONNX, or a model saved by Afterglow), a
            compiled model, or a `Decoder`.
        tokenizer: a `Tokenizer`, or the path of a tokenizer.json; by default the model's own.
        context: the most tokens that a prompt and what follows it may have together; by default
            what the model was trained for, at most 2,048.
        sequences: how many prompts run at once; others wait for their turn.
        cache_type: what a model of GGUF or Hugging Face keeps its keys and values in: "float32",
            or "float16" or "int8" for a half or about a quarter of the memory; not for its draft.
        draft: what proposes tokens that the model verifies several at a time: "ngram" for what
            came after the same tokens before, or a smaller model with the same vocabulary.
        draft_tokens: how many tokens are proposed at once.
        chat_template: a template for `chat_tokens`; by default the model's own.
        threads: number of threads; by default all cores that this process may use.
        compile_options: further options of `afterglow.compile`, for models that are compiled here.
    """

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        context: int | None = None,
        sequences: int | None = None,
        cache_type: str | None = None,
        draft: Any = None,
        draft_tokens: int = 6,
        chat_template: str | None = None,
        threads: int | None = None,
        **compile_options: Any,
    ) -> None:
        opening = Opening(context, sequences, threads, compile_options, cache_type)
        opened = open_text_model(model, opening, tokenizer)
        self.decoder = opened.decoder
        self.context = opening.context or self.decoder.context
        """The most tokens that a prompt and what follows it may have together."""
        self.sequences = opening.sequences or self.decoder.sequences
        """How many prompts run at once."""
        self.tokenizer = opened.tokenizer
        self.stop_tokens = opened.stop_tokens
        """The tokens that end a text, unless a call gives others."""
        self.chat_template = chat_template or opened.chat_template
        self._bos = opened.bos
        if not (is_count(draft_tokens) and draft_tokens > 0):
            raise UsageError(
                f"draft_tokens must be a whole number, 1 or more, got {draft_tokens!r}"
            )
        drafter = None if draft is None else open_drafter(draft, self.decoder, opening)
        self._scheduler = Scheduler(self.decoder, self.sequences, drafter, index(draft_tokens))

    @property
    def vocabulary(self) -> int:
        """The number of tokens there are."""
        return self.decoder.vocabulary

    @overload
    def generate(  # type: ignore[overload-overlap]  # a text is also a sequence of texts
        self,
        prompt: Prompt,
        max_new_tokens: int | None = 256,
        **options: Unpack[GenerateArguments],
    ) -> Generation: ...

    @overload
    def generate(
        self,
        prompt: Sequence[Prompt],
        max_new_tokens: int | None = 256,
        **options: Unpack[GenerateArguments],
    ) -> list[Generation]: ...

    def generate(
        self,
        prompt: Any,
        max_new_tokens: int | None = 256,
        **options: Unpack[GenerateArguments],
    ) -> Generation | list[Generation]:
        """Generate what follows a prompt, or each of a list of prompts.

        Args:
            prompt: a text or tokens; or a list of these, which run together.
            max_new_tokens: the most tokens to generate; None for as many as the context has room.
            options: how tokens are chosen, and when to stop: `GenerateArguments`.
        """
        requests, is_list = self._requests(prompt, max_new_tokens, options)
        for _ in self._pieces(requests):
            pass
        results = [request.result() for request in requests]
        return results if is_list else results[0]

    def stream(
        self,
        prompt: Prompt | Sequence[Prompt],
        max_new_tokens: int | None = 256,
        **options: Unpack[GenerateArguments],
    ) -> Iterator[Piece]:
        """Generate as `generate` does, piece by piece: texts with their tokens, as they come.

        The pieces of several prompts come in any order: `prompt_index` says to which one belongs.
        """
        requests, _ = self._requests(prompt, max_new_tokens, options)
        return self._pieces(requests)

    def chat_tokens(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> list[int]:
        """The prompt for a conversation, by the model's chat template.

        Args:
            messages: dictionaries with "role" ("system", "user", "assistant") and "content".
            variables: further variables of the template, such as `tools`.
        """
        tokenizer, bos = self._tokenizer(), self._bos
        first = "" if bos is None else tokenizer.piece(bos)
        last = next((tokenizer.piece(token) for token in sorted(self.stop_tokens)), "")
        text = render_chat(
            self.chat_template, messages, bos_token=first, eos_token=last, **variables
        )
        return tokenizer.encode(text, bos=False if first and text.startswith(first) else None)

    def keep_prefix(self, prompt: Prompt) -> None:
        """Compute what prompts often begin with, and let those begin behind it from now on."""
        prefix = self._computed(prompt)
        self._scheduler.prefixes[prefix.tokens] = prefix

    def save_prefix(self, prompt: Prompt, path: str | Path) -> None:
        """As `keep_prefix`, but to a file, which `load_prefix` reads."""
        save_prefix(self._computed(prompt), path)

    def load_prefix(self, path: str | Path) -> None:
        """Let prompts begin behind a prefix that was saved with the same model."""
        prefix = load_prefix(path, self.decoder)
        self._scheduler.prefixes[prefix.tokens] = prefix

    def export_bundle(self, folder: str | Path, **options: Any) -> Bundle:
        """C files that generate text without Afterglow: `CompiledModel.export_bundle`."""
        if not isinstance(self.decoder, CachedDecoder):
            raise UsageError(
                "only models with caches as state, of GGUF or Hugging Face, become such bundles",
                help="export an ONNX model with export_bundle of the compiled model",
            )
        return self.decoder.model.export_bundle(folder, **options)

    def drop_prefixes(self) -> None:
        """Forget the prefixes that are kept, and free their memory."""
        self._scheduler.prefixes.clear()

    def _computed(self, prompt: Prompt) -> Prefix:
        with self._scheduler.lock:
            (request,), _ = self._requests(prompt, 1, {})
            for _ in self._pieces([request]):
                pass
            return self._scheduler.prefix(request.prompt)

    def _requests(
        self, prompt: Any, max_new_tokens: Any, options: Mapping[str, Any]
    ) -> tuple[list[GenerationRequest], bool]:
        """A request for each prompt, and whether a list of prompts was given."""
        prompts, is_list = _listed(prompt)
        seeds = _seeds(options.get("seed"), len(prompts))
        requests = []
        for place, (each, seed) in enumerate(zip(prompts, seeds, strict=True)):
            made = GenerationOptions.of(
                {**options, "seed": seed}, max_new_tokens, self.vocabulary, self.stop_tokens
            )
            requests.append(self._request(self._tokens(each), made, place))
        return requests, is_list

    def _request(
        self, tokens: Sequence[int], options: GenerationOptions, index: int
    ) -> GenerationRequest:
        if options.stop:
            self._tokenizer()
        return GenerationRequest(
            tokens,
            options,
            vocabulary=self.vocabulary,
            context=self.context,
            text=None if self.tokenizer is None else self.tokenizer.stream(),
            index=index,
        )

    def _tokens(self, prompt: Any) -> list[int]:
        if isinstance(prompt, str):
            tokens = self._tokenizer().encode(prompt)
        else:
            tokens = checked_tokens("the prompt", prompt, self.vocabulary)
        if not tokens:
            raise UsageError(
                "the prompt is empty", help="give a text, or the token that begins texts"
            )
        if len(tokens) > self.context:
            raise UsageError(
                f"the prompt has {len(tokens)} tokens, the model a context of {self.context}",
                help="shorten it, or make the generator with a larger context=",
            )
        return tokens

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise UsageError(
                "the model has no tokenizer: it takes tokens, not texts",
                help="give one: Generator(model, tokenizer='tokenizer.json')",
            )
        return self.tokenizer

    def _pieces(self, requests: Sequence[GenerationRequest]) -> Iterator[Piece]:
        """The pieces of requests as they come; ended early, it leaves nothing behind."""
        going = list(requests)
        try:
            for request in requests:
                self._scheduler.submit(request)
            while going:
                self._scheduler.advance(going)
                for request in going:
                    while request.pieces:
                        yield request.pieces.popleft()
                    if request.error is not None:
                        raise request.error
                going = [request for request in going if not request.is_over or request.pieces]
        finally:
            for request in requests:
                self._scheduler.cancel(request)


def _listed(prompt: Any) -> tuple[list[Any], bool]:
    """The prompts, and whether they were given as a list of several."""
    if isinstance(prompt, (list, tuple)) and prompt and not is_count(prompt[0]):
        is_list = all(isinstance(each, (str, list, tuple, np.ndarray)) for each in prompt)
        if is_list:
            return list(prompt), True
    if isinstance(prompt, np.ndarray) and prompt.ndim == 2:
        return list(prompt), True
    return [prompt], False


def _seeds(given: Any, count: int) -> list[Any]:
    """A seed for each of some prompts."""
    if not isinstance(given, (list, tuple, np.ndarray)):
        return [given] * count
    if len(given) != count:
        raise UsageError(f"there are {len(given)} seeds for {count} prompts")
    return list(given)
