#include "supervisor/client_reports.h"

#include "common/log.h"
#include "supervisor/report.h"

void
client_state_dir(char state_dir[PATH_MAX])
{
	char error[RUNDIR_ERROR_BYTES];

	if (statedir_path(state_dir, error, sizeof(error)) == 0)
		return;
	log_warnx("%s", error);
	state_dir[0] = '\0';
}

json_t *
client_reports(const char *state_dir, const char *name)
{
	struct report_names names;
	json_t *reports = json_array(), *report;
	char path[PATH_MAX + NAME_MAX + 2];

	if (report_list(state_dir, name, &names) != 0)
		log_warn("state directory %s", state_dir);
	for (size_t i = 0; i < names.n && json_array_size(reports) < REPORT_KEEP; i++) {
		snprintf(path, sizeof(path), "%s/%s", state_dir, names.v[i]);
		report = json_load_file(path, 0, NULL);
		/* A crash of the whole machine may have left an empty one. */
		if (json_is_object(report))
			json_array_append(reports, report);
		json_decref(report);
	}
	report_list_free(&names);
	return reports;
}
