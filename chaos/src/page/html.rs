//! Pieces of HTML. Whatever comes from outside goes through [`escape`].

/// Text that stays text, also within quotes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

/// A number with its thousands apart.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A table in a frame that scrolls by itself. Of each column: its title, and whether it holds numbers.
pub(super) fn table(name: &str, columns: &[(&str, bool)], rows: &[Vec<String>]) -> String {
    let cell = |tag: &str, text: &str, numeric: bool| {
        let class = if numeric { " class=\"n\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escape(text))
    };
    let head: String = columns.iter().map(|(title, numeric)| cell("th", title, *numeric)).collect();
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table><thead><tr>{head}</tr></thead><tbody>\n",
        escape(name)
    );
    for row in rows {
        let cells: String = row.iter().zip(columns).map(|(text, (_, numeric))| cell("td", text, *numeric)).collect();
        out += &format!("<tr>{cells}</tr>\n");
    }
    out + "</tbody></table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("<a b=\"c\">'&\u{7}"), "&lt;a b=&quot;c&quot;&gt;&#39;&amp; ");
        assert_eq!((number(7), number(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
    }
}
