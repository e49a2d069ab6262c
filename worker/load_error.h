/* What is wrong with a checkpoint and where: file, tensor, found, expected. */
#ifndef WORKER_LOAD_ERROR_H
#define WORKER_LOAD_ERROR_H

#define LOAD_ERROR_BYTES 1024

/* text is one line of UTF-8 without control characters, cut at a character. */
struct load_error {
	char text[LOAD_ERROR_BYTES];
	int error_number; /* errno of a failed system call, ECANCELED, or 0: the content is wrong */
};

/* Always returns -1. error may be NULL. */
int load_error_set(struct load_error *error, int error_number, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
