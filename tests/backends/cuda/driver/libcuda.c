/* A CUDA driver for tests: memory is that of the host, kernels are functions below, and every call
 * is written to a log. FAKE_CUDA_LOG names the file of the log, FAKE_CUDA_FAIL a call and the error
 * that it returns, "cuMemAlloc_v2:2", FAKE_CUDA_VERSION the version that the driver says. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256
typedef struct { int kind; void *a, *b; size_t n; void (*kernel)(uint64_t *); uint64_t p[8]; } Command;
typedef struct { int count; Command commands[MOST]; } Graph;
typedef struct { unsigned grid[3], block[3], shared; void *stream; void *attributes; unsigned count; } Config;
typedef struct { int id, pad, value[16]; } Attribute;

static Graph *capturing;
static void *captured_stream;
static int retained, depth;

static int called(const char *name, const char *format, ...) {
    const char *path = getenv("FAKE_CUDA_LOG"), *fail = getenv("FAKE_CUDA_FAIL");
    size_t length = strlen(name);
    if (path != NULL) {
        FILE *file = fopen(path, "a");
        va_list arguments;
        va_start(arguments, format);
        fprintf(file, "%s ", name);
        vfprintf(file, format, arguments);
        fprintf(file, "\n");
        va_end(arguments);
        fclose(file);
    }
    if (fail != NULL && strncmp(fail, name, length) == 0 && fail[length] == ':')
        return atoi(fail + length + 1);
    return 0;
}
#define CALLED(...) do { int status_ = called(__func__, __VA_ARGS__); if (status_) return status_; } while (0)

static void run(Command *c) {
    if (c->kind == 0) memcpy(c->a, c->b, c->n);
    if (c->kind == 1) memset(c->a, 0, c->n);
    if (c->kind == 2) c->kernel(c->p);
}
static void give(Command c, void *stream) {
    if (capturing != NULL && stream == captured_stream) capturing->commands[capturing->count++] = c;
    else run(&c);
}
static void copy(void *to, void *from, size_t n, void *stream) {
    Command c = {0, to, from, n, NULL, {0}};
    give(c, stream);
}

static void kernel_double(uint64_t *p) {
    float *x = (float *)p[0], *y = (float *)p[1];
    if (p[2] || p[3]) abort();
    for (int i = 0; i < 4; i++) y[i] = 2 * x[i];
}
static void kernel_add(uint64_t *p) {
    float *x = (float *)p[0], *state = (float *)p[1], *y = (float *)p[2];
    if (p[3] || p[4]) abort();
    for (int i = 0; i < 4; i++) y[i] = state[i] += x[i];
}
static void kernel_check(uint64_t *p) {
    float *x = (float *)p[0];
    int64_t *alarm = (int64_t *)p[1];
    if (x[0] > 9) alarm[-2] = 1, alarm[0] = 1, alarm[1] = (int64_t)x[0];
}
static const struct { const char *name; void (*function)(uint64_t *); int parameters; } KERNELS[] = {
    {"double", kernel_double, 2}, {"add", kernel_add, 3}, {"check", kernel_check, 2},
};

int cuInit(unsigned flags) { CALLED("%u", flags); return 0; }
int cuDriverGetVersion(int *version) {
    const char *given = getenv("FAKE_CUDA_VERSION");
    *version = given == NULL ? 12080 : atoi(given);
    return 0;
}
int cuGetErrorName(int status, const char **name) {
    *name = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : status == 100 ? "CUDA_ERROR_NO_DEVICE"
          : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return *name == NULL;
}
int cuGetErrorString(int status, const char **text) {
    *text = status == 700 ? "an illegal memory access was encountered" : status == 2 ? "out of memory" : NULL;
    return *text == NULL;
}
int cuDeviceGetCount(int *count) { CALLED(""); *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { CALLED("%d", number); *device = 40 + number; return 0; }
int cuDeviceGetName(char *name, int size, int device) { CALLED("%d", device); snprintf(name, size, "Fake GPU"); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 13 ? 1980000
           : attribute == 36 ? 3000000 : attribute == 37 ? 6144 : attribute == 38 ? 52428800
           : attribute == 97 ? 232448 : -1;
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { (void)device; memset(uuid, 0xAB, 16); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 1 << 30; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { CALLED("%d", device); retained++; *context = (void *)0x77; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { CALLED("%d", device); retained--; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { (void)device; *flags = 0; *active = retained > 0; return 0; }
int cuCtxPushCurrent_v2(void *context) { if (context != (void *)0x77) abort(); depth++; return 0; }
int cuCtxPopCurrent_v2(void **context) { *context = (void *)0x77; if (--depth < 0) abort(); return 0; }
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { *free_bytes = 1000; *total = 1 << 30; return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t n) { CALLED("%zu", n); *address = (uint64_t)aligned_alloc(256, (n + 255) / 256 * 256); return 0; }
int cuMemFree_v2(uint64_t address) { CALLED(""); free((void *)address); return 0; }
int cuMemHostAlloc(void **address, size_t n, unsigned flags) { CALLED("%zu %u", n, flags); *address = aligned_alloc(256, (n + 255) / 256 * 256); return 0; }
int cuMemFreeHost(void *address) { CALLED(""); free(address); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, void *from, size_t n, void *stream) { CALLED("%zu", n); copy((void *)to, from, n, stream); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream) { CALLED("%zu", n); copy(to, (void *)from, n, stream); return 0; }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream) { CALLED("%zu", n); copy((void *)to, (void *)from, n, stream); return 0; }
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void *stream) {
    CALLED("%u %zu", value, n);
    Command c = {1, (void *)to, NULL, n, NULL, {0}};
    give(c, stream);
    return 0;
}
int cuModuleLoadData(void **module, const char *image) {
    CALLED("%s", image);
    for (int i = 0; i < 3; i++)
        if (strcmp(KERNELS[i].name, image) == 0) { *module = (void *)(intptr_t)(i + 1); return 0; }
    return 200;
}
int cuModuleUnload(void *module) { CALLED("%d", (int)(intptr_t)module); return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    CALLED("%s", name);
    *function = module;
    return strcmp(KERNELS[(intptr_t)module - 1].name, name) ? 500 : 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { (void)function; CALLED("%d %d", attribute, value); return 0; }
int cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
    Command c = {2, NULL, NULL, 0, NULL, {0}};
    int number = (int)(intptr_t)function - 1;
    Attribute *attribute = config->attributes;
    int early = config->count == 1 && attribute->id == 6 && attribute->value[0] == 1;
    CALLED("%s (%u %u %u) (%u %u %u) %u%s", KERNELS[number].name, config->grid[0], config->grid[1],
           config->grid[2], config->block[0], config->block[1], config->block[2], config->shared,
           early ? " early" : "");
    if (extra != NULL) return 1;
    c.kernel = KERNELS[number].function;
    for (int i = 0; i < KERNELS[number].parameters + 2; i++) c.p[i] = *(uint64_t *)parameters[i];
    give(c, config->stream);
    return 0;
}
int cuStreamCreate(void **stream, unsigned flags) { CALLED("%u", flags); *stream = malloc(1); return 0; }
int cuStreamDestroy_v2(void *stream) { CALLED(""); free(stream); return 0; }
int cuStreamSynchronize(void *stream) { (void)stream; CALLED(""); return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { (void)stream, (void)event; CALLED("%u", flags); return 0; }
int cuStreamBeginCapture_v2(void *stream, int mode) { CALLED("%d", mode); capturing = calloc(1, sizeof *capturing); captured_stream = stream; return 0; }
int cuStreamEndCapture(void *stream, void **graph) { (void)stream; CALLED(""); *graph = capturing; capturing = NULL; return 0; }
int cuGraphInstantiateWithFlags(void **exec, Graph *graph, unsigned long long flags) {
    CALLED("%llu", flags);
    *exec = memcpy(malloc(sizeof *graph), graph, sizeof *graph);
    return 0;
}
int cuGraphLaunch(Graph *graph, void *stream) { (void)stream; CALLED("%d", graph->count); for (int i = 0; i < graph->count; i++) run(&graph->commands[i]); return 0; }
int cuGraphDestroy(void *graph) { CALLED(""); free(graph); return 0; }
int cuGraphExecDestroy(void *exec) { CALLED(""); free(exec); return 0; }
int cuEventCreate(void **event, unsigned flags) { CALLED("%u", flags); *event = malloc(1); return 0; }
int cuEventDestroy_v2(void *event) { CALLED(""); free(event); return 0; }
int cuEventRecord(void *event, void *stream) { (void)event, (void)stream; CALLED(""); return 0; }
int cuEventRecordWithFlags(void *event, void *stream, unsigned flags) { (void)event, (void)stream; CALLED("%u", flags); return 0; }
int cuEventElapsedTime(float *milliseconds, void *start, void *end) { (void)start, (void)end; CALLED(""); *milliseconds = 2.5f; return 0; }
