//! For tests of pages.

/// Tags that have no end.
const VOID: [&str; 2] = ["!DOCTYPE", "meta"];

/// Counts the tags of a page whose tags are closed, in order, with their attributes in quotes.
///
/// # Errors
/// What is wrong with it.
pub fn balanced(html: &str) -> Result<usize, String> {
    let (mut open, mut seen, mut rest) = (Vec::new(), 0, html);
    while let Some(at) = rest.find('<') {
        let tag = &rest[at + 1..];
        let end = tag.find('>').ok_or("a tag without an end")?;
        let (inside, after) = (&tag[..end], &tag[end + 1..]);
        rest = after;
        seen += 1;
        if inside.contains('<') || inside.matches('"').count() % 2 == 1 {
            return Err(format!("a tag that is none: {inside}"));
        }
        if let Some(name) = inside.strip_prefix('/') {
            let last = open.pop();
            if last != Some(name) {
                return Err(format!("{name} closes {last:?}"));
            }
        } else if !inside.ends_with('/') {
            let name = inside.split_whitespace().next().unwrap_or_default();
            if !VOID.contains(&name) {
                open.push(name);
            }
        }
    }
    if open.is_empty() { Ok(seen) } else { Err(format!("left open: {open:?}")) }
}

#[cfg(test)]
mod tests {
    use super::balanced;

    #[test]
    fn the_check_finds_what_is_wrong() {
        assert_eq!(balanced("<p>a<b>c</b><i/></p>"), Ok(5));
        for wrong in ["<p><b></p></b>", "<p>", "</p>", "<p", "<p a=\"b>", "<p<b>>"] {
            assert!(balanced(wrong).is_err(), "{wrong}");
        }
    }
}
