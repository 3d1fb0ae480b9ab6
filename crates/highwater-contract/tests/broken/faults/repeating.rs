//! Faults of appending twice.

use highwater::backend::{BoxFuture, Log, Position};
use highwater::{Append, Appended, Error, ExpectedVersion};
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

/// Looks at versions before it looks at ids.
pub(crate) struct ChecksVersionsBeforeIds;

impl Fault for ChecksVersionsBeforeIds {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            sound.records(append)?;
            sound.check_expectations(append).await?;
            sound.memory.append(append).await
        })
    }
}

/// Does not recognise what it has stored before.
pub(crate) struct ForgetsIds;

impl Fault for ForgetsIds {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let done = sound.memory.append(append).await?;
            if !done.repeated {
                return Ok(done);
            }
            let new_ids = |records: &mut Vec<highwater::backend::NewRecord>| {
                records.iter_mut().for_each(|record| record.id = Uuid::now_v7());
            };
            sound.memory.append(&sound.changed(append, |_| ExpectedVersion::Any, new_ids)?).await
        })
    }
}

/// The places at which the ids of an append are stored already.
async fn known(sound: &Sound, append: &Append) -> Result<Vec<(Uuid, Position)>, Error> {
    let place = |record: highwater::backend::Record| {
        let (stream_version, global_sequence) = (record.stream_version, record.global_sequence);
        (record.id, Position { stream_version, global_sequence })
    };
    let ids: Vec<Uuid> = append.event_ids().collect();
    let everything = sound.everything().await?;
    Ok(everything.into_iter().filter(|record| ids.contains(&record.id)).map(place).collect())
}

/// Stores what is missing of an append that it knows in part.
pub(crate) struct CompletesWhatIsPartlyStored;

impl Fault for CompletesWhatIsPartlyStored {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let answer = sound.memory.append(append).await;
            if !matches!(answer, Err(Error::PartlyStored { .. })) {
                return answer;
            }
            let known = known(sound, append).await?;
            let missing = sound.records(append)?.into_iter().filter(|new| known.iter().all(|(id, _)| *id != new.id));
            let missing: Vec<_> = missing.collect();
            let rest = missing.iter().cloned().fold(Append::to(missing[0].stream_id), Append::record);
            let done = sound.memory.append(&rest).await?;
            let positions = known.into_iter().map(|(_, position)| position).chain(done.positions).collect();
            Ok(Appended::new(positions, false).expect("it has events"))
        })
    }
}

/// Takes any known id for a repetition, whatever comes with it.
pub(crate) struct TrustsIdsAlone;

impl Fault for TrustsIdsAlone {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let answer = sound.memory.append(append).await;
            if !matches!(answer, Err(Error::IdTaken { .. })) {
                return answer;
            }
            let positions = known(sound, append).await?.into_iter().map(|(_, position)| position).collect();
            Ok(Appended::new(positions, true).expect("one id is known at least"))
        })
    }
}

/// Answers a repetition with where the log ends now.
pub(crate) struct RepeatsWithOtherPlaces;

impl Fault for RepeatsWithOtherPlaces {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move {
            let mut done = sound.memory.append(append).await?;
            if done.repeated {
                let shift = sound.memory.head().await? - done.global_sequence;
                done.positions.iter_mut().for_each(|position| position.global_sequence += shift);
            }
            Ok(Appended::new(done.positions, done.repeated).expect("it has events"))
        })
    }
}

/// Always says the same of whether it knew an append.
pub(crate) struct AlwaysSaysThatItRepeats(pub(crate) bool);

impl Fault for AlwaysSaysThatItRepeats {
    fn append<'a>(&'a self, sound: &'a Sound, append: &'a Append) -> BoxFuture<'a, Result<Appended, Error>> {
        Box::pin(async move { Ok(Appended { repeated: self.0, ..sound.memory.append(append).await? }) })
    }
}
