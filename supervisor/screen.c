#include "supervisor/screen.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define COLUMNS 80 /* where the terminal does not tell */
#define LINES   24
/* The alternate screen, no cursor, rows cut and not wrapped; and back. */
#define ENTER  "\033[?1049h\033[?25l\033[?7l"
#define LEAVE  "\033[?7h\033[?25h\033[?1049l"
#define HOME   "\033[H"
#define CLEAR  "\033[J"
#define CTRL_C 3

static void
write_all(const char *text, size_t len)
{
	struct pollfd pfd = {STDOUT_FILENO, POLLOUT, 0};
	ssize_t n;

	while (len > 0) {
		n = write(STDOUT_FILENO, text, len);
		if (n < 0 && errno == EAGAIN)
			poll(&pfd, 1, -1);
		else if (n < 0 && errno != EINTR)
			return;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void
enter(struct screen *screen)
{
	struct termios raw = screen->before;

	/* Signals stay keys' doing: Ctrl-C, Ctrl-Z and Ctrl-\ mean what they always do. */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (screen->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	write_all(ENTER, strlen(ENTER));
}

static void
leave(struct screen *screen)
{
	write_all(LEAVE, strlen(LEAVE));
	if (screen->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &screen->before);
}

int
screen_open(struct screen *screen)
{
	static const int heard[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++)
		sigaddset(&set, heard[i]);
	sigprocmask(SIG_BLOCK, &set, &screen->mask);
	screen->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (screen->signals < 0)
		return -1;
	screen->keys = tcgetattr(STDIN_FILENO, &screen->before) == 0;
	enter(screen);
	return 0;
}

void
screen_close(struct screen *screen)
{
	leave(screen);
	close(screen->signals);
	sigprocmask(SIG_SETMASK, &screen->mask, NULL);
}

void
screen_size(int *columns, int *lines)
{
	struct winsize size;

	*columns = COLUMNS;
	*lines = LINES;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
		return;
	if (size.ws_col > 0)
		*columns = size.ws_col;
	if (size.ws_row > 0)
		*lines = size.ws_row;
}

void
screen_show(const char *rows, size_t len)
{
	char *frame = malloc(sizeof(HOME) + len + sizeof(CLEAR));

	if (frame == NULL)
		return;
	memcpy(frame, HOME, strlen(HOME));
	memcpy(frame + strlen(HOME), rows, len);
	memcpy(frame + strlen(HOME) + len, CLEAR, strlen(CLEAR));
	write_all(frame, strlen(HOME) + len + strlen(CLEAR));
	free(frame);
}

bool
screen_hear_signals(struct screen *screen)
{
	struct signalfd_siginfo info;

	while (read(screen->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP) {
			leave(screen);
			kill(getpid(), SIGSTOP);
			enter(screen);
		} else if (info.ssi_signo != SIGWINCH) {
			return false;
		}
	}
	return true;
}

bool
screen_hear_keys(struct screen *screen)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		screen->keys = false;
	for (ssize_t i = 0; i < n; i++)
		if (keys[i] == 'q' || keys[i] == 'Q' || keys[i] == CTRL_C)
			return false;
	return true;
}
