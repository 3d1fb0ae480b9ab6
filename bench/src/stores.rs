//! Scenario `stores`: many small processes, each with a store and one caller, beside one process whose store has them all.
//!
//! What a group saves is lost to processes that append alone; what is left are their commits and what each store does besides.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use highwater::backend::Log;
use highwater::{Append, ExpectedVersion};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::Error;
use crate::callers::rate;
use crate::child::{self, Child};
use crate::options::Options;
use crate::payload::{self, Order};
use crate::report::{Goal, Report, Unit};
use crate::rounds::{self, Way as _};
use crate::server::Server;

pub(crate) const ROLE: &str = "stores";

const CALLERS: usize = 64;

#[derive(Debug, Clone, Copy)]
enum Way {
    Shared,
    Separate,
}

use Way::*;

impl rounds::Way for Way {
    fn name(self) -> &'static str {
        match self {
            Shared => "one process, 64 callers",
            Separate => "64 processes, a caller each",
        }
    }

    fn unit(self) -> Unit {
        Unit::EventsPerSecond
    }
}

pub(crate) async fn run(server: &Server, options: &Options) -> Result<Report, Error> {
    server.store().await?;
    let start =
        async |callers: usize| Ok::<_, Error>(Mutex::new(Child::start(server, ROLE, &[callers.to_string()]).await?));
    let shared = [start(CALLERS).await?];
    let mut separate = Vec::new();
    for _ in 0..CALLERS {
        separate.push(start(1).await?);
    }
    let measure = async |way, time: Duration| {
        let children = match way {
            Shared => &shared[..],
            Separate => &separate,
        };
        let asked = children.iter().map(async |child| child.lock().await.ask(&time.as_secs_f64().to_string()).await);
        let rates = try_join_all(asked).await?;
        rates.iter().try_fold(0.0, |sum, rate| Ok(sum + rate.parse::<f64>()?))
    };
    let rows = rounds::interleave(&[&[Shared, Separate]], options, async || Ok(()), measure).await?;
    let report = Report::new(options, rows);
    Ok(report.compare("stores64_vs_shared", Separate.name(), &[Shared.name()], Some(Goal::AtLeast(0.7))))
}

/// A child: appends to new streams for as many seconds as it is told, and answers how many events that were in a second.
pub(crate) async fn append(url: &str, args: &[String]) -> Result<(), Error> {
    let [callers] = args else { return Err("how many callers?".into()) };
    let (callers, store) = (callers.parse()?, child::store(url).await?);
    let order: Arc<Order> = Arc::new(payload::sample()?.into());
    let append = move |_| {
        let (store, order) = (store.clone(), order.clone());
        async move {
            let append = Append::to(Uuid::new_v4()).expecting(ExpectedVersion::NoStream).event(&*order);
            Ok(store.append(&append).await?.positions.len())
        }
    };
    child::serve(|seconds| {
        let append = append.clone();
        async move { Ok(rate(callers, Duration::from_secs_f64(seconds.parse()?), append).await?.to_string()) }
    })
    .await
}
