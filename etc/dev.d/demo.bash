# shellcheck shell=bash
# What the README promises a newcomer: a late rank is waited for, a lost one is named.

demo_wants_mib=900

# demo_folder: a new folder with room for the checkpoint; its path.
demo_folder() {
	local parent=${TMPDIR:-/tmp} free
	free=$(df --output=avail -B1M "$parent" | tail -n 1)
	((free >= demo_wants_mib)) ||
		die "$parent: ${free// /} MiB free, the demo wants $demo_wants_mib; set TMPDIR"
	say "$parent: ${free// /} MiB free, the demo's checkpoint takes 530 MiB of it for a while"
	mktemp -d "$parent/tfdemo-XXXXXX"
}

# demo_ini FOLDER DRILL DELAY
demo_ini() {
	local rank="tfworker rank model --once --receipt receipt-{rank}.json"
	cat <<-INI
		[group]
		name = demo
		ranks = 2
		mode = job

		[worker]
		directory = $1
		command = $rank

		[worker.1]
		command = $rank --drill $2 --delay $3
	INI
}

# demo_run FOLDER WANTED_STATUS
demo_run() {
	local status=0
	(
		export PATH=$PWD/build:$PATH RUNTIME_DIRECTORY=$1/run STATE_DIRECTORY=$1/state
		tfsupervisor run "$1/demo.ini"
	) || status=$?
	((status == $2)) || die "exit status $status instead of $2"
}

demo_title() { printf '\n--- %s\n\n' "$*"; }

demo_acts() {
	local folder=$1
	mkdir "$folder/run" "$folder/state"

	demo_title "a checkpoint of real layout: 48 layers, bf16, 5 shards"
	build/tfworker synth "$folder/model" --layers 48 --hidden 640 --intermediate 2048 \
		--vocab 32768 --shards 5

	demo_title "2 ranks load it; rank 1 ends its load 8 s late, and rank 0 waits for it"
	demo_ini "$folder" late 8s | tee "$folder/demo.ini"
	printf '\n$ tfsupervisor run demo.ini\n'
	demo_run "$folder" 0

	demo_title "the receipts"
	grep -HE '"(outcome|waited_ms|checksum|elements|wrong)"' "$folder"/receipt-?.json |
		sed -E 's|.*/receipt-(.).json: *|rank \1  |; s|,$||'

	demo_title "the same, but rank 1 leaves 2 s in, as a failed load does"
	demo_ini "$folder" gone 2s >"$folder/demo.ini"
	printf '$ tfsupervisor run demo.ini\n'
	demo_run "$folder" 10
	printf '\nexit status 10\n\n$ tfsupervisor why demo\n'
	STATE_DIRECTORY=$folder/state build/tfsupervisor why demo
}

dev_demo() {
	local folder
	dev_build
	folder=$(demo_folder)
	# shellcheck disable=SC2064 # the folder of now
	trap "rm -rf '$folder'" EXIT
	demo_acts "$folder"
	demo_title "that was all; $folder is removed. Self-tests with a receipt: tfsupervisor drill"
}
