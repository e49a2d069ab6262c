/*
 * The verbs of tfworker. argv[0] is the verb. Exit statuses: 0, EXIT_USAGE for a wrong command
 * line, 1 for anything else.
 */
#ifndef WORKER_CMD_H
#define WORKER_CMD_H

#define EXIT_USAGE 64

int cmd_plan(int argc, char **argv);
int cmd_rank(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_verify(int argc, char **argv);

#endif
