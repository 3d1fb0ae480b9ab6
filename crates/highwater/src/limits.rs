//! The named limits of what may be stored.

/// How large things may be. Every backend checks the same limits in the same place.
///
/// ```
/// let limits = highwater::Limits { event_bytes_max: 64 * 1024, ..Default::default() };
/// assert_eq!(limits.event_type_bytes_max, 255);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one event's data and metadata together. Default: 1 MiB; upper bound: 64 MiB.
    pub event_bytes_max: usize,
    /// Bytes of an event type's name. Default and upper bound: 255.
    pub event_type_bytes_max: usize,
    /// Events in one append. Default: 10,000.
    pub append_events_max: usize,
    /// Bytes of data and metadata in one append. Default: 64 MiB.
    pub append_bytes_max: usize,
}

/// What no event may be larger than, whatever the limits: every reader of the log has to take it whole.
pub(crate) const EVENT_BYTES_BOUND: usize = 64 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_bytes_max: 1 << 20,
            event_type_bytes_max: 255,
            append_events_max: 10_000,
            append_bytes_max: 64 << 20,
        }
    }
}
