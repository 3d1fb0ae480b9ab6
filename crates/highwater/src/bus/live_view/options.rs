//! What a live view may choose.

use std::fmt;

use super::ViewSnapshot;

/// What a [`LiveView`](crate::LiveView) may choose, for [`live_view_with`](crate::Bus::live_view_with).
///
/// ```
/// # use highwater::{Event, Evolve, ViewOptions};
/// # #[derive(Default)] struct Revenue;
/// # impl Evolve for Revenue { type Event = (); fn evolve(&mut self, _: &Event<()>) {} }
/// let options = ViewOptions::<Revenue>::default().of_kinds(["order"]).skip_failures();
/// ```
pub struct ViewOptions<S> {
    pub(super) kinds: Option<Vec<String>>,
    pub(super) snapshot: ViewSnapshot<S>,
    pub(super) skip_failures: bool,
}

impl<S> ViewOptions<S> {
    /// From streams of these kinds only, as in [`live_view_of_kinds`](crate::Bus::live_view_of_kinds). Default: all.
    #[must_use]
    pub fn of_kinds(self, kinds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { kinds: Some(kinds.into_iter().map(Into::into).collect()), ..self }
    }

    /// From a snapshot, as in [`live_view_from`](crate::Bus::live_view_from). Default: from the beginning.
    #[must_use]
    pub fn snapshot(self, snapshot: ViewSnapshot<S>) -> Self {
        Self { snapshot, ..self }
    }

    /// An event that cannot be decoded, or at which `evolve` panics, is left out, and the view can still be read: for one that had
    /// rather be incomplete than not there. A warning is logged for each, and [`health`](crate::Bus::health) counts them. What
    /// `evolve` had changed before it panicked stays changed. Default: the view stops in front of such an event.
    #[must_use]
    pub fn skip_failures(self) -> Self {
        Self { skip_failures: true, ..self }
    }
}

impl<S: Default> Default for ViewOptions<S> {
    fn default() -> Self {
        Self { kinds: None, snapshot: ViewSnapshot::default(), skip_failures: false }
    }
}

impl<S> fmt::Debug for ViewOptions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewOptions")
            .field("kinds", &self.kinds)
            .field("from", &self.snapshot.global_sequence)
            .field("skip_failures", &self.skip_failures)
            .finish()
    }
}
