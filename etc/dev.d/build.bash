# shellcheck shell=bash
# Configuring, building and testing one preset of CMakePresets.json.

# preset_folder PRESET
preset_folder() {
	if [[ $1 == release ]]; then echo build; else echo "build-$1"; fi
}

# configure PRESET: only when there is nothing yet, or the presets have changed since, or the tests
# can be built now.
configure() {
	local folder testing=OFF
	folder=$(preset_folder "$1")
	! pkg-config --exists cmocka || testing=ON
	[[ $folder/build.ninja -nt CMakePresets.json ]] &&
		grep -q "^BUILD_TESTING:BOOL=$testing" "$folder/CMakeCache.txt" && return
	rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
	cmake --preset "$1" -DBUILD_TESTING="$testing" >&2
}

# build_preset PRESET [TARGET...]
build_preset() {
	configure "$1" &&
		cmake --build "$(preset_folder "$1")" --target "${@:2}" >&2
}

# test_preset PRESET [CTEST OPTION...]
test_preset() {
	local jobs
	jobs=$(nproc)
	ctest --test-dir "$(preset_folder "$1")" -j "$((jobs < 4 ? jobs : 4))" \
		--output-on-failure --no-tests=error "${@:2}"
}

# The programs alone ask for less than the tests: those are configured once cmocka is there.
dev_build() {
	need_build
	build_preset release tfsupervisor tfworker
	say "built build/tfsupervisor and build/tfworker"
}

# Ends with "test: N passed, N failed".
dev_test() {
	local log status=0
	need_test
	build_preset release all
	log=$(mktemp)
	test_preset release "$@" | tee "$log" || status=$?
	awk '/tests failed out of/ { failed = $4; total = $9 }
		END { printf "test: %d passed, %d failed\n", total - failed, failed }' "$log"
	rm -f "$log"
	return "$status"
}

dev_bench() {
	need_test
	build_preset release all bench
	/usr/bin/python3 -B tests/bench/bench.py --build build "$@"
}
