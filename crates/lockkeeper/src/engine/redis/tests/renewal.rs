//! Renewal in batches.

use super::*;

#[tokio::test]
async fn a_renewal_lengthens_only_its_owners_hold_and_never_shortens() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        let short = Acquire {
            lease: 5000,
            ..asking(&target, &owner)
        };
        stage.granted(&short).await;
        let batch = vec![
            renewing(&target, &super::owner()),
            renewing(&target, &owner),
            renewing(&self::target(layout, "nothing"), &owner),
        ];
        assert_eq!(
            stage.renew(batch).await.unwrap(),
            [Ok(Renewed::Gone), Ok(Renewed::Held), Ok(Renewed::Gone)]
        );
        assert!(stage.busy(&target).await.unwrap() > 25_000);
        let shorter = Renew {
            lease: 1000,
            ..renewing(&target, &owner)
        };
        assert_eq!(stage.renew(vec![shorter]).await.unwrap(), [Ok(Renewed::Held)]);
        assert!(stage.busy(&target).await.unwrap() > 25_000);
        let longer = Renew {
            lease: 40_000,
            longest: 50_000,
            ..renewing(&target, &owner)
        };
        stage.renew(vec![longer]).await.unwrap();
        assert!((35_000..=40_000).contains(&stage.busy(&target).await.unwrap()));
    }
}

#[tokio::test]
async fn a_life_beyond_the_longest_lease_is_cut_to_it() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, &format!("{layout:?}")), owner());
        for (lease, longest) in [(1000, 5000), (5000, 5000)] {
            stage.granted(&asking(&target, &owner)).await;
            let name = target.name.as_str();
            // What a server clock that stepped back leaves, and what a foreign program might.
            for words in [vec!["PEXPIRE", name, "3600000"], vec!["PERSIST", name]] {
                stage.ask::<bool>(&words).await;
                let entry = Renew {
                    lease,
                    longest,
                    ..renewing(&target, &owner)
                };
                assert_eq!(stage.renew(vec![entry]).await.unwrap(), [Ok(Renewed::Held)]);
                let left = stage.busy(&target).await.expect("a life");
                let wanted = if words[0] == "PERSIST" { lease } else { longest };
                assert!(left <= wanted && left + 900 > wanted, "{left} of {wanted}");
            }
        }
    }
}

#[tokio::test]
async fn a_late_renewal_takes_nothing_again() {
    let stage = Stage::new().await;
    for layout in BOTH {
        let (target, owner) = (target(layout, "a"), owner());
        stage.granted(&asking(&target, &owner)).await;
        stage.ask::<()>(&["FLUSHALL"]).await;
        let entry = Renew {
            refresh_token: true,
            ..renewing(&target, &owner)
        };
        assert_eq!(stage.renew(vec![entry]).await.unwrap(), [Ok(Renewed::Gone)]);
        assert!(stage.server.keys().await.is_empty());
    }
}

/// More entries than one script takes, of both layouts and several leases, in no order: each gets its own result.
#[tokio::test]
async fn a_big_batch_is_split_and_its_results_are_in_order() {
    let stage = Stage::new().await;
    let holds: Vec<_> = (0..450)
        .map(|number| {
            let layout = BOTH[number % 2];
            (target(layout, &format!("lock{number}")), owner(), number % 7 == 3)
        })
        .collect();
    for (target, owner, gone) in &holds {
        if !gone {
            stage.granted(&asking(target, owner)).await;
        }
    }
    let entries: Vec<_> = holds
        .iter()
        .enumerate()
        .map(|(number, (target, owner, _))| Renew {
            lease: [30_000, 40_000][number / 100 % 2],
            longest: 40_000,
            refresh_token: number % 3 == 0,
            ..renewing(target, owner)
        })
        .collect();
    let before = stage.engine.round_trips();
    let results = stage.renew(entries.clone()).await.unwrap();
    for (result, (target, _, gone)) in results.iter().zip(&holds) {
        let wanted = if *gone { Renewed::Gone } else { Renewed::Held };
        assert_eq!(*result, Ok(wanted), "{}", target.name);
    }
    // Each layout has 125 entries with the short lease and 100 with the long one: three scripts. Each script may find that
    // the server does not know it yet, and is loaded and run again.
    assert!(stage.engine.round_trips() - before <= 6 * 3);
    let before = stage.engine.round_trips();
    stage.renew(entries.clone()).await.unwrap();
    assert_eq!(stage.engine.round_trips() - before, 6);
    for entry in &entries {
        assert_eq!(entry.copies.open_until(), 0);
    }
}

#[tokio::test]
async fn a_thousand_holds_take_ten_scripts() {
    let stage = Stage::new().await;
    let entries: Vec<_> = (0..1000)
        .map(|number| renewing(&target(Layout::Redisson, &format!("lock{number}")), &owner()))
        .collect();
    for entry in &entries {
        stage.granted(&asking(&entry.target, &entry.owner)).await;
    }
    stage.renew(entries.clone()).await.unwrap();
    let before = stage.server.calls("evalsha").await;
    assert!(
        stage
            .renew(entries)
            .await
            .unwrap()
            .iter()
            .all(|result| *result == Ok(Renewed::Held))
    );
    assert_eq!(stage.server.calls("evalsha").await - before, 10);
}

#[tokio::test]
async fn an_empty_batch_is_answered() {
    let stage = Stage::new().await;
    assert_eq!(stage.renew(Vec::new()).await.unwrap(), []);
}
