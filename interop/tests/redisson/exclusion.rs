//! What holds for everything that excludes: who is refused, who waits, and who is woken by whom.

use std::time::Duration;

use lockkeeper::{Keeper, Lease};
use lockkeeper_interop::holding::{Hold, Kind};

use super::stage::{LONG, Stage, ms, soon, stage};

/// What Java holds, and what we hold, that exclude each other.
#[derive(Clone, Copy)]
struct Pair {
    theirs: &'static str,
    ours: &'static str,
}

impl Pair {
    fn kind(self) -> Kind {
        self.ours.parse().unwrap()
    }

    fn name(self, test: &str) -> String {
        format!("{}-{}-{test}", self.theirs, self.ours)
    }

    async fn acquire(self, keeper: &Keeper, name: &str, wait: Option<Duration>) -> Result<Hold, lockkeeper::Error> {
        self.kind().acquire(keeper, name, wait, Lease::fixed(LONG)).await
    }
}

macro_rules! pairs {
    ($($module:ident: $theirs:literal and $ours:literal on $stage:expr;)*) => {$(
        mod $module {
            use super::*;

            const PAIR: Pair = Pair { theirs: $theirs, ours: $ours };

            #[tokio::test]
            async fn each_is_refused() {
                super::each_is_refused($stage, PAIR).await;
            }

            #[tokio::test]
            async fn each_wakes_the_other() {
                super::each_wakes_the_other($stage, PAIR).await;
            }

            #[tokio::test]
            async fn each_tells_the_holder() {
                super::each_tells_the_holder($stage, PAIR).await;
            }
        }
    )*};
}

pairs! {
    mutex: "mutex" and "mutex" on stage();
    fenced: "fenced" and "fenced" on stage();
    fenced_and_mutex: "fenced" and "mutex" on stage();
    mutex_and_fenced: "mutex" and "fenced" on stage();
    fair: "fair" and "fair" on stage();
    writers: "write" and "write" on stage();
    reader_and_writer: "read" and "write" on stage();
    writer_and_reader: "write" and "read" on stage();
    spin: "spin" and "spin" on &Stage::new();
}

async fn each_is_refused(stage: &Stage, pair: Pair) {
    let name = &pair.name("refused");
    let (java, keeper) = (stage.thread(name), stage.keeper().await);
    let theirs = pair.theirs;

    java.tell(format!("{theirs} lock {name}")).await;
    for wait in [Duration::ZERO, ms(300)] {
        let refused = pair.acquire(&keeper, name, Some(wait)).await;
        assert!(
            refused.as_ref().is_err_and(lockkeeper::Error::is_contention),
            "{refused:?}"
        );
    }
    java.tell(format!("{theirs} unlock {name}")).await;

    let hold = pair.acquire(&keeper, name, Some(Duration::ZERO)).await;
    let hold = hold.expect("Java gave it back");
    assert!(!java.ask::<bool>(format!("{theirs} tryLock {name}")).await);
    assert!(!java.ask::<bool>(format!("{theirs} tryLock {name} 300")).await);
    assert!(!java.ask::<bool>(format!("{theirs} isHeldByCurrentThread {name}")).await);
    hold.release().await.unwrap();

    assert!(
        java.ask::<bool>(format!("{theirs} tryLock {name}")).await,
        "we gave it back"
    );
    java.tell(format!("{theirs} unlock {name}")).await;
}

async fn each_wakes_the_other(stage: &Stage, pair: Pair) {
    let name = &pair.name("woken");
    let (java, keeper) = (stage.thread(name), stage.keeper().await);
    let theirs = pair.theirs;

    // No lease here ends before the test does, so only a message can be the cause of a grant (or, where there are none, a poll).
    java.tell(format!("{theirs} lock {name} 60000")).await;
    let waiter = keeper.clone();
    let waited = name.clone();
    let waiting = tokio::spawn(async move { pair.acquire(&waiter, &waited, None).await });
    stage.waiting(pair.ours, name, 1).await;
    assert!(!waiting.is_finished());
    java.tell(format!("{theirs} unlock {name}")).await;
    let mut hold = soon("a grant by Java's unlock", waiting).await.unwrap().unwrap();

    for dropped in [false, true] {
        stage.waiting_is_over(pair.ours, name).await;
        let waiting = java.start(format!("{theirs} lock {name} 60000"));
        stage.waiting(theirs, name, 1).await;
        assert!(waiting.is_under_way());
        if dropped {
            drop(hold);
        } else {
            hold.release().await.unwrap();
        }
        soon("a grant by our unlock", waiting.value::<String>()).await;
        java.tell(format!("{theirs} unlock {name}")).await;
        hold = pair.acquire(&keeper, name, None).await.unwrap();
    }
}

async fn each_tells_the_holder(stage: &Stage, pair: Pair) {
    let name = &pair.name("told");
    let (java, keeper) = (stage.thread(name), stage.keeper().await);
    let theirs = pair.theirs;

    java.tell(format!("{theirs} lock {name}")).await;
    let found = keeper.inspect(name).await.unwrap();
    let owner: String = java.ask("client owner -").await;
    assert_eq!(found.holders.len(), 1, "{found:?}");
    assert!(found.holders[0].owner.starts_with(&owner), "{found:?}, held by {owner}");
    assert_eq!(found.holders[0].holds, 1);
    assert!(
        found.holders[0]
            .time_left
            .is_some_and(|left| left <= Duration::from_secs(30))
    );
    java.tell(format!("{theirs} unlock {name}")).await;
    assert!(!keeper.inspect(name).await.unwrap().is_held());

    let hold = pair.acquire(&keeper, name, None).await.unwrap();
    let found = keeper.inspect(name).await.unwrap();
    assert_eq!(found.holders[0].owner, hold.owner());
    let left: u64 = java.ask(format!("{theirs} remainTimeToLive {name}")).await;
    assert!((30_001..=60_000).contains(&left), "{left}");
    let refused = java.attempt(format!("{theirs} unlock {name}")).await.unwrap_err();
    assert!(refused.0.starts_with("IllegalMonitorStateException"), "{refused}");
    hold.release().await.unwrap();
}
