//! `run --as` and `run --at-least`: every kind of hold by real processes, and what `show` and `unlock` say of it.

use std::time::{Duration, Instant};

use lockkeeper_testkit::RedisServer;

use crate::stage::{Background, code, ran, show, until};

/// Runs `true` at once or not at all.
fn tried(server: &RedisServer, options: &[&str], name: &str) -> i32 {
    let words = [&["run", "--wait", "0"], options, &[name, "--", "true"]].concat();
    code(&ran(server, &words))
}

#[test]
fn a_fair_lock_is_taken_in_order_and_shows_who_waits() {
    let server = RedisServer::start();
    let fair = ["--as", "fair"];
    let holder = Background::start(&server, &fair, "line").started();
    assert_eq!(tried(&server, &fair, "line"), 75);
    let second = Background::start(&server, &fair, "line");
    until("the second waits", || {
        show(&server, "line")["waiters"]
            .as_array()
            .is_some_and(|line| line.len() == 1)
    });
    let third = Background::start(&server, &fair, "line");
    until("the third waits", || {
        show(&server, "line")["waiters"]
            .as_array()
            .is_some_and(|line| line.len() == 2)
    });
    let found = show(&server, "line");
    assert_eq!((&found["kind"], &found["state"]), (&"fair".into(), &"held".into()));
    holder.let_go();
    let second = second.started();
    assert!(!third.has_started(), "out of its turn");
    second.let_go();
    let third = third.started();
    third.let_go();
    for ended in [holder, second, third] {
        assert_eq!(ended.ended().0.code(), Some(0));
    }
}

#[test]
fn readers_run_together_and_a_writer_alone() {
    let server = RedisServer::start();
    let (read, write) = (["--as", "read"], ["--as", "write"]);
    let one = Background::start(&server, &read, "prices").started();
    let two = Background::start(&server, &read, "prices").started();
    assert_eq!(tried(&server, &write, "prices"), 75);
    let found = show(&server, "prices");
    assert_eq!((&found["kind"], &found["state"]), (&"rwlock".into(), &"held".into()));
    let holders = found["holders"].as_array().unwrap();
    assert_eq!(holders.len(), 2);
    assert!(
        holders
            .iter()
            .all(|holder| holder["mode"] == "read" && holder["ttl_ms"].as_u64() > Some(20_000))
    );
    for reader in [one, two] {
        reader.let_go();
        assert_eq!(reader.ended().0.code(), Some(0));
    }
    let writer = Background::start(&server, &write, "prices").started();
    assert_eq!(
        (tried(&server, &read, "prices"), tried(&server, &write, "prices")),
        (75, 75)
    );
    assert_eq!(show(&server, "prices")["holders"][0]["mode"], "write");
    let output = ran(&server, &["unlock", "--force", "prices"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert_eq!(tried(&server, &read, "prices"), 0);
    drop(writer);
}

#[test]
fn at_most_so_many_copies_run() {
    let server = RedisServer::start();
    let permit = ["--as", "permit", "--permits", "2"];
    let one = Background::start(&server, &permit, "workers").started();
    let two = Background::start(&server, &permit, "workers").started();
    assert_eq!(tried(&server, &permit, "workers"), 75);
    // Who knows no number takes what there is.
    assert_eq!(tried(&server, &["--as", "permit"], "workers"), 75);
    let found = show(&server, "workers");
    assert_eq!((&found["kind"], &found["state"]), (&"permits".into(), &"held".into()));
    assert_eq!(found["holders"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&found["counts"]["available"], &found["counts"]["acquired"]),
        (&0.into(), &2.into())
    );
    let three = Background::start(&server, &permit, "workers");
    one.let_go();
    let three = three.started();
    for ended in [one, two, three] {
        ended.let_go();
        assert_eq!(ended.ended().0.code(), Some(0));
    }
    let found = show(&server, "workers");
    assert_eq!(
        (&found["counts"]["available"], &found["state"]),
        (&2.into(), &"free".into())
    );
}

#[test]
fn only_what_excludes_others_has_a_token() {
    let server = RedisServer::start();
    let script = "echo ${LOCKKEEPER_TOKEN-none}";
    for (kind, has_token) in [
        ("mutex", true),
        ("fair", true),
        ("write", true),
        ("read", false),
        ("permit", false),
    ] {
        let words = ["run", "--as", kind, "--permits", "1", kind, "--", "sh", "-c", script];
        let words: Vec<_> = words
            .into_iter()
            .filter(|word| kind == "permit" || !["--permits", "1"].contains(word))
            .collect();
        let output = ran(&server, &words);
        assert_eq!(code(&output), 0, "{output:?}");
        let token = String::from_utf8(output.stdout).unwrap();
        assert_eq!(token.trim().parse::<u64>().is_ok(), has_token, "{kind}: {token}");
    }
}

#[test]
fn a_name_of_another_kind_is_told() {
    let server = RedisServer::start();
    let holder = Background::start(&server, &[], "mine").started();
    for kind in ["read", "write", "permit"] {
        let output = ran(&server, &["run", "--as", kind, "mine", "--", "true"]);
        assert_eq!(code(&output), 1, "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("choose another name"), "{text}");
    }
    holder.let_go();
    assert_eq!(holder.ended().0.code(), Some(0));
}

#[test]
fn a_job_runs_once_in_a_period_and_nobody_stays_for_the_rest() {
    let server = RedisServer::start();
    for layout in ["redisson", "plain"] {
        let options = ["--layout", layout, "--at-least", "3s"];
        let words = [&["run"], &options[..], &[layout, "--", "true"]].concat();
        let before = Instant::now();
        assert_eq!(code(&ran(&server, &words)), 0);
        assert!(
            before.elapsed() < Duration::from_secs(3),
            "it did not wait for the rest"
        );
        let found = show(&server, layout);
        assert_eq!((&found["kind"], &found["state"]), (&"mutex".into(), &"resting".into()));
        assert!(found["holders"].as_array().unwrap().is_empty());
        assert!(found["resting_ms"].as_u64().is_some_and(|left| left <= 3_000));
        // Without a wait, whoever comes in between ends at once.
        let second = ran(&server, &words);
        assert_eq!(code(&second), 75, "{second:?}");
        let text = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(text.contains("in this period"), "{text}");
        assert_eq!(tried(&server, &["--layout", layout], layout), 75);
        let patient = [&["run", "--wait", "10s"], &options[..], &[layout, "--", "true"]].concat();
        assert_eq!(code(&ran(&server, &patient)), 0);
        assert!(before.elapsed() >= Duration::from_secs(3));
        assert_eq!(code(&ran(&server, &["unlock", "--force", layout])), 0);
        assert_eq!(show(&server, layout)["state"], "free");
    }
}

#[test]
fn a_job_that_cannot_start_leaves_the_period_to_others() {
    let server = RedisServer::start();
    let output = ran(
        &server,
        &["run", "--at-least", "1h", "job", "--", "no-such-command-anywhere"],
    );
    assert_eq!(code(&output), 127, "{output:?}");
    assert_eq!(show(&server, "job")["state"], "free");
}

#[test]
fn a_killed_job_costs_its_lease() {
    let server = RedisServer::start();
    let options = ["--at-least", "1h", "--fixed", "--lease", "2s"];
    let job = Background::start(&server, &options, "job").started();
    job.signal(nix::sys::signal::Signal::SIGKILL);
    assert_eq!(tried(&server, &options, "job"), 75);
    until("the end of its lease", || tried(&server, &options, "job") == 0);
}

#[test]
fn show_names_what_nobody_holds() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let keeper = lockkeeper::Keeper::connect(&server.url()).await.unwrap();
        keeper.latch("latch").try_set_count(3).await.unwrap();
        keeper.counting_semaphore("semaphore").try_set_permits(4).await.unwrap();
        let _: () = server.query(redis::cmd("RPUSH").arg("list").arg("x")).await;
    });
    for (kind, state, count) in [
        ("latch", "set", Some(("count", 3))),
        ("semaphore", "set", Some(("available", 4))),
        ("list", "set", None),
    ] {
        let found = show(&server, kind);
        assert_eq!(
            (&found["kind"], &found["state"]),
            (&kind.into(), &state.into()),
            "{found}"
        );
        if let Some((word, number)) = count {
            assert_eq!(found["counts"][word], number, "{found}");
        }
        let output = ran(&server, &["show", kind]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("kind    {kind}")), "{text}");
    }
    assert_eq!(show(&server, "nothing")["state"], "free");
}
