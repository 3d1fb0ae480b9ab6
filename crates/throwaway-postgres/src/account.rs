//! Whose process the server is.
//!
//! PostgreSQL and PgBouncer refuse to run as root, which is what tests in containers run as.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::Error;

const PASSWD: &str = "/etc/passwd";

/// Most suitable first.
const UNPRIVILEGED_USERS: [&str; 2] = ["postgres", "nobody"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The account to switch to for the server, `None` if it can run as ourselves.
pub(crate) fn for_server() -> Result<Option<Account>, Error> {
    if effective_uid()? != 0 {
        return Ok(None);
    }
    let passwd = fs::read_to_string(PASSWD).map_err(Error::io(format!("read {PASSWD}")))?;
    let account = UNPRIVILEGED_USERS.iter().find_map(|user| find(&passwd, user));
    account.map(Some).ok_or_else(|| {
        Error::NotInstalled(format!(
            "PostgreSQL does not run as root and {PASSWD} has neither a user `postgres` nor `nobody`: run as another \
             user, or `apt-get install postgresql`, which creates one"
        ))
    })
}

/// std has no `geteuid`; the kernel shows it as the owner of our own entry in /proc.
pub(crate) fn effective_uid() -> Result<u32, Error> {
    let own_entry = fs::metadata("/proc/self").map_err(Error::io("read /proc/self"))?;
    Ok(own_entry.uid())
}

fn find(passwd: &str, user: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(user) {
            return None;
        }
        Some(Account { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres2:x:7:8:::\npostgres:x:101:104:PostgreSQL,,,:/var:/bin/sh\n";
        assert_eq!(find(passwd, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(find(passwd, "nobody"), None);
    }
}
