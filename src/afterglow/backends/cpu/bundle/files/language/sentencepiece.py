"""What of encoding in C is of SentencePiece: characters are joined by the scores of pieces."""

from __future__ import annotations

RATE = r"""
/* How good it is to join a part with the next one; -infinity if they cannot be joined. */
static void rate(const table *v, work_memory *w, uint32_t part, uint32_t end) {
    uint32_t next = w->next[part], token = NONE;
    if (next < end) token = find(v, w->text + w->start[part], w->size[part] + w->size[next]);
    w->scores[part] = token == NONE ? -INFINITY : v->scores[token];
}
"""
PLAIN = r"""
/* Add the tokens of plain text in w->text; the number of all tokens, or NONE if too many. */
static size_t encode_plain(const table *v, work_memory *w, size_t length, int32_t *tokens,
                           size_t capacity, size_t count) {
    uint32_t parts = 0;
    for (size_t at = 0; at < length; parts++) { /* characters; what is no UTF-8, as bytes */
        unsigned char lead = (unsigned char)w->text[at];
        size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        if (size > length - at) size = 1;
        for (size_t i = 1; i < size; i++)
            if (((unsigned char)w->text[at + i] & 0xc0) != 0x80) size = 1;
        add_part(w, parts, at, size);
        at += size;
    }
    return join(v, w, parts, tokens, capacity, count);
}
"""
