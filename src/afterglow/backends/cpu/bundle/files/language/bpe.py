"""What of encoding in C is of byte-level BPE: bytes are joined within words, by a list of pairs."""

from __future__ import annotations

from afterglow.backends.bundling.template import Text

RATE = r"""
/* How early two neighbours are joined, the higher the earlier; -infinity if they are not. */
static void rate(const table *v, work_memory *w, uint32_t part, uint32_t end) {
    uint32_t next = w->next[part], low = 0, high = next < end ? v->pairs : 0;
    const char *text = w->text + w->start[part];
    w->scores[part] = -INFINITY;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, left = v->lefts[middle];
        int order = compare(v, text, w->size[part] + w->size[next], v->joined[middle]);
        if (order == 0) order = w->size[part] < left ? -1 : w->size[part] > left;
        if (order == 0) {
            w->scores[part] = -(float)v->ranks[middle];
            return;
        }
        if (order < 0) high = middle; else low = middle + 1;
    }
}
"""
PLAIN = Text(r"""
/* Texts are cut into words by patterns over symbols: ASCII characters, and classes of others. */
enum { TAKE, NOT_BEFORE, END, DONE, PATTERNS = @pattern_count, WHOLE_WORDS = @whole_words };
typedef struct { uint8_t kind, set; uint32_t least, most; } step;

static const uint32_t sets[][5] = { /* of symbols, as bits */
@sets
};
static const step steps[] = { /* alternatives end with END, patterns with DONE */
@steps
};
static const uint32_t patterns[] = {@pattern_starts};
static const uint32_t classes[] = { /* where characters of a class begin, times 8, and which */
@classes
};
enum { CLASSES = sizeof classes / sizeof *classes, OTHER = @other_class };

/* The symbol of the character at the beginning of a text, and its size in bytes; what is no UTF-8
 * is a character by itself. */
static uint8_t symbol_at(const char *text, size_t left, size_t *size) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t lead = (unsigned char)*text, code, low = 0, high = CLASSES;
    size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    *size = 1;
    if (lead < 0x80) return (uint8_t)lead;
    if (length == 1 || length > left || lead > 0xf4) return OTHER;
    code = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) return OTHER;
        code = code << 6 | ((unsigned char)text[i] & 0x3fu);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return OTHER;
    *size = length;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (classes[middle] >> 3 <= code) low = middle; else high = middle;
    }
    return (uint8_t)(0x80 + (classes[low] & 7));
}

static int is_in(uint32_t set, uint32_t symbol) {
    return sets[set][symbol / 32] >> symbol % 32 & 1;
}

/* Where what an alternative matches ends; NONE if it does not match. */
static size_t match(const step *s, const uint8_t *symbols, size_t at, size_t stop) {
    size_t taken = 0;
    if (s->kind == END) return at;
    if (s->kind == NOT_BEFORE)
        return at < stop && is_in(s->set, symbols[at]) ? NONE : match(s + 1, symbols, at, stop);
    while (taken < s->most && at + taken < stop && is_in(s->set, symbols[at + taken])) taken++;
    for (; taken >= s->least; taken--) {
        size_t end = match(s + 1, symbols, at + taken, stop);
        if (end != NONE || taken == 0) return end;
    }
    return NONE;
}

/* Mark where words begin that a pattern matches, and those between. */
static void cut(const step *pattern, work_memory *w, size_t at, size_t stop) {
    while (at < stop) {
        size_t end = NONE;
        for (const step *s = pattern; end == NONE && s->kind != DONE; s++) {
            end = match(s, w->symbols, at, stop);
            while (s->kind != END) s++;
        }
        if (end == NONE) { at++; continue; }
        w->cuts[at] = w->cuts[end] = 1;
        at = end;
    }
}

static void cut_words(work_memory *w, size_t length) {
    size_t count = 0, size;
    for (size_t at = 0; at < length; at += size)
        w->symbols[count++] = symbol_at(w->text + at, length - at, &size);
    memset(w->cuts, 0, count + 1);
    for (int i = 0; i < PATTERNS; i++) {
        for (size_t start = 0, stop; start < count; start = stop) {
            for (stop = start + 1; stop < count && !w->cuts[stop];) stop++;
            cut(steps + patterns[i], w, start, stop);
        }
    }
}

/* Add the tokens of the plain text in w->text; the number of all tokens, or NONE if too many. */
static size_t encode_plain(const table *v, work_memory *w, size_t length, int32_t *tokens,
                           size_t capacity, size_t count) {
    size_t start = 0, character = 0, size;
    cut_words(w, length);
    for (size_t at = 0; at < length && count != NONE;) {
        uint32_t parts = 0, token = NONE;
        symbol_at(w->text + at, length - at, &size);
        at += size;
        if (!w->cuts[++character] && at < length) continue;
        if (WHOLE_WORDS) token = find(v, w->text + start, at - start);
        if (token != NONE) add_part(w, parts++, start, at - start);
        else for (size_t i = start; i < at; i++) add_part(w, parts++, i, 1);
        count = join(v, w, parts, tokens, capacity, count);
        start = at;
    }
    return count;
}
""")
