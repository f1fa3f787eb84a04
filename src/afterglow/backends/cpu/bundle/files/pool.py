"""`pool.c` and `pool.h`: a team of POSIX threads, ready to be used or to be learned from."""

from __future__ import annotations

from afterglow.backends.cpu.bundle.files.header import TEAM
from afterglow.runtime.native.convention import ALIGNMENT

POOL_H = f"""\
/* A pool of POSIX threads as the team of a compiled model: pass &pool->team to NAME_run_team.
 * A pool executes one run at a time; models may use it one after the other. */
#ifndef AFTERGLOW_POOL_H
#define AFTERGLOW_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{TEAM}
typedef struct afterglow_pool afterglow_pool;

/* Start a pool with this number of threads, including the calling one; null on failure. Scratch is
 * the memory of each thread: NAME_SCRATCH_BYTES, or the largest of several models. */
afterglow_pool *afterglow_pool_start(int threads, size_t scratch_bytes);

/* The team to pass to NAME_run_team. */
afterglow_team *afterglow_pool_team(afterglow_pool *pool);

/* End the threads and free all memory. */
void afterglow_pool_stop(afterglow_pool *pool);

#ifdef __cplusplus
}}
#endif

#endif
"""

POOL_C = """\
/* A pool of POSIX threads: see pool.h. Needs C11 and pthreads. */
#define _POSIX_C_SOURCE 200112L
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ALIGNMENT = $ALIGNMENT, SPINS = 4000 };

typedef struct {
    afterglow_pool *pool;
    void *scratch;
    pthread_t thread;
} worker;

struct afterglow_pool {
    afterglow_team team; /* first, so that a pointer to it is one to the pool */
    worker *workers;     /* the calling thread is worker 0 */
    int threads;
    pthread_mutex_t mutex;
    pthread_cond_t work, rest;
    int stopping;
    /* The step that is being done. */
    afterglow_step step;
    void *bases;
    intptr_t units, chunks;
    atomic_long next;   /* the next chunk to hand out */
    atomic_int busy;    /* workers that have not finished the step */
    atomic_uint number; /* counts steps: workers wait for it to change */
};

static void do_chunks(afterglow_pool *pool, void *scratch) {
    for (;;) {
        intptr_t chunk = atomic_fetch_add(&pool->next, 1);
        if (chunk >= pool->chunks) return;
        pool->step(pool->bases, scratch, chunk * pool->units / pool->chunks,
                   (chunk + 1) * pool->units / pool->chunks);
    }
}

static void *work(void *argument) {
    worker *self = argument;
    afterglow_pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        for (int spin = 0; spin < SPINS && atomic_load(&pool->number) == seen; spin++) {
        }
        pthread_mutex_lock(&pool->mutex);
        while (atomic_load(&pool->number) == seen && !pool->stopping)
            pthread_cond_wait(&pool->work, &pool->mutex);
        int stopping = pool->stopping;
        seen = atomic_load(&pool->number);
        pthread_mutex_unlock(&pool->mutex);
        if (stopping) return NULL;
        do_chunks(pool, self->scratch);
        if (atomic_fetch_sub(&pool->busy, 1) == 1) {
            pthread_mutex_lock(&pool->mutex);
            pthread_cond_signal(&pool->rest);
            pthread_mutex_unlock(&pool->mutex);
        }
    }
}

static void parallel_for(afterglow_team *team, afterglow_step step, void *bases, intptr_t units,
                         intptr_t chunks) {
    afterglow_pool *pool = (afterglow_pool *)team;
    if (chunks <= 1 || pool->threads <= 1) {
        step(bases, pool->workers[0].scratch, 0, units);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->step = step;
    pool->bases = bases;
    pool->units = units;
    pool->chunks = chunks;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->busy, pool->threads - 1);
    atomic_fetch_add(&pool->number, 1);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    do_chunks(pool, pool->workers[0].scratch);
    for (int spin = 0; spin < SPINS && atomic_load(&pool->busy) > 0; spin++) {
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->busy) > 0) pthread_cond_wait(&pool->rest, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

static int hire(afterglow_pool *pool, int threads, size_t scratch_bytes) {
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (pool->workers == NULL) return 0;
    for (int i = 0; i < threads; i++) {
        worker *self = &pool->workers[i];
        self->pool = pool;
        if (posix_memalign(&self->scratch, ALIGNMENT, scratch_bytes) != 0) {
            self->scratch = NULL;
            return 0;
        }
        if (i > 0 && pthread_create(&self->thread, NULL, work, self) != 0) {
            free(self->scratch);
            return 0;
        }
        pool->threads = i + 1;
    }
    return 1;
}

afterglow_pool *afterglow_pool_start(int threads, size_t scratch_bytes) {
    afterglow_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    pool->team.parallel_for = parallel_for;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->rest, NULL);
    if (threads < 1) threads = 1;
    if (scratch_bytes < ALIGNMENT) scratch_bytes = ALIGNMENT;
    if (!hire(pool, threads, scratch_bytes)) {
        afterglow_pool_stop(pool);
        return NULL;
    }
    return pool;
}

afterglow_team *afterglow_pool_team(afterglow_pool *pool) { return &pool->team; }

void afterglow_pool_stop(afterglow_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i < pool->threads; i++) pthread_join(pool->workers[i].thread, NULL);
    for (int i = 0; i < pool->threads; i++) free(pool->workers[i].scratch);
    free(pool->workers);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->rest);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
""".replace("$ALIGNMENT", str(ALIGNMENT))
