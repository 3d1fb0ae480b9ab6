//! URLs that name several servers, as libpq has them. The driver knows only one.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

/// What a URL that cannot be used is not.
pub(crate) const FORM: &str = "it is not of the form postgres://user:password@host:port,host:port/database";

/// The options for each host of `postgres://user:password@host1:port1,host2:port2/database?…`, or nothing if it is not
/// of that form. The driver's own words are left out: they may quote the URL, and with it the password.
pub(crate) fn parse(url: &str) -> Option<Vec<PgConnectOptions>> {
    singly(url)?.iter().map(|url| PgConnectOptions::from_str(url).ok().map(without_brackets)).collect()
}

/// One URL for each host.
fn singly(url: &str) -> Option<Vec<String>> {
    let (scheme, rest) = url.trim().split_once("://")?;
    if !["postgres", "postgresql"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    let hosts: Vec<&str> = hosts.split(',').collect();
    // A lone one may be left out, for a socket or the environment's.
    if hosts.len() > 1 && hosts.iter().any(|host| host.is_empty()) {
        return None;
    }
    Some(hosts.into_iter().map(|host| format!("{scheme}://{user}{at}{host}{path}")).collect())
}

/// The brackets around an IPv6 address belong to the URL; the driver would look them up as part of a name.
fn without_brackets(options: PgConnectOptions) -> PgConnectOptions {
    match options.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']')).map(str::to_owned) {
        Some(address) => options.host(&address),
        None => options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(url: &str) -> Vec<(String, u16)> {
        let options = parse(url).unwrap_or_else(|| panic!("{url} can be used"));
        options.iter().map(|options| (options.get_host().to_owned(), options.get_port())).collect()
    }

    fn place(host: &str, port: u16) -> (String, u16) {
        (host.to_owned(), port)
    }

    #[test]
    fn each_host_has_its_own_port_and_everything_else_is_shared() {
        let url = "postgres://app:a%2Cb@one:5433,two:5434,three:1/shop?application_name=x,y";
        assert_eq!(places(url), [place("one", 5433), place("two", 5434), place("three", 1)]);
        for options in parse(url).unwrap() {
            assert_eq!(options.get_username(), "app");
            assert_eq!(options.get_database(), Some("shop"));
            assert_eq!(options.get_application_name(), Some("x,y"));
        }
        assert_eq!(places("postgresql://one:1,two:2"), [place("one", 1), place("two", 2)]);
        assert_eq!(places("postgres://one:1,two:2?sslmode=disable"), [place("one", 1), place("two", 2)]);
    }

    #[test]
    fn a_comma_or_an_at_in_a_password_does_not_separate_hosts() {
        assert_eq!(places("postgres://app:a,b@one:1/shop"), [place("one", 1)]);
        assert_eq!(places("postgres://app:a@b,c@one:1,two:2/shop"), [place("one", 1), place("two", 2)]);
    }

    #[test]
    fn addresses_in_brackets_are_addresses() {
        assert_eq!(places("postgres://[::1]:5433,[fe80::1]:5434/shop"), [place("::1", 5433), place("fe80::1", 5434)]);
        assert_eq!(places("postgres://[::1]:5433/shop"), [place("::1", 5433)]);
    }

    #[test]
    fn a_lone_host_may_be_left_out() {
        assert_eq!(parse("postgres:///shop").map(|all| all.len()), Some(1));
        assert_eq!(parse("postgres:///shop?host=/tmp").map(|all| all.len()), Some(1));
    }

    #[test]
    fn what_is_not_of_the_form_is_refused() {
        for url in [
            "",
            "shop",
            "mysql://one/shop",
            "postgres://one,/shop",
            "postgres://,two/shop",
            "postgres://one,,two/shop",
            "postgres://one:1,two:port/shop",
            "postgres://[::1,two/shop",
            "postgres://one:1,two:2/shop?sslmode=nonsense",
        ] {
            assert!(parse(url).is_none(), "{url}");
        }
    }
}
