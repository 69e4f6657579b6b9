# shellcheck shell=sh disable=SC2154 # names that deploy/pi/install sets
# Which OpenSSL a runner measures: part of deploy/pi/install.

has_35() {
    "$@" version 2>/dev/null | awk '{ split($2, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 5)) }'
}

# The system's, a bundle, packages that this board's own sources have; a build only when it was agreed to.
find_openssl() {
    if has_35 openssl; then
        note "OpenSSL: the system's, $(openssl version | cut -d' ' -f2)"
    elif [ -n "$openssl" ]; then
        unpack_openssl
        note "OpenSSL: from $openssl"
    elif ls -d "$CACHE"/opjoule/openssl/*/ >/dev/null 2>&1 || [ -x "$OPT/openssl/bin/openssl" ]; then
        note "OpenSSL: the one installed before"
    elif [ -n "$old" ]; then
        note "OpenSSL: $(openssl version), without ML-KEM, ML-DSA and SLH-DSA, as you wished"
    elif fetch_openssl; then
        note "OpenSSL: packages of a newer release from this board's own sources, unpacked in $CACHE"
    else
        ask_for_build
    fi
}

# Tried where no runner looks; what does not run here is not kept.
unpack_openssl() {
    trying=$CACHE/trying
    run rm -rf "$trying"
    run install -d -m 0755 "$trying/opjoule/openssl"
    if ! run tar --no-same-owner -C "$trying/opjoule/openssl" -xf "$openssl" || ! try_openssl "$trying/opjoule/openssl"; then
        rm -rf "$trying"
        fail "$openssl holds no OpenSSL 3.5 that runs on this board, $architecture: make one with deploy/pi/openssl-bundle"
    fi
    run cp -a "$trying/opjoule" "$CACHE/"
    run rm -rf "$trying"
}

try_openssl() {
    run "$VENV/bin/python" -c '
import sys
from pathlib import Path
from runner.openssl.program import OpenSsl, probe_unpacked
found = [probe_unpacked(folder) for folder in Path(sys.argv[1]).iterdir()]
sys.exit(not any(isinstance(each, OpenSsl) and each.has_pqc for each in found))' "$1"
}

fetch_openssl() {
    run env XDG_CACHE_HOME="$CACHE" "$VENV/bin/python" -c '
import sys
from errors import SettingsError
from runner.openssl.locate import obtain_openssl
try:
    sys.exit(obtain_openssl(None).shortfall)
except SettingsError as error:
    sys.exit(str(error))'
}

ask_for_build() {
    note "there is no OpenSSL 3.5 for this board: make a bundle on the hub (deploy/pi/openssl-bundle) and give it with --openssl"
    note "or build it here, which takes $(build_time)"
    [ -n "$build" ] || fail "to build, name a source archive with --build-openssl; to do without, --old-openssl"
    if [ -t 0 ]; then
        printf 'install: build now? [y/N] '
        read -r answer
        case $answer in y | Y | yes) ;; *) fail "not built" ;; esac
    fi
    build_openssl
}

# From the time of a loop here and there: an estimate, not a promise. A build of OpenSSL 3.5.7 took 200 s on both cores of
# a virtual machine, on which the loop takes 0.19 s (docs/install.md).
build_time() {
    python3 - <<'TEXT'
import os
import time

BUILD_CPU_S, LOOP_THERE_S = 2 * 200, 0.19
start = time.process_time()
total = 0
for i in range(2_000_000):
    total += i * i % 7
loop_s = time.process_time() - start
hours = BUILD_CPU_S * loop_s / LOOP_THERE_S / len(os.sched_getaffinity(0)) / 3600
print(f"about {60 * hours:.0f} minutes" if hours < 1 else f"about {hours:.1f} hours", "(estimated from a loop)")
TEXT
}

build_openssl() {
    work=$OPT/build
    run apt-get install -y -qq --no-install-recommends build-essential perl
    run rm -rf "$work"
    run install -d -m 0755 "$work"
    run tar --no-same-owner -C "$work" --strip-components=1 -xf "$build"
    run sh -ec 'cd "$1"; ./Configure --prefix="$2" --libdir=lib no-docs no-tests shared "-Wl,-rpath,$2/lib"
        make -j"$(nproc)"; make install_sw' sh "$work" "$OPT/openssl"
    run rm -rf "$work"
}
