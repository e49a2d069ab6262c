/* The verbs. Each takes its own arguments, argv[0] being the verb, and returns the exit status. */
#ifndef SUPERVISOR_CMD_H
#define SUPERVISOR_CMD_H

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_health(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_restart(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_drill(int argc, char **argv);

#endif
