//! The ground that curves are drawn on.

use highwater_pages::{label, svg};

use super::super::figures;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 466.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 236.0;

/// From figures to places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// From 0 to a round number beyond the highest.
    pub(super) fn linear(highest: f64) -> Self {
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let step = step(highest);
        Self { from: 0.0, to: (highest / step).ceil() * step, log: false }
    }

    /// Over all figures, which have to be more than 0.
    pub(super) fn log(lowest: f64, highest: f64) -> Self {
        let (lowest, highest) = (lowest.max(1e-9), highest.max(1e-9));
        if lowest < highest {
            Self { from: lowest, to: highest, log: true }
        } else {
            Self { from: lowest / 2.0, to: highest * 2.0, log: true }
        }
    }

    /// The same, to whole powers of ten.
    pub(super) fn decades(lowest: f64, highest: f64) -> Self {
        let (lowest, highest) = (lowest.max(1e-9).log10().floor(), highest.max(1e-9).log10().ceil());
        Self::log(10f64.powf(lowest), 10f64.powf(highest.max(lowest + 1.0)))
    }

    fn part(self, figure: f64) -> f64 {
        let part = if self.log {
            (figure.max(1e-9).ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (figure - self.from) / (self.to - self.from)
        };
        part.clamp(0.0, 1.0)
    }

    pub(super) fn x(self, figure: f64) -> f64 {
        LEFT + 8.0 + self.part(figure) * (RIGHT - LEFT - 16.0)
    }

    pub(super) fn y(self, figure: f64) -> f64 {
        BOTTOM - self.part(figure) * (BOTTOM - TOP)
    }

    /// Where lines are drawn across.
    fn ticks(self) -> Vec<f64> {
        if self.log {
            let (first, last) = (self.from.log10().ceil() as i32, self.to.log10().floor() as i32);
            return (first..=last).map(|power| 10f64.powi(power)).collect();
        }
        let step = step(self.to);
        (0..=(self.to / step).round() as u32).map(|n| f64::from(n) * step).collect()
    }
}

/// A round number that fits about four times.
fn step(highest: f64) -> f64 {
    let power = 10f64.powf((highest / 4.0).log10().floor());
    let part = highest / 4.0 / power;
    power
        * if part <= 1.0 {
            1.0
        } else if part <= 2.0 {
            2.0
        } else if part <= 5.0 {
            5.0
        } else {
            10.0
        }
}

/// A plot: title, description, lines across, what stands along the bottom, and the curves.
pub(super) fn plot(
    (title, told): (&str, &str),
    y: Scale,
    (bottom, along): (&[(f64, String)], &str),
    curves: &str,
) -> String {
    let mut out = String::new();
    for tick in y.ticks() {
        let at = y.y(tick);
        out += &format!("<path class=\"axis\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
        out += &label("soft end num", (LEFT - 7.0, at + 4.0), &figures::short(tick));
    }
    for (at, text) in bottom {
        out += &format!("<path class=\"axis\" d=\"M{at:.1} {BOTTOM}V{}\"/>", BOTTOM + 5.0);
        out += &label("soft middle num", (*at, BOTTOM + 19.0), text);
    }
    out += &label("soft middle", (f64::midpoint(LEFT, RIGHT), BOTTOM + 37.0), along);
    svg((WIDTH, HEIGHT), title, told, &(out + curves))
}

/// A line through places.
pub(super) fn line(places: &[(f64, f64)]) -> String {
    let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    format!("<polyline class=\"curve\" points=\"{}\"/>", points.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_cover_what_is_drawn() {
        let linear = Scale::linear(47_000.0);
        assert_eq!(linear.ticks(), [0.0, 20_000.0, 40_000.0, 60_000.0]);
        assert!(linear.y(47_000.0) > TOP && linear.y(0.0) == BOTTOM);
        let log = Scale::decades(0.3, 42.0);
        assert_eq!(log.ticks().len(), 4);
        assert!(log.y(0.3) < BOTTOM && log.y(42.0) > TOP);
        // A single figure, and none that is more than 0.
        for scale in [Scale::log(5.0, 5.0), Scale::decades(0.0, 0.0), Scale::linear(0.0)] {
            assert!(scale.x(5.0).is_finite() && scale.y(0.0).is_finite() && scale.ticks().len() < 10, "{scale:?}");
        }
    }
}
