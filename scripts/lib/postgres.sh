# Sourced by scripts that need PostgreSQL, from the top of the repository.

# need_postgres [--durable] COMMAND ARGS…
#
# Makes sure that PostgreSQL's server programs are installed. Then returns if HIGHWATER_TEST_POSTGRES_URL names a server;
# else becomes COMMAND with that variable set to its own server, which is removed when COMMAND ends, fails or is
# interrupted. COMMAND is usually the calling script itself.
need_postgres() {
    local throwaway
    throwaway=$(build_throwaway_postgres)
    need_postgres_programs "$throwaway"
    if [[ -z ${HIGHWATER_TEST_POSTGRES_URL:-} ]]; then
        exec "$throwaway" "$@"
    fi
}

# need_postgres_programs THROWAWAY
#
# Only makes sure that PostgreSQL's server programs are installed, for those who start servers themselves.
need_postgres_programs() {
    if ! "$1" --bindir >/dev/null 2>&1; then
        install_postgres
        # Says in one sentence what is missing if it still is.
        "$1" --bindir >/dev/null || exit 1
    fi
}

# Prints the path of the program. Not `cargo run`, which would pass variables about the package on to COMMAND.
build_throwaway_postgres() {
    cargo build --quiet --locked --package throwaway-postgres --message-format=json-render-diagnostics |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Installs Debian's package if that is possible without asking the user; does nothing if not.
install_postgres() {
    # A folder that was named explicitly is not put right by installing something elsewhere.
    if [[ -n ${HIGHWATER_POSTGRES_BIN:-} ]] || ! can_install; then
        return 0
    fi
    echo "== installing PostgreSQL, whose server programs are not on this machine"
    as_root apt-get update
    # Debian's package would create its own server and start it now and at every boot. Only where nobody has had
    # a say in that yet, it is told not to.
    if ! dpkg-query --show --showformat='${Status}' postgresql-common 2>/dev/null | grep -q 'ok installed'; then
        install_package postgresql-common
        as_root sed -i 's/^#\? *create_main_cluster.*/create_main_cluster = false/' \
            /etc/postgresql-common/createcluster.conf
    fi
    install_package postgresql
}

# need_program PROGRAM PACKAGE
#
# Makes sure that a program is installed, by Debian's package if it is missing. After need_postgres, which has a say in
# packages that others depend on.
need_program() {
    if has_program "$1"; then
        return 0
    fi
    if can_install; then
        echo "== installing $2, whose program $1 is not on this machine"
        as_root apt-get update
        install_package "$2"
        # Debian's package of PgBouncer starts a service, now and at every boot. It was not there before, so nobody
        # needs it.
        if [[ $2 == pgbouncer ]]; then
            as_root invoke-rc.d pgbouncer stop
            as_root update-rc.d pgbouncer disable
        fi
    fi
    if ! has_program "$1"; then
        echo "The program \`$1\` is not on this machine: \`apt-get install $2\`." >&2
        exit 1
    fi
}

# need_file PATTERN PACKAGE
#
# The same for a package without a program: makes sure that a file is there whose path matches.
need_file() {
    if compgen -G "$1" >/dev/null; then
        return 0
    fi
    if can_install; then
        echo "== installing $2, whose files are not on this machine"
        as_root apt-get update
        install_package "$2"
    fi
    if ! compgen -G "$1" >/dev/null; then
        echo "There is no $1 on this machine: \`apt-get install $2\`." >&2
        exit 1
    fi
}

# Makes sure that clocks of processes can be moved.
need_faketime() {
    need_file '/usr/lib/*/faketime/libfaketimeMT.so.1' libfaketime
}

# The folders of an administrator's programs are not in every user's PATH.
has_program() {
    PATH=$PATH:/usr/sbin:/sbin type -P "$1" >/dev/null
}

can_install() {
    command -v apt-get >/dev/null && { ((EUID == 0)) || sudo -n true 2>/dev/null; }
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        sudo -n "$@"
    fi
}

install_package() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$1"
}
