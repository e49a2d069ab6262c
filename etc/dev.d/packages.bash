# shellcheck shell=bash
# What each verb needs from the distribution. Nothing is asked of the network when all is there.

need_build() {
	need gcc libc6-dev cmake ninja-build pkg-config libevent-dev libinih-dev libjansson-dev
}

need_test() {
	need_build
	need libcmocka-dev python3 python3-pytest procps
}

need_lint() { need clang-tidy clang-format shellcheck; }

# need PACKAGE...: installs those that are missing.
need() {
	local package status have missing=()
	if ! command -v dpkg-query >/dev/null; then
		say "not a Debian system: expecting the likes of $*"
		return
	fi
	# shellcheck disable=SC2016 # the braces are dpkg-query's
	have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
	for package in "$@"; do
		status=$(awk -v p="$package" '$1 == p { print $2; exit }' <<<"$have")
		[[ $status == installed ]] || missing+=("$package")
	done
	((${#missing[@]} == 0)) || install_packages "${missing[@]}"
}

install_packages() {
	local as_root=(env DEBIAN_FRONTEND=noninteractive)
	if ((EUID != 0)); then
		command -v sudo >/dev/null || die "root or sudo is needed to install: $*"
		as_root=(sudo "${as_root[@]}")
	fi
	say "installing: $*"
	"${as_root[@]}" apt-get -q update >&2
	"${as_root[@]}" apt-get -q install -y --no-install-recommends "$@" >&2
}

# clang with its sanitizer and fuzzer libraries, which carry its version in their name.
need_clang() {
	local major
	need clang
	major=$(clang -dumpversion)
	need "libclang-rt-${major%%.*}-dev"
}

# Never installed from here: what they bring is the operator's choice.
report_optional() {
	local nvcc nccl torchrun
	nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
	nccl=$(ldconfig -p 2>/dev/null | awk '/libnccl\.so/ { print $NF; exit }' || true)
	torchrun=$(command -v torchrun || true)
	printf 'Optional: CUDA toolkit %s, NCCL %s, torchrun %s.\n' \
		"${nvcc:-not found}" "${nccl:-not found}" "${torchrun:-not found}"
}
