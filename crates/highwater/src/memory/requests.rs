//! Pauses and requests in memory.

use uuid::Uuid;

use super::MemoryEventStore;
use crate::{BoxFuture, Error, Request, Requests};

/// Requests of one subscriber that are returned at once.
const REQUESTS_MAX: usize = 100;

impl Requests for MemoryEventStore {
    fn set_paused<'a>(&'a self, subscriber_id: &'a str, paused: bool) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let mut state = self.delivery.state();
            self.filling.check()?;
            if !state.checkpoints.contains_key(subscriber_id) {
                return Ok(false);
            }
            if paused {
                state.paused.insert(subscriber_id.to_owned());
            } else {
                state.paused.remove(subscriber_id);
            }
            Ok(true)
        })
    }

    fn paused<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move {
            let state = self.delivery.state();
            Ok(subscriber_ids.iter().filter(|id| state.paused.contains(*id)).cloned().collect())
        })
    }

    fn file_request<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let mut state = self.delivery.state();
            self.filling.check()?;
            if state.requests.iter().all(|filed| filed.id != request.id) {
                state.requests.push(request.clone());
            }
            Ok(())
        })
    }

    fn open_requests<'a>(&'a self, subscriber_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        Box::pin(async move {
            let state = self.delivery.state();
            let open = |id: &String| {
                let of = move |request: &&Request| request.outcome.is_none() && request.subscriber_id == *id;
                state.requests.iter().filter(of).take(REQUESTS_MAX).cloned().collect::<Vec<_>>()
            };
            let mut requests: Vec<Request> = subscriber_ids.iter().flat_map(open).collect();
            requests.sort_by_key(|request| request.requested_at);
            Ok(requests)
        })
    }

    fn all_open_requests<'a>(
        &'a self,
        after: Option<&'a Request>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Request>, Error>> {
        Box::pin(async move {
            let place = |request: &Request| (request.requested_at, request.id);
            let open = |request: &&Request| {
                request.outcome.is_none() && after.is_none_or(|after| place(request) > place(after))
            };
            let mut requests: Vec<Request> = self.delivery.state().requests.iter().filter(open).cloned().collect();
            requests.sort_by_key(place);
            requests.truncate(limit);
            Ok(requests)
        })
    }

    fn request(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Request>, Error>> {
        Box::pin(async move { Ok(self.delivery.state().requests.iter().find(|request| request.id == id).cloned()) })
    }
}
