# Sourced by scripts that need PostgreSQL, from the top of the repository.

# need_postgres [--durable] COMMAND ARGS…
#
# Makes sure that PostgreSQL's server programs are installed. Then returns if HIGHWATER_TEST_POSTGRES_URL names a server;
# else becomes COMMAND with that variable set to a server of its own, which is removed when COMMAND ends, fails or is
# interrupted. COMMAND is usually the calling script itself.
need_postgres() {
    local throwaway
    throwaway=$(build_throwaway_postgres)
    if ! "$throwaway" --bindir >/dev/null 2>&1; then
        install_postgres
        # Says in one sentence what is missing if it still is.
        "$throwaway" --bindir >/dev/null || exit 1
    fi
    if [[ -z ${HIGHWATER_TEST_POSTGRES_URL:-} ]]; then
        exec "$throwaway" "$@"
    fi
}

# Prints the path of the program. Not `cargo run`, which would pass variables about the package on to COMMAND.
build_throwaway_postgres() {
    cargo build --quiet --locked --package throwaway-postgres --message-format=json-render-diagnostics |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Installs Debian's package if that is possible without asking anybody; does nothing if not.
install_postgres() {
    local as_root=()
    if ((EUID != 0)); then
        as_root=(sudo -n)
        sudo -n true 2>/dev/null || return 0
    fi
    # A folder that was named explicitly is not put right by installing something elsewhere.
    if [[ -n ${HIGHWATER_POSTGRES_BIN:-} ]] || ! command -v apt-get >/dev/null; then
        return 0
    fi
    echo "== installing PostgreSQL, whose server programs are not on this machine"
    local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends)
    "${as_root[@]}" apt-get update
    # Debian's package would create a server of its own and start it now and at every boot. Only where nobody has had
    # a say in that yet, it is told not to.
    if ! dpkg-query --show --showformat='${Status}' postgresql-common 2>/dev/null | grep -q 'ok installed'; then
        "${install[@]}" postgresql-common
        "${as_root[@]}" sed -i 's/^#\? *create_main_cluster.*/create_main_cluster = false/' \
            /etc/postgresql-common/createcluster.conf
    fi
    "${install[@]}" postgresql
}
