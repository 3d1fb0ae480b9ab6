//! Where a projection keeps its state.

/// Where a [`Projection`](crate::Projection) keeps what it makes of events.
///
/// Its checkpoint says up to where events are handled. On SQLite and PostgreSQL that outlives the process; what it stands for must
/// do so too, or a restart leaves a state that lacks everything before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateIs {
    /// Outside of the process: in a search index, a file, another database.
    Outside,
    /// Nowhere. It only has effects: it sends mails, calls services, appends events.
    Nothing,
    /// In this process, and gone with it. Only a store that is as well can be subscribed to:
    /// [`MemoryEventStore`](crate::MemoryEventStore). On any other store that is
    /// [`Invalid::StateInMemory`](crate::Invalid::StateInMemory); a [`live_view`](crate::Bus::live_view) is for that.
    InMemory,
}
