//! Leader election: at most one leader, terms that rise, and everybody may know who leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::{Error, HoldState, Keeper, Lease, LossReason, Unlocked};

use super::stage::{SOON, soon};
use super::{Stage, on_both_engines};

on_both_engines!(
    one_candidate_leads_and_the_next_follows,
    candidates_take_turns_and_terms_rise,
    everybody_may_know_who_leads,
    an_observation_tells_each_change,
    an_observation_sees_a_leader_that_died,
    a_cancelled_campaign_leaves_nothing,
    a_leader_learns_that_it_was_deposed,
    an_election_and_a_lock_refuse_each_other,
    candidates_say_what_they_like_within_limits,
    a_closing_keeper_ends_its_terms_and_observations,
    threads_lead_too,
);

async fn one_candidate_leads_and_the_next_follows(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let leadership = first.election("jobs").candidate("one").campaign().await.unwrap();
    assert_eq!(leadership.state(), HoldState::Held);
    for keeper in [&first, &second] {
        let refused = keeper.election("jobs").try_campaign().await;
        assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
        let refused = keeper.election("jobs").wait(Duration::from_millis(50)).campaign().await;
        assert!(matches!(refused, Err(Error::TimedOut { .. })), "{refused:?}");
    }
    let next = second.election("jobs").candidate("two");
    let campaigning = tokio::spawn(async move { next.campaign().await });
    assert_eq!(leadership.resign().await, Ok(Unlocked::Freed));
    let next = soon("the next leader", campaigning).await.unwrap().unwrap();
    let leader = first.election("jobs").leader().await.unwrap().unwrap();
    assert_eq!((leader.candidate.as_str(), leader.term), ("two", next.term()));
}

async fn candidates_take_turns_and_terms_rise(stage: Stage) {
    const CANDIDATES: usize = 4;
    const TERMS: usize = 5;
    let leading = Arc::new(AtomicUsize::new(0));
    let terms = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut campaigns = Vec::new();
    for keeper in [stage.keeper().await, stage.keeper().await] {
        for _ in 0..CANDIDATES / 2 {
            let (election, leading, terms) = (keeper.election("turns"), Arc::clone(&leading), Arc::clone(&terms));
            campaigns.push(tokio::spawn(async move {
                for _ in 0..TERMS {
                    let leadership = election.campaign().await.unwrap();
                    assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two leaders");
                    terms.lock().unwrap().push(leadership.term());
                    tokio::task::yield_now().await;
                    leading.fetch_sub(1, Ordering::SeqCst);
                    leadership.resign().await.unwrap();
                }
            }));
        }
    }
    for campaign in campaigns {
        soon("every term", campaign).await.unwrap();
    }
    let terms = terms.lock().unwrap();
    assert_eq!(terms.len(), CANDIDATES * TERMS);
    assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
}

async fn everybody_may_know_who_leads(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    assert_eq!(second.election("known").leader().await, Ok(None));
    let lease = Lease::fixed(Duration::from_secs(20));
    let election = first.election("known").candidate("node-7").lease(lease);
    let leadership = election.try_campaign().await.unwrap();
    let leader = second.election("known").leader().await.unwrap().unwrap();
    assert_eq!((leader.candidate.as_str(), leader.term), ("node-7", leadership.term()));
    assert!(
        leader
            .time_left
            .is_some_and(|left| left > SOON && left <= lease.duration())
    );
    let found = second.inspect("known").await.unwrap();
    assert_eq!(
        (found.kind.as_deref(), found.candidate.as_deref()),
        (Some("election"), Some("node-7"))
    );
    assert_eq!((found.layout, found.token), (None, Some(leadership.term())));
    assert_eq!(found.holders.len(), 1);
    assert_eq!(found.holders[0].owner, leadership.owner());
    leadership.unlock().await.unwrap();
    assert_eq!(second.election("known").leader().await, Ok(None));
}

async fn an_observation_tells_each_change(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let mut observation = second.election("observed").observe();
    assert_eq!(soon("the present", observation.changed()).await, Ok(None));
    let election = first.election("observed").candidate("one");
    for _ in 0..3 {
        let leadership = election.campaign().await.unwrap();
        let leader = soon("a leader", observation.changed()).await.unwrap().unwrap();
        assert_eq!((leader.candidate.as_str(), leader.term), ("one", leadership.term()));
        // Nothing has changed: a look that is given up misses nothing.
        let early = tokio::time::timeout(Duration::from_millis(30), observation.changed()).await;
        assert!(early.is_err(), "{early:?}");
        leadership.resign().await.unwrap();
        assert_eq!(soon("a vacancy", observation.changed()).await, Ok(None));
    }
    // The same candidate again before anybody looked is a change all the same: another term.
    let before = election.campaign().await.unwrap();
    assert!(soon("a leader", observation.changed()).await.unwrap().is_some());
    before.resign().await.unwrap();
    let after = election.campaign().await.unwrap();
    let leader = soon("the new term", async {
        loop {
            if let Some(leader) = observation.changed().await.unwrap() {
                break leader;
            }
        }
    });
    assert_eq!(leader.await.term, after.term());
    // One that begins to look now is told the present first.
    let leader = second.election("observed").observe().changed().await.unwrap().unwrap();
    assert_eq!(leader.term, after.term());
}

async fn an_observation_sees_a_leader_that_died(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let lease = Duration::from_millis(800);
    let before = Instant::now();
    let election = first.election("died").lease(Lease::fixed(lease));
    let leadership = election.campaign().await.unwrap();
    let mut observation = second.election("died").observe();
    assert!(observation.changed().await.unwrap().is_some());
    let successor = tokio::spawn({
        let election = second.election("died");
        async move { (election.campaign().await.unwrap(), Instant::now()) }
    });
    // Nobody says a word: the end of the lease is all there is to see.
    let reason = soon("the loss", leadership.lost()).await;
    assert_eq!(reason, LossReason::DeadlinePassed);
    let _dead = std::mem::ManuallyDrop::new(leadership);
    let (next, at) = soon("a successor", successor).await.unwrap();
    assert!(at - before >= lease, "{:?}", at - before);
    let leader = soon("the change", async {
        loop {
            if let Some(leader) = observation.changed().await.unwrap() {
                break leader;
            }
        }
    });
    assert_eq!(leader.await.term, next.term());
}

async fn a_cancelled_campaign_leaves_nothing(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let leadership = first.election("cancelled").campaign().await.unwrap();
    for keeper in [&first, &second] {
        let election = keeper.election("cancelled");
        let campaigning = tokio::spawn(async move { election.campaign().await.map(drop) });
        tokio::time::sleep(Duration::from_millis(20)).await;
        campaigning.abort();
        assert!(campaigning.await.unwrap_err().is_cancelled());
    }
    leadership.resign().await.unwrap();
    // If one of them had come to lead, it would for a lease of 30 seconds.
    let next = second.election("cancelled").wait(SOON).campaign().await.unwrap();
    next.resign().await.unwrap();
    assert_eq!(first.election("cancelled").leader().await, Ok(None));
}

async fn a_leader_learns_that_it_was_deposed(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let lease = Lease::renewed(Duration::from_millis(300));
    let leadership = first.election("deposed").lease(lease).campaign().await.unwrap();
    assert_eq!(second.election("deposed").depose().await, Ok(true));
    assert_eq!(second.election("deposed").depose().await, Ok(false));
    let next = second.election("deposed").campaign().await.unwrap();
    assert!(next.term() > leadership.term());
    assert_eq!(soon("the loss", leadership.lost()).await, LossReason::GoneOnServer);
    assert!(matches!(leadership.resign().await, Err(Error::Lost(_))));
    assert_eq!(next.state(), HoldState::Held);
}

async fn an_election_and_a_lock_refuse_each_other(stage: Stage) {
    let keeper = stage.keeper().await;
    let wrong = |outcome: Result<(), Error>, wanted: &str, found: &str| match outcome {
        Err(Error::WrongKind {
            wanted: asked,
            found: there,
            ..
        }) => assert_eq!((asked, there.as_str()), (wanted, found)),
        other => panic!("{other:?}"),
    };
    let leadership = keeper.election("both").campaign().await.unwrap();
    for (mutex, word) in [
        (keeper.mutex("both"), "mutex"),
        (keeper.mutex("both").layout(lockkeeper::Layout::Plain), "mutex"),
        (keeper.fenced_mutex("both"), "fenced mutex"),
        (keeper.spin_mutex("both"), "spin mutex"),
        (keeper.fair_mutex("both"), "fair mutex"),
    ] {
        wrong(mutex.try_lock().await.map(drop), word, "election");
        wrong(soon("no wait", mutex.lock()).await.map(drop), word, "election");
        wrong(mutex.force_unlock().await.map(drop), word, "election");
    }
    wrong(keeper.periodic("both").try_start().await.map(drop), "mutex", "election");
    assert_eq!(leadership.resign().await, Ok(Unlocked::Freed));

    let guard = keeper.mutex("both").lock().await.unwrap();
    let election = keeper.election("both");
    wrong(election.try_campaign().await.map(drop), "election", "hash");
    wrong(soon("no wait", election.campaign()).await.map(drop), "election", "hash");
    wrong(election.depose().await.map(drop), "election", "hash");
    wrong(election.leader().await.map(drop), "election", "mutex");
    wrong(election.observe().changed().await.map(drop), "election", "mutex");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn candidates_say_what_they_like_within_limits(stage: Stage) {
    let keeper = stage.keeper().await;
    let longest = "x".repeat(1024);
    for text in ["", "mode", "term", "zwölf\r\n\u{1b}[2J", "\0", &longest] {
        let election = keeper.election("texts").candidate(text);
        let leadership = election.campaign().await.unwrap();
        assert_eq!(election.leader().await.unwrap().unwrap().candidate, text);
        leadership.resign().await.unwrap();
    }
    let election = keeper.election("texts").candidate("x".repeat(1025));
    let refused = election.campaign().await;
    assert!(matches!(refused, Err(Error::Candidate(_))), "{refused:?}");
    assert_eq!(election.leader().await, Ok(None));
    let refused = keeper.election("").observe().changed().await;
    assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
}

async fn a_closing_keeper_ends_its_terms_and_observations(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let leadership = first.election("closed").campaign().await.unwrap();
    let mut observation = first.election("closed").observe();
    assert!(observation.changed().await.unwrap().is_some());
    let observing = tokio::spawn(async move {
        loop {
            match observation.changed().await {
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    });
    assert_eq!(first.close().await.freed, ["closed"]);
    assert_eq!(leadership.state(), HoldState::Lost(LossReason::KeeperClosed));
    assert_eq!(
        soon("the end of the observation", observing).await.unwrap(),
        Error::Closed
    );
    let next = second.election("closed").try_campaign().await.unwrap();
    next.resign().await.unwrap();
}

async fn threads_lead_too(stage: Stage) {
    let (first, second) = (stage.keeper().await, stage.keeper().await);
    let lead = |keeper: Keeper, name: &'static str| {
        let keeper = lockkeeper::blocking::Keeper::from(keeper);
        move || {
            let leadership = keeper
                .election("threads")
                .candidate(name)
                .wait(SOON)
                .campaign()
                .unwrap();
            let leader = keeper.election("threads").leader().unwrap().unwrap();
            assert_eq!((leader.candidate.as_str(), leader.term), (name, leadership.term()));
            let told = keeper.election("threads").observe().changed().unwrap().unwrap();
            assert_eq!(told.term, leadership.term());
            leadership.resign().unwrap()
        }
    };
    let one = tokio::task::spawn_blocking(lead(first, "one"));
    let two = tokio::task::spawn_blocking(lead(second, "two"));
    for thread in [one, two] {
        assert_eq!(soon("a thread", thread).await.unwrap(), Unlocked::Freed);
    }
}
