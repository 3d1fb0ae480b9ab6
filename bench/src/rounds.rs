//! Rounds: what is compared runs by turns, in short slices, so that what machine and disk do besides hits all alike.

use std::time::Duration;

use crate::Error;
use crate::options::Options;
use crate::report::{Row, Unit};

/// How long something runs before it is measured, as a part of the measurement.
const WARM_UP: f64 = 0.2;
/// How long at most before it is another's turn. The time a disk takes for a commit may change tenfold from one second to
/// the next, where it is not alone.
const SLICE_MAX: Duration = Duration::from_millis(500);

/// Something that can be measured.
pub(crate) trait Way: Copy {
    fn name(self) -> &'static str;
    fn unit(self) -> Unit;
}

/// Measures every way once a round. `begin` comes before each round; the ways of a group take turns, slice by slice, after
/// a short warm-up of each.
pub(crate) async fn interleave<W: Way>(
    groups: &[&[W]],
    options: &Options,
    begin: impl AsyncFn() -> Result<(), Error>,
    measure: impl AsyncFn(W, Duration) -> Result<f64, Error>,
) -> Result<Vec<Row>, Error> {
    let empty = |way: &W| Row::new(way.name(), way.unit());
    let mut rows: Vec<Vec<Row>> = groups.iter().map(|ways| ways.iter().map(empty).collect()).collect();
    let slices = options.time.div_duration_f64(SLICE_MAX).ceil() as u32;
    for _ in 0..options.rounds {
        begin().await?;
        for (ways, rows) in groups.iter().zip(&mut rows) {
            for way in *ways {
                measure(*way, options.time.mul_f64(WARM_UP)).await?;
            }
            let mut figures = vec![Vec::new(); ways.len()];
            for _ in 0..slices {
                for (way, figures) in ways.iter().zip(&mut figures) {
                    figures.push(measure(*way, options.time / slices).await?);
                }
            }
            for (row, figures) in rows.iter_mut().zip(figures) {
                row.push(row.unit.of_slices(&figures));
            }
        }
    }
    Ok(rows.into_iter().flatten().collect())
}

/// The one in the middle; between two, their mean.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// The figure that so large a part of them does not exceed: 0.99 of them, say.
pub(crate) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_last_hundredth_is_left_out_where_there_are_enough() {
        let hundred: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|part| quantile(&hundred, part)), [50.0, 99.0, 100.0]);
        assert_eq!([0.99, 1.0].map(|part| quantile(&hundred[..20], part)), [100.0, 100.0]);
    }
}
