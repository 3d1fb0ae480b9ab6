//! A set of numbers of the log.

use std::fmt;

/// Numbers from 1 to 15.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Numbers(u16);

impl Numbers {
    /// No number.
    pub const NONE: Self = Self(0);

    /// One number.
    ///
    /// # Panics
    /// When a model is larger than there is room for.
    #[must_use]
    pub fn of(number: u8) -> Self {
        assert!(number < 16, "the model draws more than 15 numbers");
        Self(1 << number)
    }

    /// In both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// In either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those up to a number.
    #[must_use]
    pub fn up_to(self, number: u8) -> Self {
        let mask = if number >= 15 { u16::MAX } else { (1 << (number + 1)) - 1 };
        Self(self.0 & mask)
    }

    /// Those beyond a number.
    #[must_use]
    pub fn after(self, number: u8) -> Self {
        Self(self.0 & !self.up_to(number).0)
    }

    /// Those of these that the other does not have.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The highest; 0 when there is none.
    #[must_use]
    pub fn highest(self) -> u8 {
        15_u8.saturating_sub(u8::try_from(self.0.leading_zeros()).unwrap_or(16))
    }

    /// How many.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// From the lowest on.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (1..16).filter(move |number| self.0 & (1 << number) != 0)
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
