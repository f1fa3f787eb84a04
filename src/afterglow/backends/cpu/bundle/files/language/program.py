"""`generate.c`: a program that prints text as it is generated."""

from __future__ import annotations

from afterglow.backends.bundling.template import Text

PROGRAM = Text(r"""/* Generates text with @name and prints it as it comes.
 *
 *     generate [PROMPT] [--tokens N] [--temperature T] [--top-k K] [--top-p P] [--min-p P]
 *              [--repetition-penalty R] [--seed S] [--threads N] [--numbers]
 */
#define _POSIX_C_SOURCE 200112L
#include "@{name}_text.h"
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define HAS_MMAP 1
#endif

static void fail(const char *what, const char *about) {
    fprintf(stderr, "error: %s%s%s\n", what, *about ? ": " : "", about);
    exit(1);
}

/* Aligned memory, which is never freed. */
static void *allocate(size_t bytes) {
    char *memory = malloc(bytes + @{upper}_ARENA_ALIGN);
    if (memory == NULL) fail("out of memory", "");
    return memory + (@{upper}_ARENA_ALIGN - (uintptr_t)memory % @{upper}_ARENA_ALIGN) %
                        @{upper}_ARENA_ALIGN;
}

/* A whole file: mapped if possible, otherwise read. */
static void *contents(const char *path, size_t *size) {
    void *bytes;
#ifdef HAS_MMAP
    struct stat status;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0) fail("cannot read", path);
    *size = (size_t)status.st_size;
    if (*size == 0) fail("the file is damaged", path);
    bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) fail("cannot map", path);
    close(file);
#else
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail("cannot read", path);
    *size = (size_t)ftell(file);
    rewind(file);
    bytes = allocate(*size);
    if (fread(bytes, 1, *size, file) != *size) fail("cannot read", path);
    fclose(file);
#endif
    return bytes;
}

/* A file in the folder of this program. */
static void *read_beside(const char *program, const char *name, size_t *size) {
    const char *slash = strrchr(program, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - program) + 1;
    char *path = allocate(folder + strlen(name) + 1);
    memcpy(path, program, folder);
    strcpy(path + folder, name);
    return contents(path, size);
}

static int print(void *user, int32_t token, const char *text, size_t length) {
    if (*(int *)user) printf("%d ", (int)token);
    else fwrite(text, 1, length, stdout);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv) {
    const char *prompt = "Once upon a time";
    @{prefix}_sampling sampling = {0, 0, 1, 0, 1, 0};
    int32_t most = 200, ending = 0, status;
    int threads = 1, numbers = 0;
    size_t size;
    @{prefix}_text text;
    afterglow_pool *pool = NULL;
    memset(&text, 0, sizeof text);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strncmp(argv[i], "--", 2) != 0) { prompt = argv[i]; continue; }
        if (strcmp(argv[i], "--numbers") == 0) { numbers = 1; continue; }
        if (*value == 0) fail("this option needs a value", argv[i]);
        if (strcmp(argv[i], "--tokens") == 0) most = atoi(value);
        else if (strcmp(argv[i], "--temperature") == 0) sampling.temperature = (float)atof(value);
        else if (strcmp(argv[i], "--top-k") == 0) sampling.top_k = atoi(value);
        else if (strcmp(argv[i], "--top-p") == 0) sampling.top_p = (float)atof(value);
        else if (strcmp(argv[i], "--min-p") == 0) sampling.min_p = (float)atof(value);
        else if (strcmp(argv[i], "--repetition-penalty") == 0)
            sampling.repetition_penalty = (float)atof(value);
        else if (strcmp(argv[i], "--seed") == 0) sampling.seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0) threads = atoi(value);
        else fail("no such option", argv[i]);
        i++;
    }
@load    text.vocabulary = read_beside(argv[0], "@name.vocabulary", &text.vocabulary_bytes);
    text.arena = allocate(@{upper}_ARENA_BYTES);
    text.memory = allocate(@{upper}_TEXT_BYTES);
    if (threads > 1) pool = afterglow_pool_start(threads, @{upper}_SCRATCH_BYTES);
    if (pool != NULL) text.team = afterglow_pool_team(pool);
    if (@{prefix}_text_check(&text) != @{upper}_OK) fail("the vocabulary is damaged", "");
    (void)size;
    if (!numbers) fputs(prompt, stdout);
    status = @{prefix}_text_generate(&text, prompt, strlen(prompt), most, &sampling, print,
                                     &numbers, &ending);
    putchar('\n');
    afterglow_pool_stop(pool);
    if (status == @{upper}_TEXT_ERROR_PROMPT) fail("the prompt is empty or too long", "");
    if (status == @{upper}_TEXT_ERROR_SAMPLING) fail("a sampling parameter is out of range", "");
    if (status != @{upper}_OK) fail("generating failed", "see the header for the status");
    return 0;
}
""")
