//! What callers may hand over for a stream, and for an event: with a hint where it is something else.

use uuid::Uuid;

use crate::{Appended, GlobalSequence, Position, StreamId};

/// What names a stream: a [`StreamId`], or a UUID for a stream without a name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no stream",
    note = "for the stream that is shown as `order/17`: `stream_id(\"order\", \"17\")`"
)]
pub trait IntoStreamId {
    /// The stream.
    fn into_stream_id(self) -> StreamId;
}

impl IntoStreamId for StreamId {
    fn into_stream_id(self) -> StreamId {
        self
    }
}

impl IntoStreamId for &StreamId {
    fn into_stream_id(self) -> StreamId {
        *self
    }
}

impl IntoStreamId for Uuid {
    fn into_stream_id(self) -> StreamId {
        self.into()
    }
}

/// What tells which event to wait for: `&appended`, what [`execute`](crate::EventStore::execute) returned (for `None` there is nothing
/// to wait for), a [`Position`], or a [`GlobalSequence`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not tell which event is meant",
    note = "hand over what the append returned, `&appended`; a number alone could be the version of a stream: `GlobalSequence(17)`"
)]
pub trait IntoGlobalSequence {
    /// The number of that event.
    fn into_global_sequence(self) -> GlobalSequence;
}

impl IntoGlobalSequence for GlobalSequence {
    fn into_global_sequence(self) -> GlobalSequence {
        self
    }
}

impl IntoGlobalSequence for &Appended {
    fn into_global_sequence(self) -> GlobalSequence {
        GlobalSequence(self.global_sequence)
    }
}

impl IntoGlobalSequence for &Option<Appended> {
    fn into_global_sequence(self) -> GlobalSequence {
        self.as_ref().map_or(GlobalSequence(0), IntoGlobalSequence::into_global_sequence)
    }
}

impl IntoGlobalSequence for Position {
    fn into_global_sequence(self) -> GlobalSequence {
        GlobalSequence(self.global_sequence)
    }
}
