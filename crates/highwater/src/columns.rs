//! What columns of SQL backends may hold: the rules, for every backend. What does not keep them was not written by one.

use crate::BoxError;

/// Numbers that only ever count up. What is negative is no 0.
///
/// # Errors
/// For a negative one.
pub fn counted(number: i64) -> Result<u64, BoxError> {
    u64::try_from(number).map_err(|_| format!("{number} is stored where nothing is negative").into())
}

/// The same where counting begins at 1: what was no number at all is read as 0 by some drivers.
///
/// # Errors
/// For a negative one, and for 0.
pub fn positive(number: i64) -> Result<u64, BoxError> {
    match counted(number)? {
        0 => Err("0 is stored where counting begins at 1".into()),
        number => Ok(number),
    }
}

/// The name of an event's type.
///
/// # Errors
/// For an empty one.
pub fn named(event_type: String) -> Result<String, BoxError> {
    if event_type.is_empty() { Err("its type has no name".into()) } else { Ok(event_type) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_backend_writes_is_read() {
        assert_eq!((counted(0).unwrap(), positive(1).unwrap(), named("T".into()).unwrap()), (0, 1, "T".to_owned()));
        for wrong in [counted(-1), positive(0), positive(i64::MIN)] {
            assert!(wrong.unwrap_err().to_string().contains("is stored where"));
        }
        assert!(named(String::new()).is_err());
    }
}
