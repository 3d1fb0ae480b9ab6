//! Reports as one page that needs nothing but itself: no script, no network. What the pages of `chaos/` and of `bench/` have in
//! common: the frame, the style, and the pieces they are made of. What a report says and draws stays with its author.
//!
//! Text goes through [`escape`]; an argument called `html` is taken as it is.

mod check;

pub use check::balanced;

const STYLE: &str = include_str!("style.css");

/// A whole page: its title, what it adds to the common style, and HTML for header, main part and footer.
pub fn page(title: &str, style: &str, [header, main, footer]: [&str; 3]) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n\
         <header>\n{header}</header>\n<main>\n{main}</main>\n<footer>{footer}</footer>\n</body>\n</html>\n",
        escape(title)
    )
}

/// Text that stays text, also within quotes.
pub fn escape(text: &str) -> String {
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

/// A link, if it is an address of the web; otherwise text.
pub fn link(address: &str) -> String {
    let safe = escape(address);
    if address.starts_with("https://") || address.starts_with("http://") {
        format!("<a href=\"{safe}\" rel=\"noreferrer\">{safe}</a>")
    } else {
        safe
    }
}

/// At most so many letters.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A whole number with its thousands apart, from a number or from its digits.
pub fn number(whole: impl ToString) -> String {
    let digits = whole.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The figures to know when nothing else is read. Of each: its class (`good`, `bad` or none), itself, and what it is.
pub fn cards(cards: &[(&str, String, String)]) -> String {
    let card = |(class, figure, text): &(&str, String, String)| {
        format!("<div class=\"card {class}\"><b>{}</b><span>{}</span></div>\n", escape(figure), escape(text))
    };
    format!("<div class=\"cards\">\n{}</div>\n", cards.iter().map(card).collect::<String>())
}

/// A table in a frame that scrolls by itself. Titles are HTML, and one that begins with `#` is that of numbers.
pub fn table(name: &str, class: &str, titles: &[&str], rows_html: &str) -> String {
    let head: String = titles.iter().map(|title| cell("th", title, title.trim_start_matches('#'))).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"{class}\">\
         <thead><tr>{head}</tr></thead><tbody>\n{rows_html}</tbody></table></div>\n",
        escape(name)
    )
}

/// A table of texts.
pub fn text_table(name: &str, titles: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |row: &Vec<String>| -> String {
        row.iter().zip(titles).map(|(text, title)| cell("td", title, &escape(text))).collect()
    };
    let rows: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells(row))).collect();
    table(name, "", titles, &rows)
}

fn cell(tag: &str, title: &str, html: &str) -> String {
    let class = if title.starts_with('#') { " class=\"n\"" } else { "" };
    format!("<{tag}{class}>{html}</{tag}>")
}

/// Which colour is what, by class.
pub fn key<'a>(colours: impl IntoIterator<Item = (&'a str, &'a str)>, more_html: &str) -> String {
    let swatch = |(class, text)| {
        let colour = format!("<rect class=\"{class}\" width=\"22\" height=\"12\" rx=\"2\"/>");
        format!("<span><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\">{colour}</svg>{}</span>", escape(text))
    };
    format!("<div class=\"key\">{}{more_html}</div>\n", colours.into_iter().map(swatch).collect::<String>())
}

/// A drawing, with what it shows in words for those who do not see it.
pub fn svg((width, height): (f64, f64), title: &str, told: &str, html: &str) -> String {
    let (title, told) = (escape(title), escape(told));
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\"><title>{title}</title><desc>{told}</desc>\n{html}</svg>"
    )
}

/// Text in a drawing.
pub fn label(class: &str, (x, y): (f64, f64), text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("<a b=\"c\">'&\u{7}"), "&lt;a b=&quot;c&quot;&gt;&#39;&amp; ");
        assert_eq!((number(7), number("1234567")), ("7".to_owned(), "1,234,567".to_owned()));
        assert_eq!((cut("abcd", 4), cut("abcdef", 4)), ("abcd".to_owned(), "abc…".to_owned()));
        assert_eq!(link("javascript:alert(1)"), "javascript:alert(1)");
        assert!(link("https://docs.rs/x?a&b").starts_with("<a href=\"https://docs.rs/x?a&amp;b\""));
    }
}
