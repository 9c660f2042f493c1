//! Each fault of the proxy against a real server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lockkeeper_testkit::real_time::timeout;
use lockkeeper_testkit::{Matcher, Proxy, RedisServer, wait_until};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, cmd};

const SOON: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(50);

struct Bed {
    server: RedisServer,
    proxy: Proxy,
}

impl Bed {
    fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.address());
        Self { server, proxy }
    }

    async fn connect(&self) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None);
        let client = Client::open(self.proxy.url()).unwrap();
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        timeout(SOON, connecting).await.unwrap().unwrap()
    }

    fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.proxy.address()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    async fn value(&self, key: &str) -> Option<i64> {
        self.server.query(cmd("GET").arg(key)).await
    }
}

async fn increment(connection: &mut MultiplexedConnection, key: &str) -> Result<i64, RedisError> {
    timeout(SOON, cmd("INCR").arg(key).query_async(connection))
        .await
        .unwrap()
}

/// Sends a request whose reply is not read here.
fn send(connection: &MultiplexedConnection, key: &'static str) -> tokio::task::JoinHandle<Result<i64, RedisError>> {
    let mut connection = connection.clone();
    tokio::spawn(async move { cmd("INCR").arg(key).query_async(&mut connection).await })
}

fn expect_text(stream: &mut TcpStream, expected: &str) {
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), expected);
}

#[tokio::test]
async fn delays_hold_up_each_way_and_do_not_add_up_over_a_pipeline() {
    let bed = Bed::new();
    let mut connection = bed.connect().await;
    let delay = Duration::from_millis(60);
    for requests in [true, false] {
        let on_increment = bed.proxy.on(Matcher::command("INCR"));
        let rule = if requests {
            on_increment.delay_requests(delay)
        } else {
            on_increment.delay_replies_with_jitter(delay, MOMENT)
        };
        let start = Instant::now();
        let mut pipeline = redis::pipe();
        for _ in 0..50 {
            pipeline.cmd("INCR").arg("a");
        }
        let _: Vec<i64> = pipeline.query_async(&mut connection).await.unwrap();
        assert!(start.elapsed() >= delay);
        assert!(start.elapsed() < delay * 50 / 2, "{:?}", start.elapsed());
        assert_eq!(rule.times_fired(), 50);
        rule.remove();
    }
    let delayed = bed.proxy.on(Matcher::any()).nth(2).delay_requests(delay);
    let start = Instant::now();
    increment(&mut connection, "a").await.unwrap();
    assert_eq!(delayed.times_fired(), 0);
    increment(&mut connection, "a").await.unwrap();
    assert!(start.elapsed() >= delay);
    increment(&mut connection, "a").await.unwrap();
    assert_eq!(delayed.times_fired(), 1);
}

#[tokio::test]
async fn held_requests_do_not_run_until_released_and_then_run_in_order() {
    let bed = Bed::new();
    let connection = bed.connect().await;
    let hold = bed.proxy.on(Matcher::command("INCR").containing("a")).hold_requests();
    let first = send(&connection, "a");
    hold.fired().await;
    let second = send(&connection, "b");
    wait_until("the second request", SOON, async || bed.proxy.requests_of("INCR") == 2).await;
    assert!(bed.server.keys().await.is_empty());
    // Another connection is not held up by what does not match.
    let mut other = bed.connect().await;
    assert_eq!(increment(&mut other, "c").await.unwrap(), 1);
    hold.release();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    assert_eq!(second.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn held_requests_run_even_if_their_client_has_left() {
    let bed = Bed::new();
    let hold = bed.proxy.on(Matcher::command("INCR")).nth(1).hold_requests();
    let mut leaver = bed.raw();
    leaver.write_all(b"INCR a\r\n").unwrap();
    hold.fired().await;
    drop(leaver);
    let mut connection = bed.connect().await;
    assert_eq!(increment(&mut connection, "a").await.unwrap(), 1);
    hold.release();
    wait_until("the late request", SOON, async || bed.value("a").await == Some(2)).await;
    wait_until("one connection", SOON, async || bed.proxy.open_connections() == 1).await;
}

#[tokio::test]
async fn held_replies_have_run_already_and_come_in_order() {
    let bed = Bed::new();
    let connection = bed.connect().await;
    let hold = bed.proxy.on(Matcher::command("INCR")).hold_replies();
    let first = send(&connection, "a");
    hold.fired().await;
    assert_eq!(bed.value("a").await, Some(1));
    let second = send(&connection, "a");
    wait_until("the second run", SOON, async || bed.value("a").await == Some(2)).await;
    assert!(!first.is_finished() && !second.is_finished());
    bed.proxy.clear();
    assert_eq!((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()), (1, 2));
}

#[tokio::test]
async fn a_hold_of_both_ways_keeps_requests_and_messages() {
    let bed = Bed::new();
    let mut listener = bed.raw();
    listener.write_all(b"SUBSCRIBE news\r\n").unwrap();
    expect_text(&mut listener, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let hold = bed.proxy.on(Matcher::subscribers()).hold();
    let reached: i64 = bed.server.query(cmd("PUBLISH").arg("news").arg("m")).await;
    assert_eq!(reached, 1);
    hold.fired().await;
    listener.write_all(b"UNSUBSCRIBE\r\n").unwrap();
    hold.fired_times(2, SOON).await;
    assert_eq!(bed.server.pubsub_channels().await, ["news"]);
    listener.set_read_timeout(Some(MOMENT)).unwrap();
    assert_eq!(listener.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
    hold.release();
    listener.set_read_timeout(Some(SOON)).unwrap();
    expect_text(&mut listener, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nm\r\n");
    expect_text(&mut listener, "*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n");
}

#[tokio::test]
async fn a_black_hole_swallows_without_a_reset_and_new_connections_work_after_it() {
    let bed = Bed::new();
    let mut connection = bed.connect().await;
    let hole = bed.proxy.on(Matcher::command("INCR")).black_hole();
    let lost = send(&connection, "a");
    hole.fired().await;
    hole.remove();
    let ping = cmd("PING");
    let after = ping.query_async::<String>(&mut connection);
    assert!(timeout(MOMENT, after).await.is_err());
    assert!(!lost.is_finished());
    assert_eq!(bed.value("a").await, None);
    let mut fresh = bed.connect().await;
    assert_eq!(increment(&mut fresh, "a").await.unwrap(), 1);
    // The client's end is not told to the server either.
    lost.abort();
    drop((connection, fresh));
    wait_until("the other connection's end", SOON, async || {
        bed.proxy.open_connections() == 1
    })
    .await;
    assert_eq!(bed.proxy.reset_all(), 1);
}

#[tokio::test]
async fn a_black_hole_swallows_messages_of_a_subscription() {
    let bed = Bed::new();
    let mut listener = bed.raw();
    listener.write_all(b"SUBSCRIBE news\r\n").unwrap();
    expect_text(&mut listener, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let hole = bed.proxy.on(Matcher::subscribers()).black_hole();
    let () = bed.server.query(cmd("PUBLISH").arg("news").arg("m")).await;
    hole.fired().await;
    // The server is killed: not even that is seen.
    bed.server.kill();
    listener.set_read_timeout(Some(MOMENT)).unwrap();
    assert_eq!(listener.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_nth_matching_reply_is_swallowed_and_its_command_has_run() {
    let bed = Bed::new();
    let mut connection = bed.connect().await;
    let lost = bed
        .proxy
        .on(Matcher::command("INCR").containing("a"))
        .nth(2)
        .swallow_reply_then_reset();
    assert_eq!(increment(&mut connection, "a").await.unwrap(), 1);
    assert_eq!(increment(&mut connection, "b").await.unwrap(), 1);
    assert_eq!(lost.times_fired(), 0);
    increment(&mut connection, "a").await.unwrap_err();
    lost.fired().await;
    assert_eq!(bed.value("a").await, Some(2));
    let mut connection = bed.connect().await;
    assert_eq!(increment(&mut connection, "a").await.unwrap(), 3);
    assert_eq!(lost.times_fired(), 1);
}

#[tokio::test]
async fn a_swallowed_reply_ends_in_a_reset_and_earlier_replies_arrive() {
    let bed = Bed::new();
    let lost = bed.proxy.on(Matcher::command("GET")).swallow_reply_then_reset();
    let mut client = bed.raw();
    client.write_all(b"INCR a\r\n").unwrap();
    expect_text(&mut client, ":1\r\n");
    client.write_all(b"GET a\r\n").unwrap();
    lost.fired().await;
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_cut_after_a_request_lets_it_run_even_on_a_frozen_server() {
    let bed = Bed::new();
    let mut client = bed.raw();
    client.write_all(b"PING\r\n").unwrap();
    expect_text(&mut client, "+PONG\r\n");
    let cut = bed.proxy.on(Matcher::command("INCR")).nth(2).cut_after_request();
    bed.server.freeze();
    client.write_all(b"INCR a\r\nINCR a\r\n").unwrap();
    cut.fired().await;
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(bed.proxy.open_connections(), 0);
    bed.server.thaw();
    wait_until("both to run", SOON, async || {
        let value = bed.value("a").await;
        if value == Some(2) { Ok(()) } else { Err(value) }
    })
    .await;
}

#[tokio::test]
async fn a_repeated_request_runs_twice_and_replies_stay_in_step() {
    let bed = Bed::new();
    let mut connection = bed.connect().await;
    let repeat = bed.proxy.on(Matcher::command("INCR")).nth(2).repeat_request();
    for expected in [1, 2, 4, 5] {
        assert_eq!(increment(&mut connection, "a").await.unwrap(), expected);
    }
    assert_eq!(repeat.times_fired(), 1);
    assert_eq!(bed.server.calls("incr").await, 5);
}

#[tokio::test]
async fn drips_reach_the_other_side_whole_but_slowly() {
    let bed = Bed::new();
    let pause = Duration::from_millis(4);
    let mut client = bed.raw();
    for requests in [true, false] {
        let on_echo = bed.proxy.on(Matcher::command("ECHO"));
        let rule = if requests {
            on_echo.drip_requests(3, pause)
        } else {
            on_echo.drip_replies(3, pause)
        };
        let start = Instant::now();
        client
            .write_all(b"*2\r\n$4\r\nECHO\r\n$20\r\nabcdefghijklmnopqrst\r\n")
            .unwrap();
        expect_text(&mut client, "$20\r\nabcdefghijklmnopqrst\r\n");
        assert!(start.elapsed() >= pause * 7, "{:?}", start.elapsed());
        rule.fired().await;
        rule.remove();
    }
}

#[tokio::test]
async fn conditions_on_the_request_and_the_connection_choose() {
    let bed = Bed::new();
    let mut first = bed.connect().await;
    let mut second = bed.connect().await;
    let number = bed.proxy.log().last().unwrap().connection;
    let on_second = bed.proxy.on(Matcher::any().on_connection(number)).black_hole();
    let on_z = bed
        .proxy
        .on(Matcher::commands(["incr", "decr"]).when(|request| request.argument(0) == "z"))
        .swallow_reply_then_reset();
    assert_eq!(increment(&mut first, "a").await.unwrap(), 1);
    assert!(
        timeout(MOMENT, cmd("PING").query_async::<String>(&mut second))
            .await
            .is_err()
    );
    increment(&mut first, "z").await.unwrap_err();
    assert_eq!((on_second.times_fired(), on_z.times_fired()), (1, 1));
    let scripted = bed.proxy.on(Matcher::scripts()).swallow_reply_then_reset();
    let mut third = bed.connect().await;
    let script = cmd("EVAL")
        .arg("return redis.call('INCR', 'a')")
        .arg(0)
        .query_async::<i64>(&mut third)
        .await;
    assert!(script.is_err());
    assert_eq!((scripted.times_fired(), bed.value("a").await), (1, Some(2)));
}

#[tokio::test(start_paused = true)]
async fn the_proxy_works_while_the_clock_of_the_test_is_paused() {
    let bed = Bed::new();
    let mut connection = bed.connect().await;
    bed.proxy.on(Matcher::any()).delay_replies(Duration::from_millis(20));
    let (real, virtually) = (Instant::now(), tokio::time::Instant::now());
    assert_eq!(increment(&mut connection, "a").await.unwrap(), 1);
    assert!(real.elapsed() >= Duration::from_millis(20));
    assert_eq!(virtually.elapsed(), Duration::ZERO);
}

#[tokio::test]
#[should_panic(expected = "to strike 1 times; it struck 0 times, matched 1")]
async fn a_fault_that_never_strikes_is_described() {
    let bed = Bed::new();
    let rule = bed.proxy.on(Matcher::command("INCR")).nth(2).swallow_reply_then_reset();
    let mut connection = bed.connect().await;
    increment(&mut connection, "a").await.unwrap();
    rule.fired_times(1, MOMENT).await;
}

#[tokio::test]
async fn pushed_messages_between_replies_do_not_shift_the_count() {
    let bed = Bed::new();
    let mut client = bed.raw();
    client
        .write_all(b"HELLO 3\r\nSUBSCRIBE news\r\nECHO ready\r\n")
        .unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"$5\r\nready\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let lost = bed.proxy.on(Matcher::any()).nth(3).swallow_reply_then_reset();
    for number in 0..2 {
        let () = bed.server.query(cmd("PUBLISH").arg("news").arg("m")).await;
        expect_text(&mut client, ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nm\r\n");
        client.write_all(format!("ECHO {number}\r\n").as_bytes()).unwrap();
        expect_text(&mut client, &format!("$1\r\n{number}\r\n"));
    }
    assert_eq!(lost.times_fired(), 0);
    client.write_all(b"ECHO 2\r\n").unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(lost.times_fired(), 1);
}
