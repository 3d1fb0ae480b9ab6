//! A session with the server, in as much of PostgreSQL's protocol as it takes to ask a few things: no password, no
//! encryption, statements as text.
//!
//! PostgreSQL's own clients would do, but not every installation of a server has them, and those of another version do not
//! always fit.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::cluster::USER;

/// Version 3.0 of the protocol, which every server speaks.
const PROTOCOL: u32 = 3 << 16;

/// No message that is asked for here is longer; a length beyond is not PostgreSQL's.
const MESSAGE_MAX: usize = 1 << 20;

/// The rows of an answer, all of it text; NULL is `None`.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// Ends with its drop.
pub(crate) struct Session(TcpStream);

impl Session {
    /// As superuser, in the database `postgres`. Neither this nor any statement takes longer than `limit` per message.
    pub(crate) fn open(port: u16, limit: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let mut session = Self(stream);
        let parameters = format!("user\0{USER}\0database\0postgres\0\0");
        let mut start = Vec::new();
        start.extend(u32::try_from(parameters.len() + 8).map_err(io::Error::other)?.to_be_bytes());
        start.extend(PROTOCOL.to_be_bytes());
        start.extend(parameters.as_bytes());
        session.0.write_all(&start)?;
        session.answer()?;
        Ok(session)
    }

    /// Runs one statement, and returns its rows.
    pub(crate) fn query(&mut self, sql: &str) -> io::Result<Rows> {
        let mut message = vec![b'Q'];
        message.extend(u32::try_from(sql.len() + 5).map_err(io::Error::other)?.to_be_bytes());
        message.extend(sql.as_bytes());
        message.push(0);
        self.0.write_all(&message)?;
        self.answer()
    }

    /// Everything up to the server's being ready for the next statement.
    fn answer(&mut self) -> io::Result<Rows> {
        let mut rows = Vec::new();
        let mut refusal = None;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'D' => rows.push(row(&body)?),
                // After a fatal one the server closes the connection and never is ready again.
                b'E' if field(&body, b'V').is_some_and(|severity| severity != "ERROR") => return Err(refused(&body)),
                b'E' => refusal = Some(refused(&body)),
                b'Z' => return refusal.map_or(Ok(rows), Err),
                b'R' if body != [0; 4] => return Err(io::Error::other("the server asks for a password")),
                // Parameters, keys, notices, descriptions of rows, ends of statements.
                _ => {}
            }
        }
    }

    fn message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        // The length counts itself.
        let length = usize::try_from(u32::from_be_bytes(length)).ok().and_then(|length| length.checked_sub(4));
        let length = length.filter(|length| *length <= MESSAGE_MAX).ok_or_else(|| malformed("length"))?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((kind, body))
    }
}

fn row(body: &[u8]) -> io::Result<Vec<Option<String>>> {
    let (count, mut rest) = body.split_first_chunk().ok_or_else(|| malformed("row"))?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, values) = rest.split_first_chunk().ok_or_else(|| malformed("row"))?;
        rest = values;
        // -1 is NULL.
        columns.push(match usize::try_from(i32::from_be_bytes(*length)) {
            Err(_) => None,
            Ok(length) => {
                let (value, others) = rest.split_at_checked(length).ok_or_else(|| malformed("row"))?;
                rest = others;
                Some(String::from_utf8_lossy(value).into_owned())
            }
        });
    }
    Ok(columns)
}

/// What the server says is wrong.
fn refused(body: &[u8]) -> io::Error {
    io::Error::other(field(body, b'M').unwrap_or_else(|| "the server refused without saying why".to_owned()))
}

/// A field of an error: the kind, the text, a zero.
fn field(body: &[u8], kind: u8) -> Option<String> {
    let text = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[kind]))?;
    Some(String::from_utf8_lossy(text).into_owned())
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server sent a message with a malformed {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThrowawayPostgres;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_session_outlives_a_refused_statement_and_a_fatal_refusal_is_quoted() {
        let postgres = ThrowawayPostgres::start().unwrap();
        let mut session = Session::open(postgres.port(), LIMIT).unwrap();
        let refused = session.query("SELECT 1 / 0").unwrap_err();
        assert_eq!(refused.to_string(), "division by zero");
        let rows = session.query("SELECT n, nullif(n, 2), repeat('x', n) FROM generate_series(1, 2) AS n").unwrap();
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(rows, [[text("1"), text("1"), text("x")], [text("2"), None, text("xx")]]);
        assert_eq!(session.query("SET work_mem = '1MB'").unwrap(), Rows::new());

        let ended = session.query("SELECT pg_terminate_backend(pg_backend_pid())").unwrap_err();
        assert_eq!(ended.to_string(), "terminating connection due to administrator command");
        assert!(session.query("SELECT 1").is_err());
    }

    #[test]
    fn what_is_no_answer_of_a_server_is_an_error() {
        assert!(row(&[0, 1, 0, 0, 0, 9, b'x']).is_err());
        assert!(row(&[0]).is_err());
        assert_eq!(field(b"SERROR\0Mwhy\0\0", b'M').as_deref(), Some("why"));
        assert_eq!(refused(b"").to_string(), "the server refused without saying why");
    }
}
