//! Renewal on a cluster: the holds of one slot travel together, the slots side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::shards::Shards;
use super::{REDIRECTS, sent_on_too_often, slot_of};
use crate::base::clock::Moment;
use crate::engine::{Answer, Cause, Engine, Lane, Renew, Renewed, Reply, Step, StepError};

/// Renews all entries; one slot's trouble is not another's.
pub(super) async fn renew(
    shards: &Arc<Shards>,
    lane: Lane,
    entries: Vec<Renew>,
    until: Instant,
) -> Result<Answer, StepError> {
    let mut slots: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (place, entry) in entries.iter().enumerate() {
        slots
            .entry(slot_of(entry.target.name.as_str()))
            .or_default()
            .push(place);
    }
    let renewals = slots.iter().map(|(slot, places)| {
        let entries = places.iter().map(|place| entries[*place].clone()).collect();
        perform_renewal(shards, *slot, lane, entries, until)
    });
    let answers = join_all(renewals).await;

    let nothing = || StepError::possible(Cause::Unreachable("no answer to a renewal".to_owned()));
    let mut results: Vec<Result<Renewed, StepError>> = vec![Err(nothing()); entries.len()];
    // A hold is confirmed from the sending of its copy: with several slots, from the first.
    let (mut sent, mut server_time) = (Moment::FAR, u64::MAX);
    for (places, answer) in slots.values().zip(answers) {
        match answer {
            Ok((renewed, answer)) => {
                sent = sent.min(answer.0);
                server_time = server_time.min(answer.1);
                for (place, result) in places.iter().zip(renewed) {
                    results[*place] = result;
                }
            }
            Err(error) => {
                for place in places {
                    results[*place] = Err(error.clone());
                }
            }
        }
    }
    let now = Moment::of(&**shards.clock());
    Ok(Answer {
        reply: Reply::Renewed(results),
        sent: sent.min(now),
        server_time: if server_time == u64::MAX { 0 } else { server_time },
    })
}

type Answered = (Vec<Result<Renewed, StepError>>, (Moment, u64));

/// The engine of a shard tells of a slot that moved by the results of its entries: then all of them are asked for anew.
async fn perform_renewal(
    shards: &Arc<Shards>,
    slot: u16,
    lane: Lane,
    entries: Vec<Renew>,
    until: Instant,
) -> Result<Answered, StepError> {
    let mut engine = shards.master_of(slot, until).await?;
    for _ in 0..REDIRECTS {
        let limit = until.saturating_duration_since(Instant::now());
        let answer = engine.perform(lane, Step::Renew(entries.clone()), limit).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                shards.look_again();
                return Err(error);
            }
        };
        let Reply::Renewed(results) = answer.reply else {
            return Err(StepError::possible(Cause::Unreachable(
                "an answer of another kind".to_owned(),
            )));
        };
        let refused = results.iter().find_map(|result| result.as_ref().err());
        match refused.map(|error| shards.redirect(&engine, error)) {
            Some(Ok(Some(elsewhere))) => engine = elsewhere,
            Some(Err(error)) => return Err(error),
            _ => return Ok((results, (answer.sent, answer.server_time))),
        }
    }
    Err(sent_on_too_often())
}
