//! URLs of databases: taken apart as they were put together, or refused, and never repeated with their password.

#[path = "../../../crates/highwater-postgres/src/hosts/url.rs"]
#[expect(dead_code, reason = "the file as it is there; not everything of it is used here")]
mod hosts;
#[path = "../../../crates/highwater-sqlite/src/place.rs"]
#[expect(dead_code, reason = "the file as it is there; not everything of it is used here")]
mod place;

use highwater::Error;
use highwater_fuzz::{Outcomes, Source};
use highwater_postgres::{PgConfig, PgEventStore};

use crate::fuzz;

const PASSWORD: &str = "s3cr3tpassw0rd";

/// A URL for PostgreSQL that is nearly right, and how many hosts were put into it if it is quite right.
fn postgres(source: &mut Source<'_>) -> (String, Option<usize>) {
    let mut right = true;
    let scheme =
        source.pick(&["postgres://", "postgresql://", "postgres://", "POSTGRES://", "postgres:/", "mysql://", "://"]);
    right &= scheme.to_ascii_lowercase().starts_with("postgres") && scheme.ends_with("//");
    let user = source.pick(&["", "app@", "app:s3cr3tpassw0rd@", "app:s3cr3tpassw0rd@", "a%2Cb:s3cr3tpassw0rd@"]);
    let hosts = [
        "localhost",
        "one:5433",
        "10.0.0.1:1",
        "[::1]:5432",
        "[::1]",
        "db.example.com",
        "",
        ":5432",
        "[::1",
        "one:port",
        "one:65536",
        "a b",
        "é",
        "one:",
        "%zz",
    ];
    let count = source.below(4) + 1;
    let mut list = Vec::new();
    for _ in 0..count {
        let choices = if source.one_in(3) { hosts.len() } else { 6 };
        let host = source.below(choices);
        right &= host < 6;
        list.push(hosts[host]);
    }
    let path = source.pick(&["/shop", "", "/", "/shop?sslmode=disable", "?sslmode=disable", "/a%2Fb", "/shop#x"]);
    let odd = source.pick(&["", "", "", "", "/shop?sslmode=nonsense", "?=&", "/%zz", "\0", "?options=-c%20x"]);
    right &= odd.is_empty();
    let mut url = format!("{scheme}{user}{}{path}{odd}", list.join(","));
    if source.one_in(8) {
        let at = source.below(url.chars().count() + 1);
        url = url.chars().take(at).chain(source.text().chars()).collect();
        right = false;
    }
    (url, right.then_some(count))
}

#[test]
fn urls_of_servers_are_taken_apart_or_refused_without_their_password() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut outcomes = Outcomes::default();
    fuzz!(3_000, |bytes: &[u8]| {
        let (url, hosts) = postgres(&mut Source::new(bytes));
        let parsed = hosts::parse(&url);
        if let Some(count) = hosts {
            let found = parsed.as_ref().map(Vec::len);
            assert_eq!(found, Some(count), "{url}");
        }
        match parsed {
            Some(each) => {
                for options in &each {
                    let host = options.get_host();
                    assert!(each.len() == 1 || !host.contains([',', '@', '[']), "{url}: {host}");
                }
                outcomes.add(if each.len() > 1 { "several" } else { "one" });
            }
            None => {
                // Nothing is connected to: it is refused first.
                let refused = runtime.block_on(PgEventStore::connect_with(&url, PgConfig::default())).err();
                let refused = refused.unwrap_or_else(|| panic!("{url} was accepted"));
                assert!(matches!(refused, Error::Invalid(_)), "{url}: {refused:?}");
                let said = format!("{refused} {refused:?}");
                assert!(!said.contains(PASSWORD), "{said}");
                outcomes.add("refused");
            }
        }
    });
    outcomes.assert(100, &["one", "several", "refused"]);
}

/// What cannot stand in a URL as it is, as %XX; now and then also what could.
fn encoded(path: &str, source: &mut Source<'_>) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        match byte {
            b'?' | b'#' | b'%' | 0x80.. => text += &format!("%{byte:02X}"),
            _ if source.one_in(9) => text += &format!("%{byte:02x}"),
            _ => text.push(char::from(byte)),
        }
    }
    text
}

#[test]
fn urls_of_files_are_the_paths_that_were_put_into_them() {
    let mut outcomes = Outcomes::default();
    fuzz!(3_000, |bytes: &[u8]| {
        let mut source = Source::new(bytes);
        let path = source.text();
        let url = match source.below(3) {
            0 => path.clone(),
            1 => format!("sqlite:{path}"),
            _ => format!("sqlite:{}", encoded(&path, &mut source)),
        };
        let honest = url.starts_with("sqlite:") && url != format!("sqlite:{path}");
        match place::parse(&url) {
            Ok(found) => {
                let found = found.to_str().unwrap();
                assert!(
                    !found.is_empty() && !found.contains('\0') && !found.starts_with(":memory:"),
                    "{url:?}: {found:?}"
                );
                if honest {
                    assert_eq!(found, path.strip_prefix("//").unwrap_or(&path), "{url:?}");
                }
                outcomes.add("a path");
            }
            Err(highwater::Invalid::Setting { name: "database", reason }) => {
                assert!(
                    !honest || path.contains('\0') || path.is_empty() || path.starts_with(":memory:"),
                    "{url:?}: {reason}"
                );
                outcomes.add("refused");
            }
            Err(other) => panic!("{url:?}: {other:?}"),
        }
    });
    outcomes.assert(100, &["a path", "refused"]);
}
