/* A terminal that one program has for itself: the alternate screen, keys, signals. */
#ifndef SUPERVISOR_SCREEN_H
#define SUPERVISOR_SCREEN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct screen {
	int signals; /* readable when one has come */
	bool keys;   /* standard input is the terminal too */
	struct termios before;
	sigset_t mask;
};

/* 0, or -1 with errno. Standard output is a terminal. */
int screen_open(struct screen *screen);
/* Leaves the terminal as it was. */
void screen_close(struct screen *screen);

/* Columns that may be filled, and lines. */
void screen_size(int *columns, int *lines);

/* Shows rows in place of those that stand there, in one piece: nothing flickers. */
void screen_show(const char *rows, size_t len);

/* Reads what has come; Ctrl-Z is heeded. False if it asks to leave. */
bool screen_hear_signals(struct screen *screen);
bool screen_hear_keys(struct screen *screen);

#endif
