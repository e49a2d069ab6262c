/* One rank from its fork to its last descriptor. */
#include "supervisor/supervisor.h"

#include "common/log.h"
#include "supervisor/cpus.h"
#include "supervisor/gpus.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORKS_A_TURN    16
#define OPEN_FILES      22 /* the loop, the signals, the health socket and one client */
#define OPEN_FILES_RANK 5  /* link, pidfd, notify socket, output and its log */

static int
explain(char *error, size_t size, const char *what)
{
	snprintf(error, size, "%s: %s", what, strerror(errno));
	return -1;
}

/*
 * MASTER_PORT: bound until the group ends, so that no other group gets it, and not listening, so
 * that a rank which sets SO_REUSEADDR can.
 */
static int
hold_port(struct supervisor *s, char *error, size_t size)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	int one = 1;

	s->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->port_fd < 0 || bind(s->port_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    setsockopt(s->port_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    getsockname(s->port_fd, (struct sockaddr *)&address, &len) != 0)
		return explain(error, size, "a port for MASTER_PORT");
	s->common.master_addr = "127.0.0.1";
	s->common.master_port = ntohs(address.sin_port);
	return 0;
}

static int
share_gpus(struct supervisor *s, char *error, size_t size)
{
	char text[GPUS_ERROR_BYTES];
	struct config_error config_error;
	struct gpu_share share;
	struct gpus gpus;
	int result = -1;

	if (gpus_open(&gpus, s->config, getenv("CUDA_VISIBLE_DEVICES"), gpus_count(GPUS_PROC),
		      text) != 0) {
		snprintf(error, size, "%s", text);
		return -1;
	}
	if (s->config->ranks == 0 && gpus_ranks(&gpus, s->config) == 0)
		snprintf(error, size,
			 "ranks = auto means one rank per GPU, and there is no GPU "
			 "here: set ranks, or --ranks N");
	else if (s->config->ranks == 0 &&
		 config_set_ranks(s->config, gpus_ranks(&gpus, s->config), &config_error) != 0)
		snprintf(error, size, "%s", config_error.text);
	else
		result = 0;
	if (result == 0)
		s->ranks = calloc((size_t)s->config->ranks, sizeof(*s->ranks));
	for (int i = 0; result == 0 && i < s->config->ranks; i++) {
		if ((result = gpus_assign(&gpus, s->config, i, &share, text)) != 0)
			snprintf(error, size, "%s", text);
		else {
			s->ranks[i].gpu = share.own;
			s->ranks[i].visible_devices = share.visible;
		}
	}
	gpus_free(&gpus);
	return result;
}

/* As many descriptors as we may have; too few for the group are refused before there is a trace
 * of it. */
int
supervisor_raise_open_files(struct supervisor *s, char *error, size_t size)
{
	rlim_t needed = OPEN_FILES + OPEN_FILES_RANK * (rlim_t)s->config->ranks;
	struct rlimit open_files;

	getrlimit(RLIMIT_NOFILE, &s->open_files);
	open_files = s->open_files;
	open_files.rlim_cur = open_files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &open_files);
	if (needed <= open_files.rlim_max)
		return 0;
	snprintf(error, size,
		 "%d ranks need %llu open files here, and the hard limit is %llu (ulimit -Hn)",
		 s->config->ranks, (unsigned long long)needed,
		 (unsigned long long)open_files.rlim_max);
	return -1;
}

int
supervisor_prepare(struct supervisor *s, char *error, size_t size)
{
	if (share_gpus(s, error, size) != 0 || hold_port(s, error, size) != 0)
		return -1;
	for (int i = 0; i < s->config->ranks; i++) {
		/* A rank of another user must find its notify socket, and nothing else of ours. */
		if (config_worker(s->config, i)->user != NULL && fchmod(s->rundir.fd, 0711) != 0)
			return explain(error, size, s->rundir.path);
		s->ranks[i].link_fd = s->ranks[i].pidfd = -1;
		s->ranks[i].owner = s;
		s->ranks[i].rank = i;
	}
	s->common.world_size = s->config->ranks;
	s->common.run_dir = s->rundir.path;
	return 0;
}

/* The rank's own limits, and of descriptors what we were started with. */
static int
gather_limits(struct supervisor *s, const struct worker_settings *worker)
{
	struct worker_limit *limits =
	    reallocarray(s->limits, worker->limits_len + 1, sizeof(*limits));

	if (limits == NULL)
		return -1;
	s->limits = limits;
	limits[0] =
	    (struct worker_limit){RLIMIT_NOFILE, s->open_files.rlim_cur, s->open_files.rlim_max};
	memcpy(limits + 1, worker->limits, worker->limits_len * sizeof(*limits));
	s->limits_len = worker->limits_len + 1;
	return 0;
}

/* What a fork needs, and what is left of it when it fails. */
struct launch {
	struct environ_values values;
	struct spawn_request request;
	struct spawn_user user;
	cpu_set_t cpus;
	char **argv, **envp, **path, *directory;
	char notify_path[RUNDIR_SOCKET_BYTES], error_file[PATH_MAX];
	int output_fds[2], theirs;
};

static void
launch_free(struct launch *launch)
{
	free(launch->argv);
	free(launch->envp);
	free(launch->directory);
	spawn_path_free(launch->path);
	spawn_user_free(&launch->user);
	if (launch->theirs >= 0)
		close(launch->theirs);
	if (launch->output_fds[1] >= 0)
		close(launch->output_fds[1]);
	if (launch->output_fds[0] >= 0)
		close(launch->output_fds[0]);
}

static int
open_notify(struct supervisor *s, int rank, struct launch *launch, char *error, size_t size)
{
	const struct spawn_user *user = launch->request.user;
	char file[32];

	snprintf(file, sizeof(file), "notify-%d.sock", rank);
	if (rundir_socket_path(&s->rundir, file, launch->notify_path, error, size) != 0)
		return -1;
	s->ranks[rank].notify = notify_open(
	    s->base, rank, launch->notify_path, user != NULL ? user->uid : geteuid(),
	    user != NULL ? user->gid : getegid(), supervisor_notify_word, s, error, size);
	return s->ranks[rank].notify == NULL ? -1 : 0;
}

static int
open_output(struct supervisor *s, int rank, struct launch *launch, char *error, size_t size)
{
	uint64_t cap = config_worker(s->config, rank)->log_bytes;
	struct rank_log *log = NULL;
	int fd;

	if (pipe2(launch->output_fds, O_CLOEXEC) != 0 ||
	    fcntl(launch->output_fds[0], F_SETFL, O_NONBLOCK) != 0)
		return explain(error, size, "a pipe for the rank's output");
	if (cap > 0 && (log = rank_log_open(s->rundir.fd, rank, s->group.epoch, cap)) == NULL)
		log_warn("rank %d: no rank-%d.log", rank, rank);
	fd = launch->output_fds[0];
	launch->output_fds[0] = -1;
	s->ranks[rank].output = output_open(
	    s->base, rank, fd, log, writer_out_is_terminal(s->writer), &s->output_callbacks);
	return s->ranks[rank].output == NULL ? explain(error, size, "the rank's output") : 0;
}

static int
find_user(struct launch *launch, const struct worker_settings *worker, char *error, size_t size)
{
	if (worker->user == NULL)
		return 0;
	if (spawn_user_find(worker->user, &launch->user) != 0)
		return explain(error, size, worker->user);
	launch->request.user = &launch->user;
	return 0;
}

struct environ_values
supervisor_values(const struct supervisor *s, int rank)
{
	struct environ_values values = s->common;

	values.epoch = s->group.epoch;
	values.link_fd = -1;
	values.gpu = s->ranks[rank].gpu;
	values.visible_devices = s->ranks[rank].visible_devices;
	return values;
}

/* Words, environment and the files that the command may stand for. */
static int
build_words(struct supervisor *s, int rank, struct launch *launch, char *error, size_t size)
{
	const struct worker_settings *worker = config_worker(s->config, rank);
	struct environ_values *values = &launch->values;
	struct brace_values braces;

	*values = supervisor_values(s, rank);
	values->link_fd = launch->request.link_number;
	values->notify_socket = launch->notify_path;
	values->error_file = launch->error_file;
	snprintf(launch->error_file, sizeof(launch->error_file), "%.4000s/error-%d.json",
		 s->rundir.path, rank);
	braces = environ_braces(rank, values);
	launch->argv = argv_build(s->config, rank, values);
	launch->envp = environ_build(s->config, rank, values);
	if (worker->directory != NULL)
		launch->directory = brace_fill(worker->directory, &braces);
	if (launch->argv == NULL || launch->envp == NULL ||
	    (worker->directory != NULL && launch->directory == NULL) ||
	    (launch->path = spawn_path(launch->argv[0], launch->envp)) == NULL)
		return explain(error, size, "words and environment");
	return 0;
}

static int
prepare_launch(struct supervisor *s, int rank, struct launch *launch, char *error, size_t size)
{
	const struct worker_settings *worker = config_worker(s->config, rank);
	struct spawn_request *r = &launch->request;

	if (gather_limits(s, worker) != 0)
		return explain(error, size, "limits");
	r->limits = s->limits;
	r->limits_len = s->limits_len;
	r->link_number = spawn_link_number(s->limits, s->limits_len);
	if (cpus_parse(worker->cpus, &launch->cpus)) {
		r->cpus = &launch->cpus;
		r->cpus_size = sizeof(launch->cpus);
	}
	if (find_user(launch, worker, error, size) != 0 ||
	    open_notify(s, rank, launch, error, size) != 0 ||
	    (supervisor_open_error_file(s, rank, r->user) != 0 &&
	     explain(error, size, "the rank's error file") != 0) ||
	    build_words(s, rank, launch, error, size) != 0 ||
	    open_output(s, rank, launch, error, size) != 0)
		return -1;
	if (link_pair(&s->ranks[rank].link_fd, &launch->theirs) != 0)
		return explain(error, size, "a link");
	r->argv = launch->argv;
	r->envp = launch->envp;
	r->path = launch->path;
	r->directory = launch->directory;
	r->output_fd = launch->output_fds[1];
	r->link_fd = launch->theirs;
	s->ranks[rank].has_user = worker->user != NULL;
	return 0;
}

static void
fork_rank(struct supervisor *s, int rank)
{
	struct group_event event = {.kind = EVENT_SPAWN_FAILED, .rank = rank};
	struct launch launch = {.output_fds = {-1, -1}, .theirs = -1};
	char error[RUNDIR_ERROR_BYTES], shown[RUNDIR_ERROR_BYTES];
	struct spawned spawned;

	event.text = shown;
	s->ranks[rank].fork_wanted = false;
	if (prepare_launch(s, rank, &launch, error, sizeof(error)) == 0 &&
	    spawn_rank(&launch.request, &spawned, error, sizeof(error)) == 0) {
		s->pids[rank] = spawned.pid;
		s->ranks[rank].pidfd = spawned.pidfd;
		supervisor_watch_rank(s, rank);
		supervisor_open_probes(s, rank);
		event =
		    (struct group_event){.kind = EVENT_SPAWNED, .rank = rank, .pid = spawned.pid};
	}
	launch_free(&launch);
	if (event.kind == EVENT_SPAWN_FAILED)
		message_to_string(error, strlen(error), shown, sizeof(shown));
	supervisor_step(s, event);
}

bool
supervisor_forks_wanted(const struct supervisor *s)
{
	return s->fork_next < s->group.settings.world_size && group_may_fork(&s->group);
}

void
supervisor_fork_some(struct supervisor *s)
{
	for (int i = 0; i < FORKS_A_TURN && supervisor_forks_wanted(s); i++) {
		int rank = s->fork_next++;

		if (s->ranks[rank].fork_wanted)
			fork_rank(s, rank);
	}
}

void
supervisor_close_rank(struct supervisor *s, int rank)
{
	struct rank_io *io = &s->ranks[rank];

	if (io->link != NULL)
		event_free(io->link);
	if (io->exit != NULL)
		event_free(io->exit);
	io->link = io->exit = NULL;
	if (io->link_fd >= 0)
		close(io->link_fd);
	if (io->pidfd >= 0)
		close(io->pidfd);
	io->link_fd = io->pidfd = -1;
	supervisor_close_probes(s, rank);
	output_close(io->output);
	notify_close(io->notify);
	io->output = NULL;
	io->notify = NULL;
	io->fork_wanted = false;
	io->late_words = 0;
	io->passed_signals = 0;
}

size_t
supervisor_tail(int rank, const char **lines, size_t max, void *arg)
{
	struct supervisor *s = arg;

	return s->ranks[rank].output == NULL ? 0 : output_tail(s->ranks[rank].output, lines, max);
}

const char *
supervisor_gpu(int rank, void *arg)
{
	struct supervisor *s = arg;
	const char *gpu = s->ranks[rank].gpu;

	return gpu == NULL || gpu[0] == '\0' ? NULL : gpu;
}
