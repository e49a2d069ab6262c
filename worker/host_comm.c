#include "worker/host_comm.h"

#include "common/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES   4096
#define WANTED_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

/* The group id, byte for byte; the shared memory begins with a copy. */
struct host_id {
	char magic[8];
	uint32_t world_size;
	uint32_t reserved;
	uint64_t slot_bytes;
	uint64_t salt;
};
_Static_assert(sizeof(struct host_id) == HOST_ID_BYTES, "the id is sent as it lies in memory");

static const char magic[8] = {'t', 'f', 'h', 'o', 's', 't', '0', '1'};

/* Followed by a moment for each rank, then by the slots from the next page on. */
struct shared {
	struct host_id id;
	_Alignas(
	    64) _Atomic uint32_t turns; /* the futex: changes whenever a waiter must look again */
	_Atomic uint32_t arrived;       /* of the barrier under way */
	_Atomic uint32_t barriers;      /* completed */
	_Alignas(64) _Atomic uint64_t moments[]; /* (world_size) */
};

struct host_comm {
	struct shared *shared;
	size_t bytes;
	unsigned char *slots;
	size_t slot_bytes;
	uint64_t salt;
	int rank, world_size;
	bool broken;
	atomic_bool ended;
};

static size_t
head_bytes(int world_size)
{
	size_t bytes = sizeof(struct shared) + (size_t)world_size * sizeof(uint64_t);

	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static size_t
whole_bytes(const struct host_id *id)
{
	return head_bytes((int)id->world_size) + id->world_size * id->slot_bytes;
}

/* --- making and mapping --- */

static int
create_memory(void)
{
	int fd = memfd_create("tfworker", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	/* Before Linux 6.3 the last flag is not known. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("tfworker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static int
fill_memory(int fd, const struct host_id *id)
{
	/* Allocated now: a host without memory is an error here, not SIGBUS in the collective. */
	if (fallocate(fd, 0, 0, (off_t)whole_bytes(id)) != 0)
		return -1;
	if (pwrite(fd, id, sizeof(*id), 0) != (ssize_t)sizeof(*id))
		return -1;
	return fcntl(fd, F_ADD_SEALS, WANTED_SEALS | F_SEAL_SEAL);
}

int
host_comm_create(int world_size, size_t slot_bytes, unsigned char id_bytes[HOST_ID_BYTES],
		 struct load_error *error)
{
	struct host_id id = {.world_size = (uint32_t)world_size, .slot_bytes = slot_bytes};
	int fd;

	memcpy(id.magic, magic, sizeof(magic));
	if (getrandom(&id.salt, sizeof(id.salt), 0) != (ssize_t)sizeof(id.salt))
		return load_error_set(error, errno, "communicator: getrandom");
	if ((fd = create_memory()) < 0)
		return load_error_set(error, errno, "communicator: memfd_create");
	if (fill_memory(fd, &id) != 0) {
		load_error_set(error, errno, "communicator: %zu bytes of shared memory",
			       whole_bytes(&id));
		close(fd);
		return -1;
	}
	memcpy(id_bytes, &id, sizeof(id));
	return fd;
}

static int
check_id(const struct host_id *id, int world_size, struct load_error *error)
{
	if (memcmp(id->magic, magic, sizeof(magic)) != 0)
		return load_error_set(error, 0,
				      "communicator: the group id is not one of the host backend");
	if (id->world_size != (uint32_t)world_size)
		return load_error_set(
		    error, 0, "communicator: the group id is for %u ranks, we are one of %d",
		    id->world_size, world_size);
	if (id->slot_bytes == 0 || id->slot_bytes % PAGE_BYTES != 0 ||
	    id->slot_bytes > (SIZE_MAX >> 1) / (size_t)world_size)
		return load_error_set(error, 0,
				      "communicator: the group id has slots of %llu bytes",
				      (unsigned long long)id->slot_bytes);
	return 0;
}

/* After this no access to the mapping can be SIGBUS. */
static int
check_memory(int fd, const struct host_id *id, struct load_error *error)
{
	struct host_id found;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || fstat(fd, &st) != 0)
		return load_error_set(error, errno, "communicator: descriptor of the group id");
	if ((seals & WANTED_SEALS) != WANTED_SEALS)
		return load_error_set(error, 0, "communicator: its memory is not sealed");
	if ((uint64_t)st.st_size != whole_bytes(id))
		return load_error_set(error, 0,
				      "communicator: its memory has %lld bytes, expected %zu",
				      (long long)st.st_size, whole_bytes(id));
	if (pread(fd, &found, sizeof(found), 0) != (ssize_t)sizeof(found) ||
	    memcmp(&found, id, sizeof(found)) != 0)
		return load_error_set(error, 0, "communicator: its memory is of another group");
	return 0;
}

static struct host_comm *
map_memory(int fd, const struct host_id *id, int rank, struct load_error *error)
{
	struct host_comm *comm = calloc(1, sizeof(*comm));
	void *p;

	if (comm == NULL) {
		load_error_set(error, ENOMEM, "communicator");
		return NULL;
	}
	comm->bytes = whole_bytes(id);
	comm->slot_bytes = id->slot_bytes;
	comm->salt = id->salt;
	comm->rank = rank;
	comm->world_size = (int)id->world_size;
	p = mmap(NULL, comm->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (p == MAP_FAILED) {
		load_error_set(error, errno, "communicator: mmap of %zu bytes", comm->bytes);
		free(comm);
		return NULL;
	}
	comm->shared = p;
	comm->slots = (unsigned char *)p + head_bytes(comm->world_size);
	return comm;
}

int
host_comm_open(struct host_comm **out, const unsigned char *id_bytes, size_t id_len, int fd,
	       int rank, int world_size, struct load_error *error)
{
	struct host_id id;

	*out = NULL;
	if (id_len != sizeof(id))
		return load_error_set(error, 0,
				      "communicator: a group id of %zu bytes, expected %zu", id_len,
				      sizeof(id));
	memcpy(&id, id_bytes, sizeof(id));
	if (check_id(&id, world_size, error) != 0 || check_memory(fd, &id, error) != 0)
		return -1;
	*out = map_memory(fd, &id, rank, error);
	return *out == NULL ? -1 : 0;
}

void
host_comm_close(struct host_comm *comm)
{
	if (comm == NULL)
		return;
	munmap(comm->shared, comm->bytes);
	free(comm);
}

int
host_comm_rank(const struct host_comm *comm)
{
	return comm->rank;
}

int
host_comm_world_size(const struct host_comm *comm)
{
	return comm->world_size;
}

size_t
host_comm_slot_bytes(const struct host_comm *comm)
{
	return comm->slot_bytes;
}

uint64_t
host_comm_salt(const struct host_comm *comm)
{
	return comm->salt;
}

void *
host_comm_slot(const struct host_comm *comm, int rank)
{
	return comm->slots + (size_t)rank * comm->slot_bytes;
}

/* --- waiting --- */

static void
futex_wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Until *word is no longer seen, a wake-up, a signal or the absolute deadline. */
static void
futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	struct timespec until = {
	    .tv_sec = (time_t)(deadline_ns / NS_PER_SEC),
	    .tv_nsec = (long)(deadline_ns % NS_PER_SEC),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, deadline_ns == 0 ? NULL : &until, NULL,
		FUTEX_BITSET_MATCH_ANY);
}

/* All waiters look again, in every process. */
static void
turn(struct shared *shared)
{
	atomic_fetch_add(&shared->turns, 1);
	futex_wake_all(&shared->turns);
}

void
host_comm_end(struct host_comm *comm)
{
	atomic_store(&comm->ended, true);
	turn(comm->shared);
}

/* What is awaited: a barrier beyond number `barriers`, or a moment of `rank`. */
struct awaited {
	bool moment;
	uint32_t barriers;
	int rank;
};

static bool
has_come(const struct host_comm *comm, const struct awaited *awaited)
{
	if (awaited->moment)
		return atomic_load(&comm->shared->moments[awaited->rank]) != 0;
	return atomic_load(&comm->shared->barriers) != awaited->barriers;
}

static enum comm_result
await(struct host_comm *comm, const struct awaited *awaited, uint64_t deadline_ns)
{
	for (;;) {
		uint32_t seen = atomic_load(&comm->shared->turns);

		if (atomic_load(&comm->ended)) {
			comm->broken = true;
			return COMM_ENDED;
		}
		if (has_come(comm, awaited))
			return COMM_OK;
		if (deadline_ns != 0 && monotonic_ns() >= deadline_ns) {
			comm->broken = true;
			return COMM_TIMEOUT;
		}
		futex_wait(&comm->shared->turns, seen, deadline_ns);
	}
}

enum comm_result
host_comm_barrier(struct host_comm *comm, uint64_t deadline_ns)
{
	struct shared *shared = comm->shared;
	struct awaited awaited = {.barriers = atomic_load(&shared->barriers)};

	if (comm->broken || atomic_load(&comm->ended))
		return COMM_ENDED;
	if (atomic_fetch_add(&shared->arrived, 1) + 1 != (uint32_t)comm->world_size)
		return await(comm, &awaited, deadline_ns);
	atomic_store(&shared->arrived, 0);
	atomic_fetch_add(&shared->barriers, 1);
	turn(shared);
	return COMM_OK;
}

enum comm_result
host_comm_all_gather(struct host_comm *comm, const void *own, size_t bytes, uint64_t deadline_ns)
{
	enum comm_result result = host_comm_barrier(comm, deadline_ns);

	if (result != COMM_OK)
		return result;
	memcpy(host_comm_slot(comm, comm->rank), own, bytes);
	return host_comm_barrier(comm, deadline_ns);
}

void
host_comm_post_moment(struct host_comm *comm, uint64_t ns)
{
	atomic_store(&comm->shared->moments[comm->rank], ns);
	turn(comm->shared);
}

enum comm_result
host_comm_await_moment(struct host_comm *comm, int rank, uint64_t *ns, uint64_t deadline_ns)
{
	struct awaited awaited = {.moment = true, .rank = rank};
	enum comm_result result;

	if (comm->broken)
		return COMM_ENDED;
	if ((result = await(comm, &awaited, deadline_ns)) == COMM_OK)
		*ns = atomic_load(&comm->shared->moments[rank]);
	return result;
}
