"""The C code that generates text with a bundle: tokenizer, sampler and loop."""

from __future__ import annotations

from afterglow.backends.bundling.template import Text

SOURCE = Text(r"""/* See @{name}_text.h. */
#include "@{name}_text.h"

#include <math.h>
#include <string.h>

enum { VOCABULARY = @vocabulary, CONTEXT = @context, CHUNK = @chunk, MOST_BYTES = @most_bytes };
#define NONE 0xffffffffu

typedef struct { /* what lies behind the caches in the caller's memory */
    double likely[VOCABULARY];
    float logits[VOCABULARY];
    uint32_t order[VOCABULARY];
    uint8_t seen[VOCABULARY]; /* whether a token was there before */
    int32_t prompt[CONTEXT], positions[CHUNK], sequences[CHUNK];
    float scores[MOST_BYTES + 1]; /* of joining a part with the next */
    uint32_t start[MOST_BYTES + 1], size[MOST_BYTES + 1], next[MOST_BYTES + 1];
    char text[MOST_BYTES + 2];
    uint8_t symbols[MOST_BYTES + 2], cuts[MOST_BYTES + 2]; /* of the characters of the text */
} work_memory;

#define WORK_BYTES (@{upper}_TEXT_BYTES - @{upper}_TEXT_CACHE_BYTES)
typedef char work_memory_fits[sizeof(work_memory) <= WORK_BYTES ? 1 : -1];

typedef struct {
    uint32_t tokens, found_count, special_count, end_count, flags, bos, unknown, texts, pairs;
    const uint32_t *ends, *offsets, *silent, *found, *special, *bytes, *others;
    const uint32_t *joined, *lefts, *ranks; /* pairs that are joined: text, size of the left part */
    const float *scores;
    const char *text;
} table;

static work_memory *work_of(const @{prefix}_text *t) {
    return (work_memory *)((char *)t->memory + @{upper}_TEXT_CACHE_BYTES);
}

static table table_of(const @{prefix}_text *t) {
    const uint32_t *words = t->vocabulary;
    table v = {words[3], words[4], words[5], words[6], words[8], words[9], words[10],
               words[3] + words[11], words[12], words + 13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    v.offsets = v.ends + v.end_count;
    v.silent = v.offsets + v.texts + 1;
    v.scores = (const float *)(v.silent + v.tokens);
    v.found = v.silent + 2 * (size_t)v.tokens;
    v.special = v.found + v.found_count;
    v.bytes = v.special + v.special_count;
    v.others = v.bytes + 256;
    v.joined = v.others + (v.texts - v.tokens);
    v.lefts = v.joined + v.pairs;
    v.ranks = v.lefts + v.pairs;
    v.text = (const char *)(v.ranks + v.pairs);
    return v;
}

static int all_below(const uint32_t *numbers, size_t count, uint32_t limit, int none) {
    for (size_t i = 0; i < count; i++)
        if (numbers[i] >= limit && !(none && numbers[i] == NONE)) return 0;
    return 1;
}

int32_t @{prefix}_text_check(const @{prefix}_text *t) {
    const uint32_t *words = t->vocabulary;
    size_t total;
    table v;
    if (words == NULL || t->arena == NULL || t->memory == NULL) return @{upper}_ERROR_NULL;
    if (t->vocabulary_bytes < 52 || words[0] != @magic || words[1] != @version)
        return @{upper}_TEXT_ERROR_VOCABULARY;
    if (words[2] > 2 || words[3] == 0 || words[3] > VOCABULARY || words[5] > words[3] ||
        words[6] > words[3] || words[11] > t->vocabulary_bytes / 8 ||
        words[12] > t->vocabulary_bytes / 12 || words[4] > words[3] + words[11])
        return @{upper}_TEXT_ERROR_VOCABULARY;
    total = 13 + (size_t)words[6] + 3 * (size_t)words[3] + 1 + words[4] + words[5] + 256 +
            2 * (size_t)words[11] + 3 * (size_t)words[12];
    if (t->vocabulary_bytes != 4 * total + words[7]) return @{upper}_TEXT_ERROR_VOCABULARY;
    v = table_of(t);
    for (uint32_t i = 0; i < v.texts; i++)
        if (v.offsets[i] > v.offsets[i + 1]) return @{upper}_TEXT_ERROR_VOCABULARY;
    if (v.offsets[0] != 0 || v.offsets[v.texts] != words[7] ||
        !all_below(v.ends, v.end_count, VOCABULARY, 0) ||
        !all_below(v.found, v.found_count, v.texts, 0) ||
        !all_below(v.others, v.texts - v.tokens, v.tokens, 1) ||
        !all_below(v.joined, v.pairs, v.texts, 0) ||
        !all_below(v.special, v.special_count, v.tokens, 0) ||
        !all_below(v.bytes, 256, v.tokens, 1) || !all_below(&v.bos, 1, VOCABULARY, 1) ||
        !all_below(&v.unknown, 1, VOCABULARY, 1))
        return @{upper}_TEXT_ERROR_VOCABULARY;
    for (uint32_t i = 0; i < v.pairs; i++)
        if (v.lefts[i] >= v.offsets[v.joined[i] + 1] - v.offsets[v.joined[i]])
            return @{upper}_TEXT_ERROR_VOCABULARY;
    return @{upper}_OK;
}

static size_t size_of(const table *v, uint32_t text) {
    return v->offsets[text + 1] - v->offsets[text];
}

size_t @{prefix}_text_piece(const @{prefix}_text *t, int32_t token, const char **bytes) {
    table v = table_of(t);
    *bytes = v.text;
    if (token < 0 || (uint32_t)token >= v.tokens || v.silent[token]) return 0;
    *bytes = v.text + v.offsets[token];
    return size_of(&v, (uint32_t)token);
}

/* Whether a text comes before one of the table: -1, or is the same: 0, or comes behind it: 1. */
static int compare(const table *v, const char *text, size_t size, uint32_t with) {
    size_t other = size_of(v, with);
    int order = memcmp(text, v->text + v->offsets[with], size < other ? size : other);
    return order != 0 ? order : size < other ? -1 : size > other;
}

/* The token that is spelled so; NONE if there is none. */
static uint32_t find(const table *v, const char *text, size_t size) {
    uint32_t low = 0, high = v->found_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, found = v->found[middle];
        int order = compare(v, text, size, found);
        if (order == 0) return found < v->tokens ? found : v->others[found - v->tokens];
        if (order < 0) high = middle; else low = middle + 1;
    }
    return NONE;
}
@rate
static void add_part(work_memory *w, uint32_t part, size_t at, size_t size) {
    w->start[part] = (uint32_t)at;
    w->size[part] = (uint32_t)size;
    w->next[part] = part + 1;
}

/* Join parts, the best pair first, and add their tokens; the number of all tokens, or NONE if they
 * are too many. */
static size_t join(const table *v, work_memory *w, uint32_t parts, int32_t *tokens,
                   size_t capacity, size_t count) {
    for (uint32_t i = 0; i < parts; i++) rate(v, w, i, parts);
    for (;;) {
        uint32_t best = NONE, before = NONE, left = NONE;
        for (uint32_t i = 0; i < parts; left = i, i = w->next[i])
            if (w->scores[i] > (best == NONE ? -INFINITY : w->scores[best]))
                best = i, before = left;
        if (best == NONE) break;
        w->size[best] += w->size[w->next[best]];
        w->next[best] = w->next[w->next[best]];
        rate(v, w, best, parts);
        if (before != NONE) rate(v, w, before, parts);
    }
    for (uint32_t i = 0; i < parts; i = w->next[i]) {
        const char *text = w->text + w->start[i];
        uint32_t token = find(v, text, w->size[i]);
        for (uint32_t j = 0; j < (token == NONE ? w->size[i] : 1); j++) {
            uint32_t added = token == NONE ? v->bytes[(unsigned char)text[j]] : token;
            if (added == NONE) added = v->unknown;
            if (added == NONE) continue;
            if (count >= capacity) return NONE;
            tokens[count++] = (int32_t)added;
        }
    }
    return count;
}
@plain
/* The special token that begins at a place of the text, the longest first; NONE if none does. */
static uint32_t special_at(const table *v, const char *text, size_t left) {
    for (uint32_t i = 0; i < v->special_count; i++) {
        uint32_t token = v->special[i];
        size_t size = size_of(v, token);
        if (size <= left && memcmp(text, v->text + v->offsets[token], size) == 0) return token;
    }
    return NONE;
}

int32_t @{prefix}_text_encode(const @{prefix}_text *t, const char *prompt, size_t length,
                              int32_t *tokens, size_t capacity, size_t *count) {
    work_memory *w = work_of(t);
    table v = table_of(t);
    size_t made = 0, done = 0, spaces = 1;
    if (((const uint32_t *)t->vocabulary)[2] > 1) return @{upper}_TEXT_ERROR_TOKENIZER;
    if (length > MOST_BYTES) return @{upper}_TEXT_ERROR_PROMPT;
    if ((v.flags & 2) && v.bos != NONE) {
        if (capacity == 0) return @{upper}_TEXT_ERROR_PROMPT;
        tokens[made++] = (int32_t)v.bos;
    }
    while (done < length) {
        uint32_t token = NONE;
        size_t stop = done, size = 0;
        while (stop < length && (token = special_at(&v, prompt + stop, length - stop)) == NONE)
            stop++;
        if (stop > done) {
            if (spaces && (v.flags & 1)) w->text[size++] = ' ';
            while (done < stop) { /* the sign that pieces have for a space may be one */
                int sign = (v.flags & 8) && stop - done >= 3 &&
                           memcmp(prompt + done, "\xe2\x96\x81", 3) == 0;
                w->text[size++] = sign ? ' ' : prompt[done];
                done += sign ? 3 : 1;
            }
            made = encode_plain(&v, w, size, tokens, capacity, made);
            if (made == NONE) return @{upper}_TEXT_ERROR_PROMPT;
        }
        spaces = token != NONE;
        if (token == NONE) continue;
        if (made >= capacity) return @{upper}_TEXT_ERROR_PROMPT;
        tokens[made++] = (int32_t)token;
        done = stop + size_of(&v, token);
    }
    if ((v.flags & 4) && v.end_count > 0) {
        if (made >= capacity) return @{upper}_TEXT_ERROR_PROMPT;
        tokens[made++] = (int32_t)v.ends[0];
    }
    *count = made;
    return @{upper}_OK;
}

/* Whether one token comes before another: it is likelier, or as likely and of a lower number. */
static int precedes(const work_memory *w, uint32_t a, uint32_t b) {
    return w->likely[a] > w->likely[b] || (w->likely[a] == w->likely[b] && a < b);
}

static void sift(work_memory *w, uint32_t at, uint32_t count) {
    for (;;) {
        uint32_t child = 2 * at + 1, token = w->order[at];
        if (child >= count) return;
        if (child + 1 < count && precedes(w, w->order[child + 1], w->order[child])) child++;
        if (!precedes(w, w->order[child], token)) return;
        w->order[at] = w->order[child];
        w->order[child] = token;
        at = child;
    }
}

/* Set to 0 what is not drawn from: all but the likeliest `most`, and of these the first whose
 * probabilities reach a share. */
static void keep_likeliest(work_memory *w, uint32_t most, double share) {
    double total = 0, sum = 0;
    uint32_t left = VOCABULARY;
    int all = most == VOCABULARY;
    for (uint32_t i = 0; i < VOCABULARY; i++) {
        w->order[i] = i;
        total += w->likely[i];
    }
    for (uint32_t i = VOCABULARY / 2; i-- > 0;) sift(w, i, VOCABULARY);
    while (VOCABULARY - left < most && !(all && sum >= share * total)) {
        uint32_t token = w->order[0]; /* the likeliest go to the end of the heap's memory */
        w->order[0] = w->order[--left];
        w->order[left] = token;
        sift(w, 0, left);
        sum += w->likely[token];
    }
    for (uint32_t i = 0; i < left; i++) w->likely[w->order[i]] = 0;
    if (all || share >= 1) return;
    total = sum;
    sum = 0;
    for (uint32_t i = VOCABULARY; i-- > left;) {
        int is_enough = sum >= share * total;
        sum += w->likely[w->order[i]];
        if (is_enough) w->likely[w->order[i]] = 0;
    }
}

/* A number that is at least 0 and below 1: the generator SplitMix64. */
static double uniform(uint64_t seed, uint64_t number) {
    uint64_t word = seed + (number + 1) * 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return (double)((word ^ word >> 31) >> 11) / 9007199254740992.0;
}

static void penalize(work_memory *w, float penalty) {
    for (uint32_t i = 0; i < VOCABULARY; i++)
        if (w->seen[i]) w->logits[i] = w->logits[i] > 0 ? w->logits[i] / penalty
                                                        : w->logits[i] * penalty;
}

/* The next token, of which `number` came before; -1 if logits cannot be compared. */
static int32_t choose(work_memory *w, const @{prefix}_sampling *s, uint64_t number) {
    uint32_t best = 0;
    double total = 0, sum = 0, drawn;
    if (s->repetition_penalty > 0) penalize(w, s->repetition_penalty);
    for (uint32_t i = 1; i < VOCABULARY; i++)
        if (w->logits[i] > w->logits[best] || isnan(w->logits[i])) best = i;
    if (!(w->logits[best] > -INFINITY)) return -1;
    if (s->temperature == 0) return (int32_t)best;
    for (uint32_t i = 0; i < VOCABULARY; i++)
        w->likely[i] =
            exp(((double)w->logits[i] - (double)w->logits[best]) / (double)s->temperature);
    if (s->top_k > 0 || (s->top_p > 0 && s->top_p < 1))
        keep_likeliest(w, s->top_k > 0 && s->top_k < VOCABULARY ? (uint32_t)s->top_k : VOCABULARY,
                       s->top_p > 0 ? (double)s->top_p : 1);
    for (uint32_t i = 0; i < VOCABULARY; i++) { /* the likeliest has 1 */
        if (w->likely[i] < (double)s->min_p) w->likely[i] = 0;
        total += w->likely[i];
    }
    drawn = uniform(s->seed, number) * total;
    for (uint32_t i = 0; i < VOCABULARY; i++) {
        sum += w->likely[i];
        if (w->likely[i] > 0 && sum > drawn) return (int32_t)i;
        if (w->likely[i] > 0) best = i;
    }
    return (int32_t)best;
}

/* Run the model on tokens from a position on; logits are those behind the last. */
static int32_t run(const @{prefix}_text *t, const int32_t *tokens, size_t count, size_t position) {
    work_memory *w = work_of(t);
    char *caches = t->memory;
    int32_t last = (int32_t)count - 1;
    @{prefix}_extents extents;
    @{prefix}_io io;
    memset(&extents, 0, sizeof extents);
    extents.tokens = (int64_t)count;
@extents    for (size_t i = 0; i < count; i++) {
        w->positions[i] = (int32_t)(position + i);
        w->sequences[i] = 0;
    }
    io.tokens = tokens;
    io.positions = w->positions;
    io.sequences = w->sequences;
    io.wanted = &last;
    io.logits = w->logits;
@caches    if (t->team != NULL) return @{prefix}_run_team(&io, t->arena@given, &extents, t->team);
    return @{prefix}_run(&io, t->arena@given, &extents);
}

/* How many of the bytes are whole characters; a byte that begins none counts as one. */
static size_t whole(const char *text, size_t size) {
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char lead = (unsigned char)text[size - back];
        if ((lead & 0xc0) == 0x80) continue;
        return lead >= (back == 1 ? 0xc0 : back == 2 ? 0xe0 : 0xf0) ? size - back : size;
    }
    return size;
}

typedef struct { /* bytes that wait for the rest of their character */
    char bytes[4 + @piece_bytes];
    size_t size;
} pending;

/* Tell a token; whether the callback stops. */
static int tell(const @{prefix}_text *t, pending *p, int32_t token, @{prefix}_on_token on_token,
                void *user) {
    const char *bytes;
    size_t size = @{prefix}_text_piece(t, token, &bytes), ready;
    int stops;
    if (size > sizeof p->bytes - p->size) size = sizeof p->bytes - p->size;
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
    ready = whole(p->bytes, p->size);
    stops = on_token != NULL && on_token(user, token, p->bytes, ready);
    p->size -= ready;
    memmove(p->bytes, p->bytes + ready, p->size);
    return stops;
}

static int ends(const table *v, int32_t token) {
    for (uint32_t i = 0; i < v->end_count; i++)
        if (v->ends[i] == (uint32_t)token) return 1;
    return 0;
}

int32_t @{prefix}_text_generate_tokens(const @{prefix}_text *t, const int32_t *prompt,
                                       size_t count, int32_t most,
                                       const @{prefix}_sampling *sampling,
                                       @{prefix}_on_token on_token, void *user, int32_t *ending) {
    static const @{prefix}_sampling greedy = {0, 0, 1, 0, 1, 0};
    const @{prefix}_sampling *s = sampling != NULL ? sampling : &greedy;
    table v = table_of(t);
    pending waiting = {{0}, 0};
    int32_t status = @{upper}_OK, token = 0;
    size_t position = 0;
    if (count == 0 || count > CONTEXT) return @{upper}_TEXT_ERROR_PROMPT;
    if (!(s->temperature >= 0) || isinf(s->temperature) || s->top_k < 0 || !(s->top_p >= 0) ||
        s->top_p > 1 || !(s->min_p >= 0) || s->min_p > 1 || !(s->repetition_penalty >= 0) ||
        isinf(s->repetition_penalty))
        return @{upper}_TEXT_ERROR_SAMPLING;
    memset(work_of(t)->seen, 0, VOCABULARY);
    for (size_t i = 0; i < count; i++)
        if (prompt[i] >= 0 && prompt[i] < VOCABULARY) work_of(t)->seen[prompt[i]] = 1;
    while (position < count && status == @{upper}_OK) {
        size_t size = count - position < CHUNK ? count - position : CHUNK;
        status = run(t, prompt + position, size, position);
        position += size;
    }
    *ending = @{upper}_TEXT_LENGTH;
    for (int32_t made = 0; status == @{upper}_OK && made < most; made++) {
        if (made > 0) {
            if (position >= CONTEXT) { *ending = @{upper}_TEXT_FULL; break; }
            status = run(t, &token, 1, position++);
            if (status != @{upper}_OK) break;
        }
        token = choose(work_of(t), s, (uint64_t)made);
        if (token < 0) return @{upper}_TEXT_ERROR_LOGITS;
        work_of(t)->seen[token] = 1;
        if (ends(&v, token)) { *ending = @{upper}_TEXT_END; break; }
        if (tell(t, &waiting, token, on_token, user)) { *ending = @{upper}_TEXT_STOPPED; break; }
    }
    return status;
}

int32_t @{prefix}_text_generate(const @{prefix}_text *t, const char *prompt, size_t length,
                                int32_t most, const @{prefix}_sampling *sampling,
                                @{prefix}_on_token on_token, void *user, int32_t *ending) {
    int32_t *tokens = work_of(t)->prompt;
    size_t count = 0;
    int32_t status = @{prefix}_text_encode(t, prompt, length, tokens, CONTEXT, &count);
    if (status != @{upper}_OK) return status;
    return @{prefix}_text_generate_tokens(t, tokens, count, most, sampling, on_token, user, ending);
}
""")
