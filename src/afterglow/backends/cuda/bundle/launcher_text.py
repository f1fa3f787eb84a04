"""The text of the launcher, with gaps for what differs between models."""

LAUNCHER = r"""/* Runs @name on a GPU: see @name.h. */
#include "@name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

enum {
    KERNELS = @kernel_count,
    LAUNCHES = @launch_count,
    MEMORIES = @memory_count,
    INPUTS = @inputs,
    PORTS = INPUTS + @outputs,
    MOST_PARAMETERS = @most,
    GIVES_ALARMS = @gives_alarms,
    RUNS = 8
};
enum { ARENA, CONSTANTS, ALARMS, COUNTERS, FIRST_PORT, FIRST_STATE = FIRST_PORT + PORTS };

typedef uint64_t address;

/* Machine code in the data, and what its launches say. */
static const struct {
    size_t offset, size;
    const char *symbol;
    unsigned shared, threads;
} kernels[] = {
@kernels
};
/* Kernels in order, each with its grid, and its parameters from `first` on. */
static const struct {
    int kernel;
    unsigned grid[3];
    int first, count, early;
} launches[] = {
@launches
};
/* The memory of each parameter, and the bytes in front of it. */
static const struct {
    int memory;
    size_t offset;
} places[] = {
@places
};
static const size_t sizes[] = {
@sizes
};

/* What is used of the driver, declared as in its documentation. */
typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned count;
} launch_config;
typedef struct {
    int id, pad, value[16];
} launch_attribute;

#define FUNCTIONS(F) \
    F(cuInit, (unsigned)) \
    F(cuDriverGetVersion, (int *)) \
    F(cuGetErrorName, (int, const char **)) \
    F(cuDeviceGetCount, (int *)) \
    F(cuDeviceGet, (int *, int)) \
    F(cuDeviceGetAttribute, (int *, int, int)) \
    F(cuDevicePrimaryCtxRetain, (void **, int)) \
    F(cuDevicePrimaryCtxRelease_v2, (int)) \
    F(cuCtxPushCurrent_v2, (void *)) \
    F(cuCtxPopCurrent_v2, (void **)) \
    F(cuMemAlloc_v2, (address *, size_t)) \
    F(cuMemFree_v2, (address)) \
    F(cuMemHostAlloc, (void **, size_t, unsigned)) \
    F(cuMemFreeHost, (void *)) \
    F(cuMemcpyHtoDAsync_v2, (address, const void *, size_t, void *)) \
    F(cuMemcpyDtoHAsync_v2, (void *, address, size_t, void *)) \
    F(cuMemsetD8Async, (address, unsigned char, size_t, void *)) \
    F(cuModuleLoadData, (void **, const void *)) \
    F(cuModuleUnload, (void *)) \
    F(cuModuleGetFunction, (void **, void *, const char *)) \
    F(cuFuncSetAttribute, (void *, int, int)) \
    F(cuLaunchKernelEx, (const launch_config *, void *, void **, void **)) \
    F(cuStreamCreate, (void **, unsigned)) \
    F(cuStreamDestroy_v2, (void *)) \
    F(cuStreamSynchronize, (void *)) \
    F(cuStreamWaitEvent, (void *, void *, unsigned)) \
    F(cuStreamBeginCapture_v2, (void *, int)) \
    F(cuStreamEndCapture, (void *, void **)) \
    F(cuEventCreate, (void **, unsigned)) \
    F(cuEventDestroy_v2, (void *)) \
    F(cuEventRecord, (void *, void *)) \
    F(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long)) \
    F(cuGraphLaunch, (void *, void *)) \
    F(cuGraphDestroy, (void *)) \
    F(cuGraphExecDestroy, (void *))

#define DECLARE(function, parameters) int (*function) parameters;
static struct { FUNCTIONS(DECLARE) } cuda;

enum {
    OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200, NO_BINARY = 209,
    MULTIPROCESSOR_MAJOR = 75, MULTIPROCESSOR_MINOR = 76,
    MAX_SHARED = 8, EARLY_LAUNCH = 6, NON_BLOCKING = 1, RELAXED = 2, NO_TIMING = 2
};

struct @{name}_model {
    int device;
    void *context, *stream, *turn; /* runs take turns by an event, whatever their streams */
    void *modules[KERNELS + 1], *functions[KERNELS + 1];
    address memories[MEMORIES];
    unsigned char *staged[PORTS + 1]; /* page-locked memory for each input and output */
    int64_t *alarms;
    void *run; /* the graph of a run on memory of the host */
    struct {
        address ports[PORTS + 1];
        void *graph;
    } runs[RUNS]; /* the graphs of the last runs on memory of the GPU */
    int next;
};

static _Thread_local char message[160];

static int32_t failed(const char *call, int status) {
    const char *name = NULL;
    if (cuda.cuGetErrorName == NULL || cuda.cuGetErrorName(status, &name) != 0) name = NULL;
    snprintf(message, sizeof message, "%s failed: %s", call, name == NULL ? "unknown error" : name);
    if (status == OUT_OF_MEMORY) return @{upper}_ERROR_MEMORY;
    if (status == NO_DEVICE) return @{upper}_ERROR_DEVICE;
    if (status == INVALID_IMAGE || status == NO_BINARY) return @{upper}_ERROR_ARCHITECTURE;
    return @{upper}_ERROR_CUDA;
}

/* Call the driver, and return from the function that does if it fails. */
#define TRY(function, ...) \
    do { \
        int status_ = cuda.function(__VA_ARGS__); \
        if (status_ != 0) return failed(#function, status_); \
    } while (0)

const char *@{name}_error(void) {
    return message;
}

static int32_t load_driver(void) {
#ifdef _WIN32
    HMODULE library = LoadLibraryA("nvcuda.dll");
#define FIND(name) (void *)GetProcAddress(library, name)
#else
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define FIND(name) dlsym(library, name)
#endif
    int version = 0;
    if (library == NULL) {
        snprintf(message, sizeof message, "the driver of NVIDIA is not installed");
        return @{upper}_ERROR_DRIVER;
    }
#define LOAD(function, parameters) \
    { \
        void *found = FIND(#function); \
        if (found == NULL) { \
            snprintf(message, sizeof message, "the driver is too old: it has no " #function); \
            return @{upper}_ERROR_DRIVER; \
        } \
        memcpy(&cuda.function, &found, sizeof found); \
    }
    FUNCTIONS(LOAD)
    TRY(cuDriverGetVersion, &version);
    if (version < @least_version) {
        snprintf(message, sizeof message, "the driver is too old: it has CUDA %d.%d",
                 version / 1000, version % 1000 / 10);
        return @{upper}_ERROR_DRIVER;
    }
    TRY(cuInit, 0);
    return @{upper}_OK;
}

static int32_t check_data(const unsigned char *data, size_t size) {
    uint64_t sum = 0, factor = UINT64_C(@first), word;
    if (size != @{upper}_DATA_BYTES) return @{upper}_ERROR_WEIGHTS_SIZE;
    for (size_t place = 0; place < size; place += sizeof word) {
        memcpy(&word, data + place, sizeof word);
        sum += (word ^ (word >> @fold)) * factor;
        factor += UINT64_C(@step);
    }
    return sum == UINT64_C(@checksum) ? @{upper}_OK : @{upper}_ERROR_WEIGHTS_CONTENT;
}

static int32_t check_device(int number, int *device) {
    int count = 0, major = 0, minor = 0;
    TRY(cuDeviceGetCount, &count);
    if (number < 0 || number >= count) {
        snprintf(message, sizeof message, "there are %d GPUs", count);
        return @{upper}_ERROR_DEVICE;
    }
    TRY(cuDeviceGet, device, number);
    TRY(cuDeviceGetAttribute, &major, MULTIPROCESSOR_MAJOR, *device);
    TRY(cuDeviceGetAttribute, &minor, MULTIPROCESSOR_MINOR, *device);
    if (major != @major || minor < @minor) {
        snprintf(message, sizeof message, "the GPU has compute capability %d.%d, not @major.@minor",
                 major, minor);
        return @{upper}_ERROR_ARCHITECTURE;
    }
    return @{upper}_OK;
}

static size_t at_least_one(size_t size) {
    return size > 0 ? size : 1;
}

static int32_t load_kernels(@{name}_model *model, const unsigned char *data) {
    for (int i = 0; i < KERNELS; i++) {
        TRY(cuModuleLoadData, &model->modules[i], data + kernels[i].offset);
        TRY(cuModuleGetFunction, &model->functions[i], model->modules[i], kernels[i].symbol);
        if (kernels[i].shared > @default_shared)
            TRY(cuFuncSetAttribute, model->functions[i], MAX_SHARED, (int)kernels[i].shared);
    }
    return @{upper}_OK;
}

static int32_t allocate(@{name}_model *model, const unsigned char *data) {
    TRY(cuStreamCreate, &model->stream, NON_BLOCKING);
    TRY(cuEventCreate, &model->turn, NO_TIMING);
    for (int i = 0; i < MEMORIES; i++) {
        TRY(cuMemAlloc_v2, &model->memories[i], at_least_one(sizes[i]));
        if (i == CONSTANTS && sizes[i] > 0)
            TRY(cuMemcpyHtoDAsync_v2, model->memories[i], data + @constants, sizes[i],
                model->stream);
        if ((i == ALARMS || i == COUNTERS || i >= FIRST_STATE) && sizes[i] > 0)
            TRY(cuMemsetD8Async, model->memories[i], 0, sizes[i], model->stream);
    }
    for (int i = 0; i < PORTS; i++) {
        void **place = (void **)&model->staged[i];
        TRY(cuMemHostAlloc, place, at_least_one(sizes[FIRST_PORT + i]), 0);
    }
    TRY(cuMemHostAlloc, (void **)&model->alarms, at_least_one(sizes[ALARMS]), 0);
    memset(model->alarms, 0, at_least_one(sizes[ALARMS]));
    TRY(cuStreamSynchronize, model->stream);
    return @{upper}_OK;
}

static int32_t launch_all(@{name}_model *model, const address *ports, void *stream) {
    launch_attribute early = {EARLY_LAUNCH, 0, {1}};
    for (int i = 0; i < LAUNCHES; i++) {
        int kernel = launches[i].kernel, count = launches[i].count;
        address values[MOST_PARAMETERS + 2];
        void *pointers[MOST_PARAMETERS + 2];
        launch_config config = {
            {launches[i].grid[0], launches[i].grid[1], launches[i].grid[2]},
            {kernels[kernel].threads, 1, 1},
            kernels[kernel].shared, stream, &early, (unsigned)launches[i].early,
        };
        for (int p = 0; p < count + 2; p++) {
            pointers[p] = &values[p];
            values[p] = 0; /* the last two are scratch memory that these kernels do without */
            if (p < count) {
                int memory = places[launches[i].first + p].memory;
                int is_port = memory >= FIRST_PORT && memory < FIRST_STATE;
                values[p] = is_port ? ports[memory - FIRST_PORT] : model->memories[memory];
                values[p] += places[launches[i].first + p].offset;
            }
        }
        TRY(cuLaunchKernelEx, &config, model->functions[kernel], pointers, NULL);
    }
    return @{upper}_OK;
}

static int32_t fetch_alarms(@{name}_model *model, void *stream) {
    if (GIVES_ALARMS)
        TRY(cuMemcpyDtoHAsync_v2, model->alarms, model->memories[ALARMS], sizes[ALARMS], stream);
    return @{upper}_OK;
}

/* What a run begins; with `staged` it copies inputs to the GPU, and outputs back. */
static int32_t begin(@{name}_model *model, const address *ports, int staged) {
    int32_t status;
    for (int i = 0; staged && i < INPUTS; i++)
        if (sizes[FIRST_PORT + i] > 0)
            TRY(cuMemcpyHtoDAsync_v2, ports[i], model->staged[i], sizes[FIRST_PORT + i],
                model->stream);
    status = launch_all(model, ports, model->stream);
    for (int i = INPUTS; status == @{upper}_OK && staged && i < PORTS; i++)
        if (sizes[FIRST_PORT + i] > 0)
            TRY(cuMemcpyDtoHAsync_v2, model->staged[i], ports[i], sizes[FIRST_PORT + i],
                model->stream);
    return status == @{upper}_OK ? fetch_alarms(model, model->stream) : status;
}

static int32_t capture(@{name}_model *model, const address *ports, int staged, void **run) {
    void *graph = NULL;
    int32_t status;
    TRY(cuStreamBeginCapture_v2, model->stream, RELAXED);
    status = begin(model, ports, staged);
    if (status != @{upper}_OK) {
        if (cuda.cuStreamEndCapture(model->stream, &graph) == 0 && graph != NULL)
            cuda.cuGraphDestroy(graph);
        return status;
    }
    TRY(cuStreamEndCapture, model->stream, &graph);
    {
        int result = cuda.cuGraphInstantiateWithFlags(run, graph, 0);
        cuda.cuGraphDestroy(graph);
        return result == 0 ? @{upper}_OK : failed("cuGraphInstantiateWithFlags", result);
    }
}

static int32_t replay(@{name}_model *model, void *graph, void *stream) {
    TRY(cuStreamWaitEvent, stream, model->turn, 0);
    TRY(cuGraphLaunch, graph, stream);
    TRY(cuEventRecord, model->turn, stream);
    return @{upper}_OK;
}

static int32_t finish(@{name}_model *model, void *stream) {
    TRY(cuStreamSynchronize, stream);
    if (!GIVES_ALARMS || model->alarms[0] == 0) return @{upper}_OK;
    model->alarms[0] = 0;
    TRY(cuMemsetD8Async, model->memories[ALARMS], 0, sizes[ALARMS], model->stream);
    TRY(cuStreamSynchronize, model->stream);
    return @{upper}_ERROR_INDEX;
}

/* The tensors of a run; whether there are all that have elements. */
static int ports_of(const @{name}_io *io, void **found) {
    if (io == NULL) return 0;
@ports
    for (int i = 0; i < PORTS; i++)
        if (found[i] == NULL && sizes[FIRST_PORT + i] > 0) return 0;
    return 1;
}

static int32_t run_on_host(@{name}_model *model, void **given) {
    int32_t status = @{upper}_OK;
    for (int i = 0; i < INPUTS; i++) memcpy(model->staged[i], given[i], sizes[FIRST_PORT + i]);
    if (model->run == NULL) status = capture(model, model->memories + FIRST_PORT, 1, &model->run);
    if (status == @{upper}_OK) status = replay(model, model->run, model->stream);
    if (status == @{upper}_OK) status = finish(model, model->stream);
    for (int i = INPUTS; status == @{upper}_OK && i < PORTS; i++)
        memcpy(given[i], model->staged[i], sizes[FIRST_PORT + i]);
    return status;
}

static int32_t start_on_device(@{name}_model *model, void **given, void *stream) {
    address ports[PORTS + 1] = {0};
    int place = 0;
    for (int i = 0; i < PORTS; i++) {
        ports[i] = (address)(uintptr_t)given[i];
        if (ports[i] % 16 != 0) return @{upper}_ERROR_ADDRESS;
    }
    while (place < RUNS && (model->runs[place].graph == NULL ||
                            memcmp(model->runs[place].ports, ports, sizeof ports) != 0))
        place++;
    if (place == RUNS) { /* the oldest one makes room; if it is under way it goes on to its end */
        int32_t status;
        void *graph = NULL;
        place = model->next;
        status = capture(model, ports, 0, &graph);
        if (status != @{upper}_OK) return status;
        if (model->runs[place].graph != NULL) cuda.cuGraphExecDestroy(model->runs[place].graph);
        model->runs[place].graph = graph;
        memcpy(model->runs[place].ports, ports, sizeof ports);
        model->next = (place + 1) % RUNS;
    }
    return replay(model, model->runs[place].graph, stream);
}

int32_t @{name}_open(const void *data, size_t size, int device, @{name}_model **model) {
    @{name}_model *made;
    int32_t status;
    int handle = 0, result;
    void *popped;
    if (data == NULL || model == NULL) return @{upper}_ERROR_NULL;
    *model = NULL;
    status = check_data(data, size);
    if (status == @{upper}_OK) status = load_driver();
    if (status == @{upper}_OK) status = check_device(device, &handle);
    if (status != @{upper}_OK) return status;
    made = calloc(1, sizeof *made);
    if (made == NULL) return @{upper}_ERROR_MEMORY;
    made->device = handle;
    result = cuda.cuDevicePrimaryCtxRetain(&made->context, handle);
    if (result != 0) {
        free(made);
        return failed("cuDevicePrimaryCtxRetain", result);
    }
    result = cuda.cuCtxPushCurrent_v2(made->context);
    status = result != 0 ? failed("cuCtxPushCurrent_v2", result) : load_kernels(made, data);
    if (status == @{upper}_OK) status = allocate(made, data);
    if (result == 0) cuda.cuCtxPopCurrent_v2(&popped);
    if (status == @{upper}_OK) *model = made;
    else @{name}_close(made);
    return status;
}

int32_t @{name}_run(@{name}_model *model, const @{name}_io *io) {
    void *given[PORTS + 1] = {NULL}, *popped;
    int32_t status;
    if (model == NULL || !ports_of(io, given)) return @{upper}_ERROR_NULL;
    TRY(cuCtxPushCurrent_v2, model->context);
    status = run_on_host(model, given);
    cuda.cuCtxPopCurrent_v2(&popped);
    return status;
}

int32_t @{name}_start(@{name}_model *model, const @{name}_io *io, void *stream) {
    void *given[PORTS + 1] = {NULL}, *popped;
    int32_t status;
    if (model == NULL || !ports_of(io, given)) return @{upper}_ERROR_NULL;
    TRY(cuCtxPushCurrent_v2, model->context);
    status = start_on_device(model, given, stream);
    cuda.cuCtxPopCurrent_v2(&popped);
    return status;
}

int32_t @{name}_wait(@{name}_model *model, void *stream) {
    void *popped;
    int32_t status;
    if (model == NULL) return @{upper}_ERROR_NULL;
    TRY(cuCtxPushCurrent_v2, model->context);
    status = finish(model, stream);
    cuda.cuCtxPopCurrent_v2(&popped);
    return status;
}
@reset
void @{name}_close(@{name}_model *model) {
    void *popped;
    if (model == NULL) return;
    if (cuda.cuCtxPushCurrent_v2(model->context) == 0) {
        if (model->turn != NULL && model->stream != NULL) { /* runs of other streams end, too */
            cuda.cuStreamWaitEvent(model->stream, model->turn, 0);
            cuda.cuStreamSynchronize(model->stream);
        }
        if (model->run != NULL) cuda.cuGraphExecDestroy(model->run);
        for (int i = 0; i < RUNS; i++)
            if (model->runs[i].graph != NULL) cuda.cuGraphExecDestroy(model->runs[i].graph);
        for (int i = 0; i < KERNELS; i++)
            if (model->modules[i] != NULL) cuda.cuModuleUnload(model->modules[i]);
        for (int i = 0; i < MEMORIES; i++)
            if (model->memories[i] != 0) cuda.cuMemFree_v2(model->memories[i]);
        for (int i = 0; i < PORTS; i++)
            if (model->staged[i] != NULL) cuda.cuMemFreeHost(model->staged[i]);
        if (model->alarms != NULL) cuda.cuMemFreeHost(model->alarms);
        if (model->turn != NULL) cuda.cuEventDestroy_v2(model->turn);
        if (model->stream != NULL) cuda.cuStreamDestroy_v2(model->stream);
        cuda.cuCtxPopCurrent_v2(&popped);
    }
    cuda.cuDevicePrimaryCtxRelease_v2(model->device);
    free(model);
}
"""

RESET = r"""
static int32_t clear_states(@{name}_model *model) {
    TRY(cuStreamWaitEvent, model->stream, model->turn, 0);
    for (int i = FIRST_STATE; i < MEMORIES; i++)
        if (sizes[i] > 0) TRY(cuMemsetD8Async, model->memories[i], 0, sizes[i], model->stream);
    TRY(cuStreamSynchronize, model->stream);
    return @{upper}_OK;
}

int32_t @{name}_reset(@{name}_model *model) {
    void *popped;
    int32_t status;
    if (model == NULL) return @{upper}_ERROR_NULL;
    TRY(cuCtxPushCurrent_v2, model->context);
    status = clear_states(model);
    cuda.cuCtxPopCurrent_v2(&popped);
    return status;
}
"""
