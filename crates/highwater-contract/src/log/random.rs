//! Random histories.

use std::sync::Arc;

use highwater::MemoryEventStore;

use crate::support::{seed, seeded, soak};
use crate::{Harness, Settings, history};

pub(crate) async fn random_histories_get_the_same_answers_as_in_memory<H: Harness>(harness: Arc<H>) {
    for seed in (seed()..).take(soak(4) as usize) {
        let log = harness.fresh(Settings::default()).await;
        seeded(seed, async move {
            let operations = history::sequential(seed, 260);
            let in_memory = history::run(&MemoryEventStore::new(), &operations).await;
            let transcript = history::run(&log, &operations).await;
            if let Some(at) = transcript.first_difference(&in_memory) {
                let (answer, wanted) = (&transcript.0[at], &in_memory.0[at]);
                panic!("operation {at}, {:?}: {answer:?} instead of {wanted:?}", operations[at]);
            }
        })
        .await;
    }
}

pub(crate) async fn random_histories_at_once_can_be_put_in_order<H: Harness>(harness: Arc<H>) {
    for seed in (seed()..).take(soak(2) as usize) {
        let log = harness.fresh(Settings::default()).await;
        history::concurrent(&log, seed, 6, 520).await;
    }
}
