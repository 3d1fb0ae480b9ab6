//! A case, and how it is run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use highwater::backend::BoxFuture;

use crate::{
    Harness, checkpoints, dead_letters, delivery, diagnose, leadership, log, requests, support, transactions, transfer,
    wakeups,
};

/// How long a case may take before it counts as hanging.
const CASE_DEADLINE: Duration = Duration::from_secs(120);
/// More than most test machines have cores, so that tasks are interrupted in odd places.
const WORKER_THREADS: usize = 4;

/// One question put to a backend.
pub struct Case<H> {
    /// What it claims, as a sentence.
    pub name: &'static str,
    /// What it is about.
    pub topic: &'static str,
    /// The guarantees it checks, by their numbers in `docs/guarantees.md`.
    pub guarantees: &'static [u8],
    pub(crate) run: fn(Arc<H>) -> BoxFuture<'static, ()>,
}

impl<H: Harness> Case<H> {
    /// Holds a backend against this case and cleans up after it. Needs a tokio runtime with time.
    ///
    /// # Errors
    /// In which way the backend breaks the contract, in words. A backend that takes longer than `deadline` does.
    pub async fn run(&self, harness: H, deadline: Duration) -> Result<(), String> {
        let harness = Arc::new(harness);
        // In a separate task, so that a panic ends the case and not the clean-up.
        let mut task = tokio::spawn((self.run)(Arc::clone(&harness)));
        let outcome = match tokio::time::timeout(deadline, &mut task).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failed)) => Err(match failed.try_into_panic() {
                Ok(panic) => support::panic_message(&*panic),
                Err(cancelled) => cancelled.to_string(),
            }),
            Err(_) => {
                task.abort();
                Err(format!("it is not done after {deadline:?}"))
            }
        };
        harness.clean_up().await;
        outcome
    }
}

impl<H> fmt::Debug for Case<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.guarantees)
    }
}

macro_rules! list_of_cases {
    ([$harness:ident] $($topic:ident { $($case:ident $guarantees:tt;)* })*) => {
        vec![$($(Case {
            name: stringify!($case),
            topic: stringify!($topic),
            guarantees: &$guarantees,
            run: |harness| Box::pin($topic::$case::<$harness>(harness)),
        },)*)*]
    };
}

/// All cases there are.
#[must_use]
pub fn cases<H: Harness>() -> Vec<Case<H>> {
    use delivery::*;
    use log::*;
    crate::for_each_case! { [list_of_cases] H }
}

/// Runs one case as a test: what [`suite!`](crate::suite) expands to.
///
/// # Panics
/// When the backend breaks the contract, or when there is no case of that name.
#[doc(hidden)]
pub fn run<H: Harness>(name: &str, harness: impl FnOnce() -> H) {
    let case = cases::<H>().into_iter().find(|case| case.name == name).expect("names come from the list of cases");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build()
        .expect("a test can start threads");
    let deadline = CASE_DEADLINE * support::soak(1);
    if let Err(reason) = runtime.block_on(async { case.run(harness(), deadline).await }) {
        panic!("{name} (guarantees {:?}): {reason}", case.guarantees);
    }
}
