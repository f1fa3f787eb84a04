"""The header of the C code that generates text with a bundle."""

from __future__ import annotations

from afterglow.backends.bundling.template import Text

HEADER = Text(r"""/* Text from @name: tokenizer, sampler and the loop that generates.
 *
 * Plain C99. It allocates nothing and starts no threads: all memory is the caller's.
 * Build @{name}_text.c with the program, and link the math library (-lm).
 */
#ifndef @{upper}_TEXT_H
#define @{upper}_TEXT_H

#include "@name.h"

#ifdef __cplusplus
extern "C" {
#endif

#define @{upper}_TEXT_CONTEXT @context /* most tokens of prompt and generated text together */
#define @{upper}_TEXT_VOCABULARY @vocabulary
#define @{upper}_TEXT_MOST_BYTES @most_bytes /* longest prompt that can be encoded */
#define @{upper}_TEXT_CACHE_BYTES ((size_t)@cache_bytes)
#define @{upper}_TEXT_BYTES ((size_t)@bytes) /* caches and what encoding and sampling need */

/* Statuses, besides those of @{name}.h. */
enum {
    @{upper}_TEXT_ERROR_VOCABULARY = 100, /* the vocabulary is damaged, or of another model */
    @{upper}_TEXT_ERROR_PROMPT = 101,     /* the prompt is empty, or longer than the context */
    @{upper}_TEXT_ERROR_SAMPLING = 102,   /* a parameter of sampling is out of range */
    @{upper}_TEXT_ERROR_LOGITS = 103,     /* the model's logits cannot be compared */
    @{upper}_TEXT_ERROR_TOKENIZER = 104   /* texts are not encoded for this model: give tokens */
};

/* Why generating ended. */
enum {
    @{upper}_TEXT_END = 1,    /* a token that ends texts */
    @{upper}_TEXT_LENGTH = 2, /* as many tokens as were asked for */
    @{upper}_TEXT_FULL = 3,   /* the context is full */
    @{upper}_TEXT_STOPPED = 4 /* the callback said so */
};

typedef struct {
    const void *vocabulary;  /* the contents of @name.vocabulary, aligned to 4 bytes */
    size_t vocabulary_bytes;
@weights    void *arena;             /* @{upper}_ARENA_BYTES, aligned to @{upper}_ARENA_ALIGN */
    void *memory;            /* @{upper}_TEXT_BYTES, aligned likewise; need not be set to zero */
    afterglow_team *team;    /* who shares the work; null for this thread alone */
} @{prefix}_text;

typedef struct {
    float temperature; /* 0: the likeliest token */
    int32_t top_k;     /* of the likeliest so many; 0: of all */
    float top_p;       /* of the fewest whose probabilities reach this; 1 (or 0): of all */
    float min_p;       /* of those at least so many times as likely as the likeliest; 0: of all */
    float repetition_penalty; /* makes tokens that were there before less likely; 1 (or 0): not */
    uint64_t seed;
} @{prefix}_sampling;

/* Called for each token, with the text that is whole by now; not 0 stops. */
typedef int (*@{prefix}_on_token)(void *user, int32_t token, const char *text, size_t length);

/* Check size and structure of the vocabulary: call it once, before anything else. */
int32_t @{prefix}_text_check(const @{prefix}_text *text);

/* The tokens of a text; of more than `capacity` nothing is written, and the prompt is too long. */
int32_t @{prefix}_text_encode(const @{prefix}_text *text, const char *prompt, size_t length,
                              int32_t *tokens, size_t capacity, size_t *count);

/* The bytes that a token stands for, which may be part of a character; their number. */
size_t @{prefix}_text_piece(const @{prefix}_text *text, int32_t token, const char **bytes);

/* Generate up to `most` tokens behind a prompt; `ending` says why it ended. */
int32_t @{prefix}_text_generate(const @{prefix}_text *text, const char *prompt, size_t length,
                                int32_t most, const @{prefix}_sampling *sampling,
                                @{prefix}_on_token on_token, void *user, int32_t *ending);

/* The same behind tokens. */
int32_t @{prefix}_text_generate_tokens(const @{prefix}_text *text, const int32_t *prompt,
                                       size_t count, int32_t most,
                                       const @{prefix}_sampling *sampling,
                                       @{prefix}_on_token on_token, void *user, int32_t *ending);

#ifdef __cplusplus
}
#endif
#endif
""")
