/* Fails the n-th call of a kind, or kills the process there. Preloaded, or called through faulty().

   FAULT_CALL=write|mmap|malloc|rename, FAULT_N=n, FAULT_KILL=1 to end the process instead.
   FAULT_UNDER=FOLDER: only calls about files in it count; for malloc every call does.
   FAULT_COUNT=FILE: what is left of n at the end is written there. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { kNone, kWrite, kMmap, kMalloc, kRename };

static atomic_int armed = kNone;
static atomic_long left;
static int kills;
static char under[PATH_MAX];

/* The calls of its own that this library makes do not count. */
static __thread int inside;

static int fails(enum kind kind) {
  if (inside || atomic_load(&armed) != (int)kind) return 0;
  if (atomic_fetch_sub(&left, 1) != 1) return 0;
  if (kills) raise(SIGKILL);
  return 1;
}

static int is_under(int descriptor) {
  if (under[0] == 0) return 1;
  char link[64], path[PATH_MAX];
  inside = 1;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  inside = 0;
  if (size < 0) return 0;
  path[size] = 0;
  return strncmp(path, under, strlen(under)) == 0;
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (real == NULL) { \
    inside = 1; \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    inside = 0; \
  }

ssize_t write(int descriptor, const void* bytes, size_t size) {
  REAL(write)
  if (atomic_load(&armed) == kWrite && is_under(descriptor) && fails(kWrite)) {
    (void)!real(descriptor, bytes, size / 2); /* a full disk takes a part */
    errno = ENOSPC;
    return -1;
  }
  return real(descriptor, bytes, size);
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  REAL(writev)
  if (atomic_load(&armed) == kWrite && is_under(descriptor) && fails(kWrite)) {
    errno = ENOSPC;
    return -1;
  }
  return real(descriptor, parts, count);
}

static int map_fails(int descriptor) {
  if (descriptor < 0 || atomic_load(&armed) != kMmap) return 0;
  return is_under(descriptor) && fails(kMmap);
}

void* mmap(void* at, size_t size, int protection, int flags, int descriptor, off_t offset) {
  REAL(mmap)
  if (map_fails(descriptor)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(at, size, protection, flags, descriptor, offset);
}

void* mmap64(void* at, size_t size, int protection, int flags, int descriptor, off_t offset) {
  REAL(mmap64)
  if (map_fails(descriptor)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(at, size, protection, flags, descriptor, offset);
}

static int rename_fails(const char* to) {
  if (atomic_load(&armed) != kRename) return 0;
  return strncmp(to, under, strlen(under)) == 0 && fails(kRename);
}

int rename(const char* from, const char* to) {
  REAL(rename)
  if (rename_fails(to)) {
    errno = EIO;
    return -1;
  }
  return real(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  REAL(renameat)
  if (rename_fails(to)) {
    errno = EIO;
    return -1;
  }
  return real(from_folder, from, to_folder, to);
}

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static void* none(void) {
  errno = ENOMEM;
  return NULL;
}

void* malloc(size_t size) { return fails(kMalloc) ? none() : __libc_malloc(size); }

void* calloc(size_t count, size_t size) {
  return fails(kMalloc) ? none() : __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  return fails(kMalloc) ? none() : __libc_realloc(old, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return fails(kMalloc) ? none() : __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (fails(kMalloc)) return ENOMEM;
  *memory = __libc_memalign(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}

void fault_arm(int kind, long n, int kill, const char* folder) {
  snprintf(under, sizeof under, "%s", folder);
  kills = kill;
  atomic_store(&left, n);
  atomic_store(&armed, kind);
}

/* Returns how many further calls would have been needed; 0 or less: the n-th was made. */
long fault_disarm(void) {
  atomic_store(&armed, kNone);
  return atomic_load(&left);
}

/* Calls a function with integers and pointers, the n-th malloc of which fails. */
long faulty(long n, long (*function)(long, long, long, long, long, long, long, long, long), long a,
            long b, long c, long d, long e, long f, long g, long h, long i) {
  fault_arm(kMalloc, n, 0, "");
  const long result = function(a, b, c, d, e, f, g, h, i);
  atomic_store(&armed, kNone);
  return result;
}

/* A text callback that needs no memory: `context` is a text of 4096 bytes. */
int fault_take(const char* text, size_t size, void* context) {
  char* all = context;
  const size_t length = strlen(all);
  if (length + size + 1 > 4096) return 0;
  memcpy(all + length, text, size);
  all[length + size] = 0;
  return 1;
}

__attribute__((constructor)) static void begin(void) {
  const char* call = getenv("FAULT_CALL");
  const char* n = getenv("FAULT_N");
  if (call == NULL || n == NULL) return;
  const char* folder = getenv("FAULT_UNDER");
  const int kind = strcmp(call, "write") == 0    ? kWrite
                   : strcmp(call, "mmap") == 0   ? kMmap
                   : strcmp(call, "malloc") == 0 ? kMalloc
                                                 : kRename;
  fault_arm(kind, atol(n), getenv("FAULT_KILL") != NULL, folder == NULL ? "" : folder);
}

__attribute__((destructor)) static void end(void) {
  const char* count = getenv("FAULT_COUNT");
  const long rest = fault_disarm();
  if (count == NULL) return;
  FILE* file = fopen(count, "w");
  if (file == NULL) return;
  fprintf(file, "%ld", rest);
  fclose(file);
}
