//! The demo on the screen.

use std::io;
use std::time::Duration;

use highwater_demo::{Audience, Happening, Scene};

use super::super::top::history::Series;
use super::super::top::screen::Screen;
use super::{frame, lines};
use crate::failure::Failure;

/// Happenings that are kept: more than a screen holds.
const HAPPENINGS_MAX: usize = 100;

/// The screen, and what was seen on it so far.
pub(super) struct Show {
    screen: Screen,
    seen: Seen,
}

/// What was seen so far.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) throughput: Series,
    pub(super) lag: Series,
    pub(super) happenings: Vec<String>,
}

impl Show {
    pub(super) fn begin() -> Result<Self, Failure> {
        Ok(Self { screen: Screen::open()?, seen: Seen::default() })
    }
}

impl Audience for Show {
    fn scene(&mut self, scene: &Scene) -> io::Result<()> {
        self.seen.throughput.add(scene.throughput);
        self.seen.lag.add(scene.lag as f64);
        self.screen.draw(|size, colour| frame::lines(scene, &self.seen, size, colour))
    }

    fn happened(&mut self, at: Duration, what: &Happening) -> io::Result<()> {
        if self.seen.happenings.len() == HAPPENINGS_MAX {
            self.seen.happenings.remove(0);
        }
        self.seen.happenings.push(format!("{}  {}", lines::at(at), lines::sentence(what)));
        Ok(())
    }
}
