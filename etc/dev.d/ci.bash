# shellcheck shell=bash
# What must hold before a change lands, as steps that are counted: all of them run, whatever fails.

fuzz_seconds=30
steps_passed=0
steps_failed=0

# step NAME COMMAND...: quiet when all is well, the end of its output when not.
step() {
	local name=$1 log started=$SECONDS
	shift
	log=$(mktemp)
	if ("$@") >"$log" 2>&1; then
		steps_passed=$((steps_passed + 1))
		printf 'ok    %s (%d s)\n' "$name" "$((SECONDS - started))"
	else
		steps_failed=$((steps_failed + 1))
		printf 'FAIL  %s (%d s)\n' "$name" "$((SECONDS - started))"
		tail -n 120 "$log" | sed 's/^/      /'
	fi
	rm -f "$log"
}

steps_summary() {
	printf '%s: %d passed, %d failed\n' "$1" "$steps_passed" "$steps_failed"
	((steps_failed == 0))
}

c_sources() { find common supervisor worker kernels tests -name '*.[ch]' | sort; }
shell_sources() { printf '%s\n' etc/dev etc/dev.d/*.bash .ci/run; }

lint_tidy() {
	configure clang && c_sources | grep '\.c$' |
		xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build-clang 2>/dev/null
}

lint_format() { c_sources | xargs clang-format --dry-run --Werror; }
lint_shell() { shell_sources | xargs shellcheck --external-sources; }

lint_steps() {
	step "clang-format" lint_format
	step "shellcheck" lint_shell
	step "clang-tidy" lint_tidy
}

dev_lint() {
	need_test
	need_lint
	need_clang
	lint_steps
	steps_summary lint
}

# Within a step nothing stops at an error by itself: commands are chained. What a sanitizer slows
# down has its deadlines multiplied, not dropped; the page's browser is left out.
test_memory() {
	build_preset asan all &&
		TF_SLOW=4 test_preset asan -LE process &&
		# The leak checker wants descriptors and threads that process tests take away.
		TF_SLOW=4 ASAN_OPTIONS=detect_leaks=0 test_preset asan -L process -E process.test_page
}

# tfworker has threads. The supervisor has one, and its vfork-like clone is refused by this
# sanitizer, so that the plain one starts the ranks here.
test_threads() {
	build_preset release tfsupervisor &&
		build_preset tsan all &&
		install build/tfsupervisor build-tsan/tfsupervisor &&
		TF_SLOW=4 test_preset tsan -R '^unit|^process.test_(rank|checkpoint|tfrank)$'
}

# fuzz_one TARGET SECONDS: starts from the corpus in the tree, keeps what it finds out of it.
fuzz_one() {
	local found=build-fuzz/found/$1
	mkdir -p "$found" "tests/fuzz/corpus_${1#fuzz_}" &&
		"build-fuzz/fuzz/$1" -max_total_time="$2" -timeout=5 -rss_limit_mb=2048 \
			-print_final_stats=1 -artifact_prefix="$found/" "$found" "tests/fuzz/corpus_${1#fuzz_}"
}

fuzz_targets() { basename -s .c -a tests/fuzz/fuzz_*.c; }

fuzz_steps() {
	local target
	step "fuzz targets, build" build_preset fuzz fuzz
	for target in ${2:-$(fuzz_targets)}; do
		step "$target, $1 s" fuzz_one "$target" "$1"
	done
}

dev_fuzz() {
	need_test
	need_clang
	fuzz_steps "${1:-$fuzz_seconds}" "${2:-}"
	steps_summary fuzz
}

dev_ci() {
	need_test
	need_lint
	need_clang
	step "gcc, warnings as errors" build_preset gcc all bench
	step "clang, warnings as errors" build_preset clang all bench
	lint_steps
	step "tests, address and undefined-behaviour sanitizers" test_memory
	step "tests, thread sanitizer" test_threads
	fuzz_steps 20
	steps_summary ci
}
