//! The other instances.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use highwater::Error;
use highwater::backend::{Member, View, Want, lock};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::candidate::PgCandidate;
use super::instance;
use super::key::Key;
use crate::error::failed;
use crate::own_pool::{DoneInTime, InTime};

/// How long to try. The other instances see by themselves which is gone.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Announces what is wanted here, if that has changed, and sees the other instances.
pub(super) async fn view(candidate: &PgCandidate, wants: &[Want]) -> Result<View, Error> {
    let own = *candidate.current.borrow();
    if let Some(session) = own {
        enter(candidate, session, wants).await?;
    }
    let inner = &candidate.store.inner;
    let schema = inner.schema.as_str();
    let asking = sqlx::query(inner.sql.instances.clone()).bind(schema);
    let failed = |e| failed("see which instances there are", e);
    let rows = asking.fetch_all_in_time(&inner.housekeeping).await.map_err(failed)?;
    let (mut members, mut gone) = (Vec::new(), Vec::new());
    for row in &rows {
        match member(row, schema).map_err(failed)? {
            (session, None) => gone.push(session),
            (_, Some(member)) => members.push(member),
        }
    }
    if !gone.is_empty() {
        let forgetting =
            sqlx::query(inner.sql.instances_forget.clone()).bind(gone).execute_in_time(&inner.housekeeping).await;
        forgetting.map_err(failed)?;
    }
    if own.is_some_and(|own| rows.iter().all(|row| row.try_get::<Uuid, _>(0).is_ok_and(|session| session != own))) {
        // The table was emptied by hand. At the next look this instance enters again.
        *lock(&candidate.entered) = None;
    }
    let keys = |member: &Member| member.wants.iter().map(|want| Key::subscriber(schema, &want.subscriber_id)).collect();
    candidate.rivals.send_replace(members.iter().map(|member| (member.session, keys(member))).collect());
    candidate.neighbour.send_if_modified(|neighbour| {
        let next = own.and_then(|own| next(own, &members));
        std::mem::replace(neighbour, next) != next
    });
    Ok(View { own, members })
}

async fn enter(candidate: &PgCandidate, session: Uuid, wants: &[Want]) -> Result<(), Error> {
    let told = |candidate: &PgCandidate| {
        let entered = lock(&candidate.entered);
        entered.as_ref().is_some_and(|(told, what)| *told == session && what == wants)
    };
    if told(candidate) {
        return Ok(());
    }
    let (inner, instance) = (&candidate.store.inner, &candidate.instance);
    let entering = sqlx::query(inner.sql.instance_enter.clone())
        .bind(session)
        .bind(instance.id)
        .bind(&instance.host)
        .bind(i64::from(instance.pid))
        .bind(&instance.label)
        .bind(wants.iter().map(|want| &*want.subscriber_id).collect::<Vec<_>>())
        .bind(wants.iter().map(|want| want.prefers.as_deref()).collect::<Vec<_>>())
        .execute_in_time(&inner.housekeeping)
        .await;
    entering.map_err(|e| failed("enter the instance", e))?;
    *lock(&candidate.entered) = Some((session, wants.to_vec()));
    Ok(())
}

/// Takes this instance's entry away. Should that fail, the others see by its lock that it is gone.
pub(super) async fn leave(candidate: &PgCandidate) {
    let entered = lock(&candidate.entered).take();
    let Some((session, _)) = entered else { return };
    let inner = &candidate.store.inner;
    let leaving = sqlx::query(inner.sql.instance_leave.clone()).bind(session).execute_in_time(&inner.own_pool);
    if let Ok(Err(error)) = tokio::time::timeout(LEAVE_TIMEOUT, leaving).await {
        tracing::debug!(%error, "could not remove the entry of this instance");
    }
}

/// The session, and everything else if it is there.
fn member(row: &PgRow, schema: &str) -> Result<(Uuid, Option<Member>), sqlx::Error> {
    let session: Uuid = row.try_get(0)?;
    let Some(held) = row.try_get::<Option<Vec<i64>>, _>(7)? else { return Ok((session, None)) };
    let held: HashSet<i64> = held.into_iter().collect();
    let (wants, prefers): (Vec<String>, Vec<Option<String>>) = (row.try_get(5)?, row.try_get(6)?);
    let prefers = prefers.into_iter().chain(std::iter::repeat(None));
    let wants: Vec<Want> =
        wants.into_iter().zip(prefers).map(|(subscriber_id, prefers)| Want { subscriber_id, prefers }).collect();
    // What it leads it wants; a key alone does not say what it is the key of.
    let keys: HashMap<i64, &str> = wants
        .iter()
        .map(|want| (Key::subscriber(schema, &want.subscriber_id).number(), &*want.subscriber_id))
        .collect();
    let leads = held.iter().filter_map(|key| keys.get(key).map(|id| (*id).to_owned())).collect();
    Ok((session, Some(Member { session, instance: instance(row, 1)?, wants, leads })))
}

/// The one after this one, in a ring of all.
fn next(own: Uuid, members: &[Member]) -> Option<Uuid> {
    let others = || members.iter().map(|member| member.session).filter(|session| *session != own);
    others().filter(|session| *session > own).min().or_else(|| others().min())
}

#[cfg(test)]
mod tests {
    use highwater::backend::Instance;

    use super::*;

    #[test]
    fn everybody_is_watched_by_one_other() {
        let member = |n: u128| Member {
            session: Uuid::from_u128(n),
            instance: Instance::here(None),
            wants: Vec::new(),
            leads: Vec::new(),
        };
        let members: Vec<Member> = [3, 1, 2].map(member).into();
        let next = |n: u128| next(Uuid::from_u128(n), &members).map(|next| next.as_u128());
        assert_eq!([next(1), next(2), next(3)], [Some(2), Some(3), Some(1)]);
        assert_eq!(super::next(Uuid::from_u128(1), &members[1..2]), None, "alone one watches nobody");
    }
}
