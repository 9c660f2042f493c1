//! What comes from users and from other programs: durations, names, numbers.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper::{Error, Keeper, Layout, Lease, LeaseError, NameError, Refusal, Unlocked};
use lockkeeper_testkit::{RedisServer, wait_until};
use redis::cmd;

use super::in_both_layouts;
use super::stage::{SOON, Stage, ms, owners_and_numbers, soon};
use crate::scripts::{is_acquire, is_renewal};

in_both_layouts!(
    durations_that_are_no_lease_are_refused_before_anything_is_sent,
    accepted_leases_reach_the_server_whole,
    numbers_travel_as_decimal_text,
    the_last_tokens_are_exact_and_then_exhausted,
    a_record_that_holds_no_token_is_told_and_left_alone,
    strange_names_work_or_are_refused,
);

async fn durations_that_are_no_lease_are_refused_before_anything_is_sent(layout: Layout) {
    let stage = Stage::new(layout);
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let mutex = stage.mutex(&keeper, "lease");
    let refused = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_micros(400),
        Duration::from_micros(999),
        ms(1),
        Duration::from_micros(9_999),
        ms(30),
        Duration::from_secs(24 * 60 * 60) + Duration::from_nanos(1),
        Duration::from_secs(i64::MAX as u64),
        Duration::MAX,
    ];
    let sent = keeper.round_trips();
    for duration in refused {
        for lease in [Lease::fixed(duration), Lease::renewed(duration)] {
            let locked = mutex.clone().lease(lease).lock().await;
            assert!(matches!(locked, Err(Error::Lease(_))), "{duration:?}: {locked:?}");
            let tried = mutex.clone().lease(lease).try_lock().await;
            assert!(matches!(tried, Err(Error::Lease(_))), "{duration:?}: {tried:?}");
        }
    }
    let margin = mutex.clone().margin(Duration::MAX).lock().await;
    assert!(matches!(margin, Err(Error::Lease(LeaseError::ConsumedByMargin { .. }))));
    assert_eq!(keeper.round_trips(), sent, "nothing was sent");

    // An extension by nothing must not end the hold, nor claim success.
    let guard = mutex.lease(Lease::fixed(Duration::from_secs(20))).lock().await.unwrap();
    let sent = keeper.round_trips();
    for duration in refused {
        let extended = guard.extend(duration).await;
        assert!(matches!(extended, Err(Error::Lease(_))), "{duration:?}: {extended:?}");
    }
    assert_eq!(keeper.round_trips(), sent, "nothing was sent");
    let left = stage.left("lease").await;
    assert!((15_000..=20_000).contains(&left), "{left}");
    assert!(matches!(
        stage.mutex(&other, "lease").try_lock().await,
        Err(Error::Busy { .. })
    ));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
}

async fn accepted_leases_reach_the_server_whole(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    let day = Duration::from_secs(24 * 60 * 60);
    let accepted = [
        (Duration::from_micros(100_001), 101_u64),
        (ms(250), 250),
        (Duration::from_nanos(999_999_999), 1000),
        (day, 86_400_000),
    ];
    for (duration, expected) in accepted {
        stage.proxy.clear_log();
        let mutex = stage.mutex(&keeper, "whole").lease(Lease::fixed(duration));
        let guard = mutex.lock().await.unwrap();
        assert!(guard.remaining() < duration);
        let log = stage.proxy.log();
        let acquire = log.iter().find(|request| is_acquire(request)).unwrap();
        let (_, numbers) = owners_and_numbers(acquire);
        assert_eq!(numbers[0], expected.to_string(), "{duration:?}");
        let left = stage.left("whole").await;
        assert!(left <= i64::try_from(expected).unwrap(), "{left} for {duration:?}");
        drop(guard);
        stage.nothing_left().await;
    }
}

async fn numbers_travel_as_decimal_text(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.far_keeper(ms(2000)).await;
    let lease = Lease::renewed(ms(600));
    let guard = stage.mutex(&keeper, "digits").lease(lease).lock().await.unwrap();
    guard.extend(Duration::from_micros(1_234_567)).await.unwrap();
    wait_until("a renewal", SOON, async || stage.renewals_of(guard.owner()).len() >= 2).await;
    let is_decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut checked = 0;
    for request in stage.proxy.log() {
        if is_acquire(&request) || is_renewal(&request) {
            let (owners, numbers) = owners_and_numbers(&request);
            assert_eq!(owners, [guard.owner()]);
            for number in numbers {
                assert!(is_decimal(&number), "{number:?}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 15, "{checked}");
}

const LAST: u64 = (1 << 53) - 1;

async fn the_last_tokens_are_exact_and_then_exhausted(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.keeper().await;
    // Our own record, and Redisson's counter, which is a floor.
    for (name, key, start) in [
        (
            "ours",
            "lockkeeper_token:{ours}",
            format!("{} {} 1 x", LAST - 3, LAST - 3),
        ),
        ("peer", "redisson_lock_token:{peer}", (LAST - 3).to_string()),
    ] {
        let _: () = stage.ask(&["SET", key, &start, "PX", "600000"]).await;
        let mutex = stage.mutex(&keeper, name);
        for expected in LAST - 2..=LAST {
            let guard = mutex.lock().await.unwrap();
            assert_eq!(guard.token().get(), expected, "each number is exact");
            assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
        }
        let before: String = stage.ask(&["GET", key]).await;
        for refused in [mutex.try_lock().await, mutex.clone().wait(ms(500)).lock().await] {
            assert!(
                matches!(
                    refused,
                    Err(Error::Refused {
                        refusal: Refusal::TokenExhausted,
                        ..
                    })
                ),
                "{refused:?}"
            );
        }
        assert!(!stage.exists(name).await, "nothing is taken");
        assert_eq!(stage.ask::<String>(&["GET", key]).await, before, "nothing is written");
    }
}

async fn a_record_that_holds_no_token_is_told_and_left_alone(layout: Layout) {
    let stage = Stage::new(layout);
    let keeper = stage.keeper().await;
    let mutex = stage.mutex(&keeper, "odd");
    let record = "lockkeeper_token:{odd}";
    let peer = "redisson_lock_token:{odd}";
    for (key, text) in [
        (record, "0x10 0x10 1 x"),
        (record, "3.99 3.99 1 x"),
        (record, "-5 -5 1 x"),
        (record, ""),
        (record, "1e3 1e3 1 x"),
        (peer, "0x10"),
        (peer, "3.99"),
        (peer, "1e3"),
        (peer, " 7"),
        (peer, "nan"),
        (peer, "9007199254740993"),
        (peer, "99999999999999999999999"),
    ] {
        let _: () = stage.ask(&["SET", key, text]).await;
        let refused = mutex.try_lock().await;
        assert!(
            matches!(
                refused,
                Err(Error::Refused {
                    refusal: Refusal::TokenExhausted,
                    ..
                })
            ),
            "{text:?}: {refused:?}"
        );
        assert_eq!(stage.server.keys().await, [key], "nothing is written for {text:?}");
        assert_eq!(stage.ask::<String>(&["GET", key]).await, text);
        let _: () = stage.ask(&["DEL", key]).await;
    }
    // A record of another type is no token either.
    for key in [record, peer] {
        let _: () = stage.ask(&["RPUSH", key, "1"]).await;
        assert!(matches!(mutex.try_lock().await, Err(Error::Refused { .. })));
        assert_eq!(stage.server.keys().await, [key]);
        let _: () = stage.ask(&["DEL", key]).await;
    }
    drop(mutex.try_lock().await.unwrap());
}

async fn strange_names_work_or_are_refused(layout: Layout) {
    let stage = Stage::new(layout);
    let slots = RedisServer::builder().config("cluster-enabled", "yes").start();
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let long = "n".repeat(512);
    let wide = "é".repeat(256);
    let names = [
        " ",
        "a b c",
        "NUL\0inside",
        "line\r\nbreak\r\n$3\r\nDEL",
        "tab\tand\u{1b}[31m",
        "ключ замка",
        "鍵🔑",
        "{tag}:1",
        "before{tag}after",
        "{a}b{c}d",
        "*",
        "lock:{order:1}",
        "lockkeeper_token:x",
        long.as_str(),
        wide.as_str(),
    ];
    for name in names {
        let (first, second) = (stage.mutex(&keeper, name), stage.mutex(&other, name));
        let guard = soon("a strange lock", first.lock())
            .await
            .unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(stage.holder(name).await.as_deref(), Some(guard.owner()), "{name:?}");
        assert!(matches!(second.try_lock().await, Err(Error::Busy { .. })));
        assert!(other.inspect(name).await.unwrap().is_held());
        let waiting = tokio::spawn(async move { second.lock().await });
        wait_until("a subscriber", SOON, async || {
            !stage.server.pubsub_channels().await.is_empty()
        })
        .await;
        let mut keys = stage.server.keys().await;
        keys.extend(stage.server.pubsub_channels().await);
        let mut found = BTreeSet::new();
        for key in &keys {
            let slot: u16 = slots.query(cmd("CLUSTER").arg("KEYSLOT").arg(key)).await;
            found.insert(slot);
        }
        assert_eq!(keys.len(), 3, "lock, token and channel of {name:?}: {keys:?}");
        assert_eq!(found.len(), 1, "{name:?} is spread: {keys:?}");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
        let next = soon("the strange lock's waiter", waiting).await.unwrap().unwrap();
        assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
        stage.nothing_left().await;
        let _: () = stage.ask(&["FLUSHALL"]).await;
    }
    let sent = keeper.round_trips();
    let too_long = "n".repeat(513);
    for name in ["", "a{b", "}x", "a}b{c}", "{}", "{}x", too_long.as_str()] {
        let refused = stage.mutex(&keeper, name).lock().await;
        assert!(matches!(refused, Err(Error::Name(_))), "{name:?}: {refused:?}");
        assert!(matches!(keeper.inspect(name).await, Err(Error::Name(_))));
    }
    assert_eq!(
        keeper.mutex(&too_long).try_lock().await.unwrap_err(),
        Error::Name(NameError::TooLong {
            length: 513,
            longest: 512
        })
    );
    assert_eq!(keeper.round_trips(), sent, "nothing was sent");
}

/// Names that look like another name's helper keys are still other locks.
#[tokio::test]
async fn names_like_helper_keys_do_not_collide() {
    let stage = Stage::new(Layout::Redisson);
    let keeper: Keeper = stage.keeper().await;
    let guard = keeper.mutex("a").lock().await.unwrap();
    let twin = keeper.mutex("lockkeeper_token:{a}").try_lock().await;
    assert!(
        matches!(twin, Err(Error::WrongKind { .. })),
        "the token record of another lock is told, not overwritten: {twin:?}"
    );
    assert_eq!(guard.unlock().await, Ok(Unlocked::Freed));
    let next = keeper.mutex("a").lock().await.unwrap();
    assert_eq!(next.unlock().await, Ok(Unlocked::Freed));
}
