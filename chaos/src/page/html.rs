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

/// A table in a frame that scrolls by itself.
pub(super) fn table(name: &str, head: &[(&str, bool)], rows: &[Vec<String>]) -> String {
    let class = |numeric: bool| if numeric { " class=\"n\"" } else { "" };
    let head: String = head
        .iter()
        .map(|(title, numeric)| format!("<th{}>{}</th>", class(*numeric), escape(title)))
        .collect::<String>()
        + "</tr></thead><tbody>\n";
    let numeric: Vec<bool> = head.match_indices("<th").map(|(at, _)| head[at..].starts_with("<th class")).collect();
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table><thead><tr>{head}",
        escape(name)
    );
    for row in rows {
        let cells =
            row.iter().zip(&numeric).map(|(cell, numeric)| format!("<td{}>{}</td>", class(*numeric), escape(cell)));
        out += &format!("<tr>{}</tr>\n", cells.collect::<String>());
    }
    out + "</tbody></table></div>\n"
}
