//! How long to wait before a retry.

use std::time::Duration;

use crate::ReliableDeliveryConfig;
use crate::backoff::Backoff;

/// The delay before retry number `retry` (the first is 0): `min(initial · 2^retry, max)`, of which chance (`random`, from
/// 0 to 1) may take away the part that `retry_jitter` leaves to it.
pub(crate) fn delay(config: &ReliableDeliveryConfig, retry: u32, random: f64) -> Duration {
    let full = Backoff::new(config.initial_retry_delay, config.max_retry_delay).after(retry);
    full.mul_f64(1.0 - config.retry_jitter * random)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(retry_jitter: f64) -> ReliableDeliveryConfig {
        ReliableDeliveryConfig { retry_jitter, ..ReliableDeliveryConfig::default() }
    }

    #[test]
    fn delays_double_up_to_the_highest() {
        let seconds = |retry| delay(&config(0.0), retry, 0.7).as_secs();
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 10, 31, 32, u32::MAX].map(seconds), [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]);
    }

    #[test]
    fn chance_only_ever_shortens() {
        assert_eq!(delay(&config(0.2), 0, 0.0), Duration::from_secs(1));
        assert_eq!(delay(&config(0.2), 0, 1.0), Duration::from_millis(800));
        assert_eq!(delay(&config(1.0), 20, 0.5), Duration::from_secs(30));
    }
}
