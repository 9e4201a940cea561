# Sourced by tools/test and tools/demo: what a fresh Debian 12 needs, once.
# Standard output belongs to the caller; everything here speaks on standard error.

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

die() { printf 'error: %s\n' "$*" >&2; exit 2; }

# The repository's top, wherever the caller stands.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${NVME_QUARANTINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nvme-quarantine}

# What keeps Debian from starting the servers that it installs.
policy=/usr/sbin/policy-rc.d

wanted_packages() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$top/tools/packages.txt"; }

# Installs the packages of tools/packages.txt that are missing. Needs root for that only.
install_packages() {
    local missing=()
    local package program
    while read -r package program; do
        [ -n "$program" ] && command -v "$program" >/dev/null && continue
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done < <(wanted_packages)
    [ "${#missing[@]}" -eq 0 ] && return
    [ "$(id -u)" -eq 0 ] || die "expected these packages: ${missing[*]}; install them or run as root"
    say "installing ${missing[*]}"
    # Servers that Debian would start at once are not wanted running: the tests start their own.
    local made=
    if [ ! -e "$policy" ]; then
        made=1
        # Also after an interrupt: left behind, no server that is installed later would start.
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    {
        apt-get update -qq || true
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            -o Dpkg::Use-Pty=0 "${missing[@]}"
    } >&2 || die "apt-get could not install ${missing[*]}"
    if [ -n "$made" ]; then
        rm -f "$policy"
        trap - EXIT
    fi
}

# The virtual environment with all that the code, its lint and its tests need, keyed by the list of
# it: one for all checkouts. Sets $python. The code itself is always taken from the checkout.
make_environment() {
    local wanted="$top/tools/requirements-test.txt" key venv
    key=$(cat "$wanted" <(python3 -VV) | sha256sum | cut -c1-16)
    venv="$cache/venv-$key"
    mkdir -p "$cache/locks"
    exec 9>"$cache/locks/venv-$key"
    flock 9 # another checkout may be making it
    if [ ! -e "$venv/.complete" ]; then
        say "Python environment (once)"
        rm -rf "$venv"
        python3 -m venv "$venv" >&2
        "$venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" >&2 ||
            die "pip could not install $wanted"
        touch "$venv/.complete"
    fi
    exec 9>&-
    python="$venv/bin/python"
}
