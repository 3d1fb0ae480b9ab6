//! Text in columns, with or without colour.

/// Between two columns.
const GAP: usize = 2;

/// How text is set off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) colour: bool,
}

impl Paint {
    pub(super) fn strong(self, text: &str) -> String {
        self.put("1", text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.put("2", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.put("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.put("1;31", text)
    }

    fn put(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A piece of a table.
#[derive(Debug, Clone)]
pub(super) struct Part {
    text: String,
    paint: fn(Paint, &str) -> String,
}

impl Part {
    pub(super) fn new(text: String) -> Self {
        Self { text, paint: |_, text| text.to_owned() }
    }

    pub(super) fn strong(self) -> Self {
        Self { paint: Paint::strong, ..self }
    }

    pub(super) fn faint(self) -> Self {
        Self { paint: Paint::faint, ..self }
    }

    pub(super) fn good(self) -> Self {
        Self { paint: Paint::good, ..self }
    }

    pub(super) fn bad(self) -> Self {
        Self { paint: Paint::bad, ..self }
    }
}

/// Names on the left, figures in columns right-aligned; columns that do not fit stand in a further block below.
pub(super) fn columns(head: &[Vec<String>], lines: &[(Part, Vec<Part>)], most: usize, paint: Paint) -> String {
    let names = lines.iter().map(|(name, _)| width(&name.text)).max().unwrap_or(0);
    let count = head.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..count)
        .map(|at| {
            let heads = head.iter().map(|line| width(&line[at]));
            heads.chain(lines.iter().filter_map(|(_, cells)| Some(width(&cells.get(at)?.text)))).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    let mut from = 0;
    while from < count {
        let mut to = from + 1;
        let wide = |to: usize| names + widths[from..to].iter().map(|width| GAP + width).sum::<usize>();
        while to < count && wide(to + 1) <= most {
            to += 1;
        }
        if from > 0 {
            out.push('\n');
        }
        for line in head {
            let cells = (from..to).map(|at| pad(&line[at], widths[at]));
            out += &finish(&" ".repeat(names), cells.map(|cell| paint.faint(&cell)));
        }
        for (name, cells) in lines {
            let painted = (name.paint)(paint, &name.text);
            let name = format!("{painted}{}", " ".repeat(names - width(&name.text)));
            let cells = cells.iter().enumerate().take(to).skip(from);
            out += &finish(&name, cells.map(|(at, cell)| (cell.paint)(paint, &pad(&cell.text, widths[at]))));
        }
        from = to;
    }
    out
}

fn finish(name: &str, cells: impl Iterator<Item = String>) -> String {
    let line = cells.fold(name.to_owned(), |line, cell| format!("{line}{}{cell}", " ".repeat(GAP)));
    format!("{}\n", line.trim_end())
}

fn pad(text: &str, to: usize) -> String {
    format!("{}{text}", " ".repeat(to.saturating_sub(width(text))))
}

/// Breaks a text between words; further lines are indented.
pub(super) fn wrap(text: &str, indent: &str, most: usize) -> String {
    let mut out = String::new();
    let mut line = text.chars().take_while(|letter| *letter == ' ').collect::<String>();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && width(&line) + 1 + width(word) > most {
            out += &line;
            out.push('\n');
            line = indent.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    format!("{out}{line}\n")
}

/// What others have said, without what a terminal would take as a command.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The number of a note.
pub(super) fn superscript(number: usize) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number.to_string().bytes().map(|digit| digits[usize::from(digit - b'0')]).collect()
}

/// How many columns a text takes: one a letter, which is right for all that is printed here.
fn width(text: &str) -> usize {
    text.chars().count()
}
