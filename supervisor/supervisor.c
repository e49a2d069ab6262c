/* Setting up, the loop, and the way out. */
#include "supervisor/supervisor.h"

#include "common/log.h"
#include "supervisor/tree.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRIORITIES  3 /* links and signals, timers and requests, output */
#define RESCAN_USEC 2000
#define TURN_NS     (5 * NS_PER_MSEC)
#define FLUSH_NS    (2 * NS_PER_SEC)

void
supervisor_step(struct supervisor *s, struct group_event event)
{
	uint64_t now_ns = monotonic_ns();

	/* Lines that an action itself brings to light are no event any more. */
	if (s->in_step)
		return;
	s->in_step = true;
	group_step(&s->group, &event, now_ns, &s->actions);
	supervisor_act(s, &event);
	journal_step(s->journal, &event, &s->actions, now_ns);
	s->in_step = false;
	s->changed = true;
	/* Events that never cease would keep the loop from what a turn does at its end. */
	if (s->turn_ns == 0)
		s->turn_ns = now_ns;
	else if (now_ns - s->turn_ns > TURN_NS)
		event_base_loopbreak(s->base);
}

void
supervisor_rank_event(struct supervisor *s, int rank, enum event_kind kind)
{
	supervisor_step(s, (struct group_event){.kind = kind, .rank = rank});
}

/* --- callbacks --- */

static void
on_heard(int rank, void *arg)
{
	supervisor_rank_event(arg, rank, EVENT_HEARD);
}

static void
on_show(int rank, const char *text, size_t len, void *arg)
{
	struct supervisor *s = arg;

	writer_rank_line(s->writer, rank, text, len);
}

/* A death that can be seen now is news before any answer. */
static void
on_look(void *arg)
{
	supervisor_read_signals(arg);
	supervisor_read_all(arg);
}

static void
on_stop_request(void *arg)
{
	supervisor_step(arg, (struct group_event){.kind = EVENT_STOP, .rank = NO_RANK});
}

static void
on_restart_request(void *arg)
{
	supervisor_step(arg, (struct group_event){.kind = EVENT_RESTART, .rank = NO_RANK});
}

static bool
is_judgement(const struct group_event *event)
{
	return event->rank != NO_RANK && event->timer == RANK_TIMER_JUDGE;
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct supervisor *s = arg;
	struct group_event event;
	bool asked = false;

	(void)fd;
	(void)what;
	s->timer_ns = 0;
	/* The loop's clock is coarse: a timer may come early, and is set again. */
	s->changed = true;
	supervisor_read_signals(s);
	supervisor_hear_all(s);
	/* While job control holds us no bound passes. */
	while (!s->over && s->stopped_ns == 0 && group_due(&s->group, monotonic_ns(), &event)) {
		/* Looked at once: a stop that changes nothing must not keep us here. */
		if (is_judgement(&event) && !asked && (asked = supervisor_guard_is_asked(s)))
			continue;
		supervisor_step(s, event);
	}
}

static void
on_news(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	supervisor_tell_news(arg);
}

/* --- one turn --- */

static void
arm_timer(struct supervisor *s)
{
	uint64_t deadline_ns = s->stopped_ns != 0 ? 0 : group_next_deadline(&s->group);
	uint64_t now_ns = monotonic_ns(), usec;
	struct timeval tv;

	/* What is left after SIGKILL may bear children between two looks. */
	if (s->sweep == SIGKILL && (deadline_ns == 0 || deadline_ns > now_ns))
		deadline_ns = now_ns + RESCAN_USEC * NS_PER_USEC;
	if (deadline_ns == s->timer_ns)
		return;
	s->timer_ns = deadline_ns;
	if (deadline_ns == 0) {
		event_del(s->timer);
		return;
	}
	usec = deadline_ns > now_ns ? (deadline_ns - now_ns - 1) / NS_PER_USEC + 1 : 0;
	tv.tv_sec = (time_t)(usec / 1000000);
	tv.tv_usec = (suseconds_t)(usec % 1000000);
	event_add(s->timer, &tv);
}

static void
tell_transitions(struct supervisor *s)
{
	uint64_t now_ns = monotonic_ns();

	for (int i = 0; i < s->group.settings.world_size; i++) {
		enum rank_state state = s->group.ranks[i].state;

		if (state != s->ranks[i].shown)
			terminal_transition(s->terminal, i, (int)s->ranks[i].shown, (int)state,
					    now_ns);
		if (state == RANK_SERVING && s->ranks[i].shown != RANK_SERVING)
			supervisor_watch_alive(s, i);
		s->ranks[i].shown = state;
	}
	if (s->group.state != s->shown)
		terminal_transition(s->terminal, NO_RANK, (int)s->shown, (int)s->group.state,
				    now_ns);
	s->shown = s->group.state;
	terminal_update(s->terminal, now_ns);
	health_changed(s->health);
}

static void
turn(struct supervisor *s)
{
	/* A step taken before the loop may have left work behind. */
	bool busy = supervisor_forks_wanted(s) || s->changed;
	int flags = EVLOOP_ONCE | (busy ? EVLOOP_NONBLOCK : 0);

	s->turn++;
	s->turn_ns = 0;
	if (event_base_loop(s->base, flags) < 0)
		fatalx(EXIT_LOOP, "the event loop failed");
	s->heard_all = false;
	supervisor_fork_some(s);
	supervisor_sweep(s);
	if (!s->changed)
		return;
	s->changed = false;
	tell_transitions(s);
	arm_timer(s);
}

/* --- setting up --- */

static void
choose_settings(const struct config *config, struct group_settings *settings)
{
	const struct worker_settings *worker = config_worker(config, 0);

	memset(settings, 0, sizeof(*settings));
	settings->world_size = config->ranks;
	settings->job = config->mode == MODE_JOB;
	settings->ready_auto = worker->ready == READY_AUTO;
	settings->no_gate = worker->ready == READY_NONE;
	settings->restart = config->restart == RESTART_ON_FAILURE;
	settings->restart_max = config->restart_max;
	settings->restart_window_ns = config->restart_window_ns;
	settings->restart_backoff_ns = config->restart_backoff_ns;
	settings->stop_in_order = config->stop_order != STOP_TOGETHER;
	settings->stop_reverse = config->stop_order == STOP_REVERSE;
	memcpy(settings->timeout_ns, config->timeout_ns, sizeof(settings->timeout_ns));
}

/* NULL if no rank has one. */
static int *
choose_dump_signals(const struct config *config)
{
	int *signals = calloc((size_t)config->ranks, sizeof(*signals));
	bool any = false;

	for (int i = 0; signals != NULL && i < config->ranks; i++) {
		signals[i] = config_worker(config, i)->dump_signal;
		any |= signals[i] != 0;
	}
	if (any)
		return signals;
	free(signals);
	return NULL;
}

static int
open_group(struct supervisor *s, char *error, size_t size)
{
	struct group_settings settings;
	struct message go = {.verb = VERB_GO};

	choose_settings(s->config, &settings);
	s->pids = calloc((size_t)settings.world_size, sizeof(*s->pids));
	s->polled = calloc(2 * (size_t)settings.world_size, sizeof(*s->polled));
	s->stop_signals = calloc((size_t)settings.world_size, sizeof(*s->stop_signals));
	settings.stop_signals = s->stop_signals;
	s->dump_signals = choose_dump_signals(s->config);
	settings.dump_signals = s->dump_signals;
	if (s->pids == NULL || s->stop_signals == NULL || s->polled == NULL ||
	    group_init(&s->group, &settings) != 0 ||
	    actions_init(&s->actions, settings.world_size) != 0) {
		snprintf(error, size, "out of memory");
		return -1;
	}
	for (int i = 0; i < settings.world_size; i++)
		s->stop_signals[i] = config_worker(s->config, i)->stop_signal;
	s->go_len = message_format(&go, s->go);
	s->fork_next = settings.world_size;
	return 0;
}

static int
open_health(struct supervisor *s, char *error, size_t size)
{
	char path[RUNDIR_SOCKET_BYTES];
	struct health_settings settings = {.path = path,
					   .mode = s->config->health_mode,
					   .http = s->config->http,
					   .source = s->source,
					   .look = on_look,
					   .journal = s->journal,
					   .stop = on_stop_request,
					   .restart = on_restart_request,
					   .arg = s};

	if (rundir_socket_path(&s->rundir, RUNDIR_HEALTH_SOCKET, path, error, size) != 0)
		return -1;
	s->health = health_open(s->base, &settings, error, size);
	return s->health == NULL ? -1 : 0;
}

static void
on_library_log(int severity, const char *text)
{
	if (severity >= EVENT_LOG_WARN)
		log_warnx("libevent: %s", text);
}

static void
on_library_failure(int error)
{
	(void)error;
	fatalx(EXIT_LOOP, "the event library cannot go on");
}

static void
open_screen(struct supervisor *s)
{
	struct writer_options options = {.out_fd = STDOUT_FILENO,
					 .err_fd = STDERR_FILENO,
					 .format = s->options->log_format,
					 .prefix = s->options->prefix,
					 .ranks_kept = config_worker(s->config, 0)->log_bytes > 0,
					 .group = s->config->name};

	event_set_log_callback(on_library_log);
	event_set_fatal_callback(on_library_failure);
	s->base = event_base_new();
	if (s->base == NULL || event_base_priority_init(s->base, PRIORITIES) != 0 ||
	    (s->timer = evtimer_new(s->base, on_timer, s)) == NULL ||
	    (s->news = evtimer_new(s->base, on_news, s)) == NULL ||
	    (s->writer = writer_open(s->base, &options)) == NULL)
		fatalx(EXIT_LOOP, "the event loop cannot be set up");
	log_set_sink(writer_log, s->writer);
	s->output_callbacks = (struct output_callbacks){
	    .heard = on_heard, .line = supervisor_on_line, .show = on_show, .arg = s};
}

/* Everything that may be refused before a rank is forked. 0, or -1 with the reason's text. */
static int
preflight(struct supervisor *s, char *error, size_t size)
{
	if (supervisor_raise_open_files(s, error, size) != 0)
		return -1;
	if (rundir_open(&s->rundir, s->options->run_dir, s->config->run_dir, s->config->name,
			s->guarded_by->pid, error, size) != 0)
		return -1;
	if (supervisor_prepare(s, error, size) != 0 || open_group(s, error, size) != 0)
		return -1;
	s->terminal = terminal_open(s->base, s->writer, &s->group);
	s->journal = journal_open(&s->group);
	if (s->terminal == NULL || s->journal == NULL) {
		snprintf(error, size, "out of memory");
		return -1;
	}
	s->source.timeline = journal_timeline(s->journal);
	return open_health(s, error, size);
}

/* --- the way out --- */

static void
print_last_line(struct supervisor *s)
{
	char line[REPORT_LINE_BYTES];
	bool good = s->group.loss.reason == REASON_NONE;

	report_last_line(&s->source, monotonic_ns(), line, sizeof(line));
	writer_flush(s->writer, monotonic_ns() + FLUSH_NS);
	if (good)
		log_info("%s", line);
	else
		log_warnx("%s", line);
	writer_flush(s->writer, monotonic_ns() + FLUSH_NS);
}

static void
close_all(struct supervisor *s)
{
	for (int i = 0; s->ranks != NULL && i < s->config->ranks; i++)
		supervisor_close_rank(s, i);
	health_close(s->health);
	rundir_close(&s->rundir);
	terminal_close(s->terminal);
	print_last_line(s);
	for (int i = 0; s->ranks != NULL && i < s->config->ranks; i++) {
		free(s->ranks[i].gpu);
		free(s->ranks[i].visible_devices);
	}
	log_set_sink(NULL, NULL);
	writer_close(s->writer);
	event_free(s->timer);
	event_free(s->news);
	if (s->signals != NULL)
		event_free(s->signals);
	if (s->guard != NULL)
		event_free(s->guard);
	event_base_free(s->base);
	actions_free(&s->actions);
	journal_close(s->journal);
	group_free(&s->group);
	free(s->ranks);
	free(s->pids);
	free(s->polled);
	free(s->evidence);
	oom_close(&s->oom);
	free(s->stop_signals);
	free(s->dump_signals);
	free(s->limits);
}

static int
refuse(struct supervisor *s, const char *error)
{
	struct loss *loss = &s->group.loss;

	loss->reason = REASON_PREFLIGHT_FAILED;
	loss->rank = NO_RANK;
	loss->at_ns = monotonic_ns();
	snprintf(loss->cause, sizeof(loss->cause), "%s", error);
	snprintf(loss->detail, sizeof(loss->detail), "%.500s", error);
	s->group.state = GROUP_FAILED;
	s->group.exit_status = reason_exit_status(loss->reason);
	report_end(&s->source, &s->rundir, monotonic_ns());
	return s->group.exit_status;
}

static int
run_loop(struct supervisor *s)
{
	if (supervisor_open_signals(s) != 0)
		fatal(EXIT_LOOP, "signals");
	supervisor_read_signals(s);
	if (group_may_fork(&s->group))
		supervisor_step(s, (struct group_event){.kind = EVENT_START, .rank = NO_RANK});
	while (!s->over)
		turn(s);
	tell_transitions(s);
	return s->group.exit_status;
}

int
supervise(const struct guard *guard, struct config *config, const struct run_options *options)
{
	struct supervisor s = {.config = config,
			       .options = options,
			       .guarded_by = guard,
			       .signal_fd = -1,
			       .group_id_fd = -1};
	char error[RUNDIR_ERROR_BYTES];
	int status;

	s.rundir.fd = s.rundir.base_fd = s.rundir.pid_fd = -1;
	s.source = (struct status_source){.name = config->name,
					  .group = &s.group,
					  .pid = guard->pid,
					  .gpu = supervisor_gpu,
					  .tail = supervisor_tail,
					  .evidence = supervisor_evidence,
					  .arg = &s};
	open_screen(&s);
	oom_open(&s.oom);
	if (tree_adopt() != 0)
		fatal(EXIT_LOOP, "adoption of orphans");
	status = preflight(&s, error, sizeof(error)) != 0 ? refuse(&s, error) : run_loop(&s);
	close_all(&s);
	return status;
}
