//! The name of the schema, checked and quoted: the only text from outside that is ever written into SQL. And what is filled in from
//! constants: the columns of an event, the number of the server's life.

use highwater::Invalid;

/// The number of the server's life, as a term of a statement; see `migrations/0006_life.sql`.
const LIFE: &str = "((SELECT l.number FROM {schema}.server_life l) \
    # (extract(epoch FROM pg_postmaster_start_time()) * 1000000::numeric)::bigint # {sequence})";

/// Which sequence numbers come from: its file, whose path names the database. One that was restarted or recreated, or that
/// came with a copy of the database, is another.
const SEQUENCE: &str = "hashtextextended(pg_relation_filepath('{schema_text}.events_global_sequence_seq'::regclass) COLLATE \"C\", 0::bigint)";

/// The columns of an event, in the order that `row.rs` reads them, with their types. Those from [`OWN`] on are the event's
/// own, in the order that the functions in the database take them.
const EVENT: [(&str, &str); 10] = [
    ("global_sequence", "bigint"),
    ("stream_id", "uuid"),
    ("stream_version", "bigint"),
    ("stream_name", "text"),
    ("id", "uuid"),
    ("event_type", "text"),
    ("schema_version", "integer"),
    ("data", "json"),
    ("metadata", "json"),
    ("created_at", "timestamp with time zone"),
];
const OWN: usize = 4;
/// The one that may be NULL.
const NULLABLE: &str = "stream_name";

/// A schema name that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaName(String);

impl SchemaName {
    pub(crate) fn new(name: &str) -> Result<Self, Invalid> {
        let refuse = |reason| Err(Invalid::SchemaName { name: name.chars().take(80).collect(), reason });
        if name.is_empty() {
            return refuse("it is empty");
        }
        if name.len() > 63 {
            return refuse("it is longer than PostgreSQL's 63 bytes");
        }
        if name.starts_with("pg_") || name == "information_schema" {
            return refuse("PostgreSQL keeps that name for itself");
        }
        // A dollar sign could end the quoted body of a function, format() takes a percent sign for a placeholder, and a
        // backslash is an escape where standard_conforming_strings is off. A slash ends the schema's name in the keys of locks.
        if name.chars().any(|c| c.is_control() || matches!(c, '$' | '%' | '\\' | '/')) {
            return refuse("it holds a control character, a dollar sign, a percent sign, a backslash or a slash");
        }
        Ok(Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// As an identifier: `"highwater"`.
    fn ident(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }

    /// Fills a statement's `{schema}` (an identifier), `{schema_text}` (the same inside a string literal), `{life}` (the number of the
    /// server's life, NULL where it has none yet), `{sequence}` (which sequence it is), and what follows from the columns of an
    /// event: see [`with_columns`].
    pub(crate) fn render(&self, sql: &str) -> String {
        let sql = with_columns(sql).replace("{life}", LIFE).replace("{sequence}", SEQUENCE);
        let ident = self.ident();
        let text = ident.replace('\'', "''");
        // In one pass: a name may itself look like a placeholder.
        let mut parts = sql.split("{schema");
        let mut rendered = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = match (part.strip_prefix("_text}"), part.strip_prefix('}')) {
                (Some(rest), _) => (text.as_str(), rest),
                (_, Some(rest)) => (ident.as_str(), rest),
                _ => ("{schema", part),
            };
            rendered += name;
            rendered += rest;
        }
        rendered
    }

    /// The channel for wake-ups. Named after the schema, within the 63 bytes of a name.
    pub(crate) fn channel(&self) -> String {
        let channel = format!("highwater_{}", self.0);
        if channel.len() <= 63 {
            return channel;
        }
        let short = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, self.0.as_bytes());
        format!("highwater_{}", short.simple())
    }
}

/// Fills `{event}` (the columns of an event), `{event_arrays}` (an array of each, as parameters from `$1` on), `{event_types}`
/// (name and type of each and whether it is never NULL, as rows) and `{own:N}` (the columns that are the event's own, as parameters from `$N` on).
fn with_columns(sql: &str) -> String {
    let each = |write: &dyn Fn(usize, &str, &str) -> String| {
        EVENT.iter().enumerate().map(|(place, (name, kind))| write(place, name, kind)).collect::<Vec<_>>().join(", ")
    };
    let mut filled = sql
        .replace("{event}", &each(&|_, name, _| name.to_owned()))
        .replace("{event_arrays}", &each(&|place, _, kind| format!("${}::{kind}[]", place + 1)))
        .replace("{event_types}", &each(&|_, name, kind| format!("('{name}', ARRAY['{kind}'], {})", name != NULLABLE)));
    if let Some((before, rest)) = filled.split_once("{own:")
        && let Some((first, after)) = rest.split_once('}')
        && let Ok(first) = first.parse::<usize>()
    {
        let own: Vec<String> = (first..first + EVENT.len() - OWN).map(|number| format!("${number}")).collect();
        filled = format!("{before}{}{after}", own.join(", "));
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_identifiers_and_inside_literals() {
        let name = SchemaName::new(r#"it's "mine""#).unwrap();
        assert_eq!(name.render("{schema}.events"), r#""it's ""mine""".events"#);
        assert_eq!(name.render("'{schema_text}.events'"), r#"'"it''s ""mine""".events'"#);
    }

    #[test]
    fn a_name_that_looks_like_a_placeholder_is_filled_in_once() {
        let name = SchemaName::new("{schema}").unwrap();
        assert_eq!(name.render("{schema}.a '{schema_text}.b' {other}"), r#""{schema}".a '"{schema}".b' {other}"#);
    }

    #[test]
    fn parameters_follow_from_the_columns_of_an_event() {
        assert_eq!(with_columns("f($1, {own:2})"), "f($1, $2, $3, $4, $5, $6, $7)");
        assert!(with_columns("unnest({event_arrays})").starts_with("unnest($1::bigint[], $2::uuid[], "));
        assert!(with_columns("({event})").starts_with("(global_sequence, stream_id, "));
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "pg_mine", "information_schema", "a$b", "a%b", "a\\b", "a/b", "a\0b", "a\nb", &"x".repeat(64)]
        {
            assert!(matches!(SchemaName::new(name), Err(Invalid::SchemaName { .. })), "{name:?}");
        }
    }

    #[test]
    fn a_channel_fits_the_length_of_a_name_and_differs_between_schemas() {
        let long = |c: char| SchemaName::new(&c.to_string().repeat(63)).unwrap().channel();
        assert_eq!(SchemaName::new("highwater").unwrap().channel(), "highwater_highwater");
        assert!(long('a').len() <= 63);
        assert_ne!(long('a'), long('b'));
    }
}
