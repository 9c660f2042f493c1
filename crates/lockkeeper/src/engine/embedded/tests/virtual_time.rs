//! Expiry and renewal under a clock that is moved by hand: nothing here sleeps.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::name::Name;
use crate::base::owner::{Owner, OwnerSource};
use crate::engine::embedded::{EmbeddedEngine, Participant};
use crate::engine::{Acquire, Acquired, Busy, Copies, Engine, Lane, Layout, Renew, Renewed, Reply, Step, Target};

fn target(name: &str) -> Arc<Target> {
    Arc::new(Target::new(Layout::Redisson, Name::new(name).unwrap()))
}

async fn try_acquire(engine: &EmbeddedEngine, target: &Arc<Target>, owner: &Owner, lease: Duration) -> Acquired {
    let step = Step::Acquire(Acquire {
        target: Arc::clone(target),
        owner: owner.clone(),
        lease: u64::try_from(lease.as_millis()).unwrap(),
        block: 1,
        permits: 1,
        waiting: None,
        candidate: None,
        copies: Arc::new(Copies::new()),
    });
    let answer = engine.perform(Lane::Foreground, step, Duration::from_secs(1)).await;
    match answer.unwrap().reply {
        Reply::Acquired(acquired) => acquired,
        other => panic!("{other:?}"),
    }
}

async fn is_free(engine: &EmbeddedEngine, target: &Arc<Target>) -> bool {
    let name = target.name.clone();
    let answer = engine.perform(Lane::Foreground, Step::Inspect { name }, Duration::from_secs(1));
    match answer.await.unwrap().reply {
        Reply::Inspected(inspection) => inspection.holders.is_empty(),
        other => panic!("{other:?}"),
    }
}

/// A hold that is renewed every period; notes when, and whether it was still held.
#[derive(Debug)]
struct Renewing {
    target: Arc<Target>,
    owner: Owner,
    period: Duration,
    lease: Duration,
    due: Mutex<Option<Moment>>,
    renewals: Mutex<Vec<(Duration, Renewed)>>,
    began: Moment,
}

impl Renewing {
    async fn start(engine: &EmbeddedEngine, target: &Arc<Target>, period: Duration) -> Arc<Self> {
        let renewing = Arc::new(Self::of(engine, target, period).await);
        engine.enroll(Arc::downgrade(&(renewing.clone() as Arc<dyn Participant>)));
        renewing
    }

    /// Takes the hold, without taking part in virtual time yet.
    async fn of(engine: &EmbeddedEngine, target: &Arc<Target>, period: Duration) -> Self {
        let (owner, lease) = (OwnerSource::new().next(), period * 3);
        assert!(matches!(
            try_acquire(engine, target, &owner, lease).await,
            Acquired::Granted { .. }
        ));
        let began = Moment::of(&**engine.clock());
        Self {
            target: Arc::clone(target),
            owner,
            period,
            lease,
            due: Mutex::new(Some(began.plus(period))),
            renewals: Mutex::default(),
            began,
        }
    }

    fn stop(&self) {
        *self.due.lock().unwrap() = None;
    }

    fn renewals(&self) -> Vec<(Duration, Renewed)> {
        self.renewals.lock().unwrap().clone()
    }
}

impl Participant for Renewing {
    fn next_due(&self) -> Option<Moment> {
        *self.due.lock().unwrap()
    }

    fn run_due(&self, at: Moment, engine: &EmbeddedEngine) {
        let lease = u64::try_from(self.lease.as_millis()).unwrap();
        let step = Step::Renew(vec![Renew {
            target: Arc::clone(&self.target),
            owner: self.owner.clone(),
            lease,
            longest: lease,
            refresh_token: true,
            copies: Arc::new(Copies::new()),
        }]);
        let answer = engine.perform_at(at, step).unwrap();
        assert_eq!(answer.sent, at, "a due step belongs to its due moment");
        let Reply::Renewed(renewed) = answer.reply else {
            panic!("{:?}", answer.reply)
        };
        let renewed = renewed[0].clone().unwrap();
        self.renewals.lock().unwrap().push((at.since(self.began), renewed));
        *self.due.lock().unwrap() = (renewed == Renewed::Held).then(|| at.plus(self.period));
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn time_moved_by_hand_ends_a_fixed_hold() {
    let engine = EmbeddedEngine::new();
    let (target, owners) = (target("a"), OwnerSource::new());
    try_acquire(&engine, &target, &owners.next(), 10 * SECOND).await;
    tokio::time::advance(10 * SECOND - Duration::from_millis(1)).await;
    let busy = try_acquire(&engine, &target, &owners.next(), SECOND).await;
    assert_eq!(busy, Acquired::Busy(Busy::until(Some(1))));
    tokio::time::advance(Duration::from_millis(1)).await;
    let granted = try_acquire(&engine, &target, &owners.next(), SECOND).await;
    assert!(matches!(granted, Acquired::Granted { .. }), "{granted:?}");
}

#[tokio::test(start_paused = true)]
async fn time_moved_by_hand_keeps_a_renewed_hold_however_far_it_jumps() {
    let engine = EmbeddedEngine::new();
    let target = target("a");
    let renewing = Renewing::start(&engine, &target, 10 * SECOND).await;
    tokio::time::advance(3600 * SECOND).await;
    assert!(!is_free(&engine, &target).await);
    let renewals = renewing.renewals();
    assert_eq!(renewals.len(), 360);
    assert_eq!(renewals[359], (3600 * SECOND, Renewed::Held));

    renewing.stop();
    tokio::time::advance(30 * SECOND - Duration::from_millis(1)).await;
    assert!(!is_free(&engine, &target).await);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(is_free(&engine, &target).await, "its last renewal was 30 s ago");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_due_before_an_expiry_counts_and_one_after_it_does_not() {
    let engine = EmbeddedEngine::new();
    let (in_time, too_late) = (target("in time"), target("too late"));
    let kept = Renewing::start(&engine, &in_time, 10 * SECOND).await;
    let lost = Renewing::start(&engine, &too_late, 10 * SECOND).await;
    *lost.due.lock().unwrap() = Some(lost.began.plus(31 * SECOND));
    *kept.due.lock().unwrap() = Some(kept.began.plus(29 * SECOND));
    tokio::time::advance(35 * SECOND).await;
    engine.settle();
    assert_eq!(kept.renewals(), [(29 * SECOND, Renewed::Held)]);
    assert_eq!(lost.renewals(), [(31 * SECOND, Renewed::Gone)]);
}

#[tokio::test(start_paused = true)]
async fn participants_take_their_turns_in_due_order() {
    let engine = EmbeddedEngine::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    #[derive(Debug)]
    struct Noting {
        period: Duration,
        due: Mutex<Moment>,
        order: Arc<Mutex<Vec<Moment>>>,
    }
    impl Participant for Noting {
        fn next_due(&self) -> Option<Moment> {
            Some(*self.due.lock().unwrap())
        }
        fn run_due(&self, at: Moment, _: &EmbeddedEngine) {
            self.order.lock().unwrap().push(at);
            *self.due.lock().unwrap() = at.plus(self.period);
        }
    }
    let now = Moment::of(&**engine.clock());
    let participants = [3, 5, 7].map(|period| {
        let participant = Arc::new(Noting {
            period: period * SECOND,
            due: Mutex::new(now.plus(period * SECOND)),
            order: Arc::clone(&order),
        });
        engine.enroll(Arc::downgrade(&(participant.clone() as Arc<dyn Participant>)));
        participant
    });
    tokio::time::advance(105 * SECOND).await;
    engine.settle();
    let seen = order.lock().unwrap().clone();
    assert_eq!(seen.len(), 35 + 21 + 15);
    assert!(seen.is_sorted());

    drop(participants);
    tokio::time::advance(105 * SECOND).await;
    engine.settle();
    assert_eq!(order.lock().unwrap().len(), seen.len(), "the dropped ones are gone");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_due_earlier_is_not_overlooked() {
    let engine = EmbeddedEngine::new();
    let target = target("a");
    let renewing = Renewing::start(&engine, &target, 10 * SECOND).await;
    tokio::time::advance(SECOND).await;
    engine.settle();
    assert_eq!(renewing.renewals(), []);
    let sooner = renewing.began.plus(2 * SECOND);
    *renewing.due.lock().unwrap() = Some(sooner);
    engine.expect(sooner);
    tokio::time::advance(SECOND).await;
    engine.settle();
    assert_eq!(renewing.renewals(), [(2 * SECOND, Renewed::Held)]);
}

#[tokio::test(start_paused = true)]
async fn nothing_due_means_nobody_is_asked() {
    #[derive(Debug)]
    struct Counting {
        asked: AtomicUsize,
        due: Mutex<Moment>,
    }
    impl Participant for Counting {
        fn next_due(&self) -> Option<Moment> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Some(*self.due.lock().unwrap())
        }
        fn run_due(&self, at: Moment, _: &EmbeddedEngine) {
            *self.due.lock().unwrap() = at.plus(3600 * SECOND);
        }
    }
    let engine = EmbeddedEngine::new();
    let counting = Arc::new(Counting {
        asked: AtomicUsize::new(0),
        due: Mutex::new(Moment::of(&**engine.clock()).plus(500 * SECOND)),
    });
    engine.enroll(Arc::downgrade(&(counting.clone() as Arc<dyn Participant>)));
    let mut asked = Vec::new();
    for _ in 0..1000 {
        tokio::time::advance(SECOND).await;
        engine.settle();
        asked.push(counting.asked.load(Ordering::Relaxed));
    }
    asked.dedup();
    assert_eq!(asked.len(), 2, "asked once, when its time had come: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_gets_nowhere_holds_nobody_up() {
    #[derive(Debug)]
    struct Stuck(Moment, AtomicUsize);
    impl Participant for Stuck {
        fn next_due(&self) -> Option<Moment> {
            Some(self.0)
        }
        fn run_due(&self, _: Moment, engine: &EmbeddedEngine) {
            // Looking again from within neither recurses nor waits.
            assert_eq!(engine.settle(), self.0);
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let began = std::time::Instant::now();
    let engine = EmbeddedEngine::new();
    let target = target("a");
    let stuck = Arc::new(Stuck(Moment::of(&**engine.clock()), AtomicUsize::new(0)));
    engine.enroll(Arc::downgrade(&(stuck.clone() as Arc<dyn Participant>)));
    let renewing = Renewing::start(&engine, &target, 10 * SECOND).await;
    tokio::time::advance(60 * SECOND).await;
    engine.settle();
    assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
    assert_eq!(renewing.renewals().len(), 6);
    assert!(stuck.1.load(Ordering::Relaxed) >= 1);
}

#[tokio::test(start_paused = true)]
async fn much_at_one_moment_may_be_done_in_parts() {
    #[derive(Debug)]
    struct InParts {
        due: Moment,
        left: AtomicUsize,
    }
    impl Participant for InParts {
        fn next_due(&self) -> Option<Moment> {
            (self.left.load(Ordering::Relaxed) > 0).then_some(self.due)
        }
        fn run_due(&self, at: Moment, _: &EmbeddedEngine) {
            assert_eq!(at, self.due);
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let engine = EmbeddedEngine::new();
    let in_parts = Arc::new(InParts {
        due: Moment::of(&**engine.clock()).plus(SECOND),
        left: AtomicUsize::new(1000),
    });
    engine.enroll(Arc::downgrade(&(in_parts.clone() as Arc<dyn Participant>)));
    tokio::time::advance(SECOND).await;
    engine.settle();
    assert_eq!(in_parts.left.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_a_month_is_quick_and_exact() {
    let engine = EmbeddedEngine::new();
    let target = target("a");
    let renewing = Renewing::start(&engine, &target, 10 * SECOND).await;
    tokio::time::advance(30 * 24 * 3600 * SECOND).await;
    assert!(!is_free(&engine, &target).await);
    assert_eq!(renewing.renewals().len(), 30 * 24 * 360);
}

/// Stays in the middle of its first turn until it is told to go on.
#[derive(Debug)]
struct Slow {
    renewing: Arc<Renewing>,
    entered: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Participant for Slow {
    fn next_due(&self) -> Option<Moment> {
        self.renewing.next_due()
    }

    fn run_due(&self, at: Moment, engine: &EmbeddedEngine) {
        if self.entered.send(()).is_ok() {
            self.go_on.lock().unwrap().recv().ok();
        }
        self.renewing.run_due(at, engine);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_looks_while_another_thread_is_behind_never_runs_ahead_of_it() {
    let engine = Arc::new(EmbeddedEngine::new());
    let target = target("a");
    let renewing = Arc::new(Renewing::of(&engine, &target, 10 * SECOND).await);
    let (entered, was_entered) = mpsc::channel();
    let (tell, go_on) = mpsc::channel();
    let slow: Arc<dyn Participant> = Arc::new(Slow {
        renewing: Arc::clone(&renewing),
        entered,
        go_on: Mutex::new(go_on),
    });
    engine.enroll(Arc::downgrade(&slow));
    tokio::time::advance(60 * SECOND).await;
    let inspect = |engine: &EmbeddedEngine| {
        let name = target.name.clone();
        let answer = engine.perform_now(Step::Inspect { name }).unwrap();
        match answer.reply {
            Reply::Inspected(inspection) => (answer.sent.since(renewing.began), inspection.holders.len()),
            other => panic!("{other:?}"),
        }
    };

    std::thread::scope(|scope| {
        let behind = scope.spawn(|| engine.settle());
        was_entered.recv().unwrap();
        drop(was_entered);
        let meanwhile = inspect(&engine);
        let waiting = scope.spawn(|| inspect(&engine));
        tell.send(()).unwrap();
        behind.join().unwrap();
        // The first renewal was not made yet: at 60 s the hold would have looked expired.
        assert_eq!(meanwhile, (10 * SECOND, 1));
        let (moment, holders) = waiting.join().unwrap();
        assert!(holders == 1 && moment >= 10 * SECOND, "{moment:?}");
    });
    assert_eq!(inspect(&engine), (60 * SECOND, 1));
    assert_eq!(renewing.renewals().len(), 6);
}
