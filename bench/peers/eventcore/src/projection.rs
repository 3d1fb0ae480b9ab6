//! The subscriber: a transactional projection whose read model is the sink.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use driver::{Error, Sink};
use eventcore::Event as _;
use eventcore::postgres::projections::{
    DeliveryPosition, EventTypeName, NoopAfterCommit, Postgres, PostgresProjectionConfig, PostgresProjectionSource,
    PostgresProjectionStore, PostgresProjector, ProjectionSelection, ProjectionSelectionId, ProjectionStreamFilter,
    ProjectorName, Transaction, TransactionalProjectionError, run_transactional_projection,
};
use eventcore_types::BatchSize;
use tokio_util::sync::CancellationToken;

use crate::orders::OrderPlaced;

/// How often to try whether the process that runs a projection is gone. Each time the library opens a connection.
const STAND_BY: Duration = Duration::from_millis(100);

struct ToSink<'a> {
    name: ProjectorName,
    sink: &'a Sink,
}

impl PostgresProjector for ToSink<'_> {
    type Event = OrderPlaced;
    type Error = Infallible;
    type AfterCommit = NoopAfterCommit;

    fn name(&self) -> &ProjectorName {
        &self.name
    }

    async fn apply<'a, 'c>(
        &'a mut self,
        event: &'a OrderPlaced,
        position: DeliveryPosition,
        _: &'a mut Transaction<'c, Postgres>,
    ) -> Result<NoopAfterCommit, Infallible>
    where
        'c: 'a,
    {
        self.sink.handle(&event.order, Some(position.get()));
        Ok(NoopAfterCommit)
    }
}

/// Runs until the sink is stopped. While another process runs it, waits for its end.
pub(crate) async fn follow(
    source: &PostgresProjectionSource,
    destination: &PostgresProjectionStore,
    id: &str,
    sink: &Sink,
    page: usize,
    poll: Duration,
) -> Result<(), Error> {
    let (name, stop) = (ProjectorName::try_new(id)?, CancellationToken::new());
    let selection = ProjectionSelection::try_new(
        ProjectionSelectionId::try_new("all-orders")?,
        ProjectionStreamFilter::All,
        vec![EventTypeName::try_new(OrderPlaced::event_type_name())?],
    )?;
    let config = PostgresProjectionConfig::new(selection)
        .continuous(stop.clone())
        .with_batch_size(BatchSize::new(page))?
        .with_continuous_poll_interval(poll)?;
    let mut running = pin!(async {
        loop {
            let projector = ToSink { name: name.clone(), sink };
            match run_transactional_projection(projector, source, destination, config.clone()).await {
                Err(TransactionalProjectionError::LeadershipBusy) if !stop.is_cancelled() => {
                    tokio::time::sleep(STAND_BY).await;
                }
                Err(TransactionalProjectionError::LeadershipBusy) | Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    });
    tokio::select! {
        ended = &mut running => ended,
        () = sink.stopped() => {
            stop.cancel();
            running.await
        }
    }
}
