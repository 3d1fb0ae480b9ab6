//! Choices, made by bytes.

/// Bytes that decide what an input looks like. When they are used up, every choice is the first: so that a fuzzer gets shorter
/// inputs by taking bytes away.
#[derive(Debug, Clone)]
pub struct Source<'a>(&'a [u8]);

/// Text that is easily got wrong, in whatever it is put.
const NASTY: [&str; 32] = [
    "",
    "a",
    "\0",
    "\n",
    "\r\n",
    " ",
    "'",
    "\"",
    "\"\"",
    "`",
    ";",
    "--",
    "/*",
    "$$",
    "$highwater$",
    "\\",
    "%",
    "%00",
    "%zz",
    "{schema}",
    "{schema_text}",
    "}",
    "é",
    "\u{202e}",
    "\u{feff}",
    "\u{1f4a9}",
    "select",
    "pg_",
    "../",
    "-1",
    "18446744073709551616",
    "\"; DROP SCHEMA public CASCADE; --",
];

impl<'a> Source<'a> {
    /// Choices made by these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte; 0 when there is none.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number from 0 up to, and without, `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let number = usize::from(u16::from_le_bytes([self.byte(), if end > 256 { self.byte() } else { 0 }]));
        number % end.max(1)
    }

    /// True about once in so many times; never when the bytes are used up.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'t, T: ?Sized>(&mut self, some: &[&'t T]) -> &'t T {
        some[self.below(some.len())]
    }

    /// Up to so many bytes, as they are.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let count = self.below(most + 1).min(self.0.len());
        let (these, rest) = self.0.split_at(count);
        self.0 = rest;
        these
    }

    /// A number near one that something ends at.
    pub fn number(&mut self) -> i128 {
        let near = [0_i128, 1, 255, 256, 65_536, 1 << 31, 1 << 32, 1 << 53, 1 << 63, 1 << 64][self.below(10)];
        let number = near + self.below(5) as i128 - 2;
        if self.one_in(4) { -number } else { number }
    }

    /// Text of a few pieces, most of them nasty.
    pub fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(4) {
            match self.below(4) {
                0 => text.push_str(&String::from_utf8_lossy(self.bytes(12))),
                1 => text.push_str(self.pick(&["shop", "orders", "Highwater", "x", "ünïcode"])),
                _ => text.push_str(self.pick(&NASTY)),
            }
        }
        text
    }
}

/// Calls a target with so many inputs that are the same every time, more of them where `HIGHWATER_SOAK` says so.
pub fn seeded(count: usize, mut target: impl FnMut(&[u8])) {
    let soak: usize = std::env::var("HIGHWATER_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1);
    for seed in 0..count * soak {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let mut bytes = vec![0; random.usize(..1_024)];
        random.fill(&mut bytes);
        target(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_bytes_every_choice_is_the_first() {
        let mut source = Source::new(&[]);
        assert_eq!((source.byte(), source.below(7), source.one_in(2), source.bytes(9)), (0, 0, false, &[][..]));
        assert_eq!(source.pick(&["first", "second"]), "first");
    }

    #[test]
    fn inputs_are_the_same_every_time_and_differ_from_each_other() {
        let collect = || {
            let mut all = Vec::new();
            seeded(20, |bytes| all.push(bytes.to_vec()));
            all
        };
        let (first, second) = (collect(), collect());
        assert_eq!(first, second);
        assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
