//! TLS against a real server: what is trusted, what is not, and that nothing falls back to plain text.

use std::time::Duration;

use lockkeeper::redis::RedisConfig;
use lockkeeper::{Effect, Error, Keeper, Lease, TlsFault, UrlError};
use lockkeeper_testkit::{Authority, Identity, RedisServer, wait_until};

const SECRET: &str = "hunter2-canary";
const PATIENCE: Duration = Duration::from_secs(10);

/// A server with a password and a port for TLS; `None` if there is no such server here.
struct Bed {
    authority: Authority,
    client: Identity,
    server: RedisServer,
}

impl Bed {
    fn new() -> Option<Self> {
        Self::showing(|authority| authority.issue(&["localhost", "127.0.0.1"]))
    }

    fn showing(identity: impl FnOnce(&Authority) -> Identity) -> Option<Self> {
        let builder = RedisServer::builder().password(SECRET);
        builder.can_speak_tls().then_some(())?;
        let authority = Authority::new();
        let identity = identity(&authority);
        Some(Self {
            client: authority.issue(&["a client"]),
            server: builder.tls(&identity, &authority).start(),
            authority,
        })
    }

    fn ca(&self) -> String {
        format!("tls-ca={}", self.authority.file().display())
    }

    fn identity(&self) -> String {
        let (certificate, key) = (self.client.certificate(), self.client.key());
        format!("tls-cert={}&tls-key={}", certificate.display(), key.display())
    }

    fn url(&self, host: &str, parameters: &[String]) -> String {
        let port = self.server.tls_address().port();
        format!("rediss://:{SECRET}@{host}:{port}/?{}", parameters.join("&"))
    }

    fn good_url(&self) -> String {
        self.url("localhost", &[self.ca(), self.identity()])
    }

    /// Connects, which must fail for this reason, and tells how.
    async fn fault(&self, url: &str) -> (TlsFault, String) {
        let error = Keeper::connect(url).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(SECRET), "{shown}");
        assert_eq!(error.effect(), Effect::None);
        match error {
            Error::Tls { fault, detail } => (fault, detail),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_lock_is_held_and_waited_for_over_tls() {
    let Some(bed) = Bed::new() else { return };
    let first = Keeper::connect(&bed.good_url()).await.unwrap();
    let second = Keeper::connect(&bed.good_url()).await.unwrap();
    let lease = Lease::renewed(Duration::from_millis(900));
    let guard = first.mutex("a").lease(lease).lock().await.unwrap();

    let waiting = tokio::spawn(async move { second.mutex("a").wait(PATIENCE).lock().await });
    wait_until("a subscriber", PATIENCE, async || {
        match bed.server.pubsub_channels().await {
            channels if channels.len() == 1 => Ok(()),
            channels => Err(channels),
        }
    })
    .await;
    let port = format!(":{}", bed.server.tls_address().port());
    let clients = bed.server.client_list().await;
    let ours: Vec<_> = clients.iter().filter(|client| client.name() == "lockkeeper").collect();
    assert!(ours.len() >= 4, "two keepers, of which one listens: {clients:?}");
    assert!(
        ours.iter().all(|client| client.field("laddr").ends_with(&port)),
        "every connection is encrypted: {clients:?}"
    );
    assert!(ours.iter().any(|client| client.subscriptions() == 1));

    // Renewed over its own connection: it outlives its first lease.
    let renewed = guard.remaining();
    wait_until("a renewal", PATIENCE, async || {
        (guard.remaining() > renewed).then_some(()).ok_or(())
    })
    .await;
    guard.unlock().await.unwrap();
    waiting.await.unwrap().unwrap().unlock().await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused_and_the_way_out_is_told() {
    let Some(bed) = Bed::showing(|_| Identity::self_signed(&["localhost"])) else {
        return;
    };
    // Neither by the system's authorities nor by one of our own.
    for url in [bed.url("localhost", &[bed.identity()]), bed.good_url()] {
        let (fault, text) = bed.fault(&url).await;
        assert_eq!(fault, TlsFault::UnknownIssuer, "{text}");
        assert!(text.contains("tls-ca=FILE") && text.contains("localhost"), "{text}");
    }
    // What is signed by a private authority is no better without it.
    let bed = Bed::new().unwrap();
    let (fault, _) = bed.fault(&bed.url("localhost", &[bed.identity()])).await;
    assert_eq!(fault, TlsFault::UnknownIssuer);
}

#[tokio::test]
async fn the_name_must_be_the_certificates() {
    let Some(bed) = Bed::showing(|authority| authority.issue(&["redis.internal"])) else {
        return;
    };
    for host in ["localhost", "127.0.0.1"] {
        let (fault, text) = bed.fault(&bed.url(host, &[bed.ca(), bed.identity()])).await;
        assert_eq!(fault, TlsFault::WrongName, "{text}");
        assert!(text.contains("tls-server-name"), "{text}");
    }
    let wrong = bed.url(
        "localhost",
        &[bed.ca(), bed.identity(), "tls-server-name=other.internal".to_owned()],
    );
    assert_eq!(bed.fault(&wrong).await.0, TlsFault::WrongName);

    let right = bed.url(
        "127.0.0.1",
        &[bed.ca(), bed.identity(), "tls-server-name=redis.internal".to_owned()],
    );
    let keeper = Keeper::connect(&right).await.unwrap();
    keeper.mutex("a").lock().await.unwrap().unlock().await.unwrap();
}

#[tokio::test]
async fn an_expired_certificate_is_told_as_such() {
    let Some(bed) = Bed::showing(|authority| authority.issue_expired(&["localhost"])) else {
        return;
    };
    let (fault, text) = bed.fault(&bed.good_url()).await;
    assert_eq!(fault, TlsFault::OutOfDate, "{text}");
}

#[tokio::test]
async fn a_client_without_a_certificate_that_the_server_trusts_is_told_to_show_one() {
    let Some(bed) = Bed::new() else { return };
    let stranger = Authority::new().issue(&["a stranger"]);
    let strange = format!(
        "tls-cert={}&tls-key={}",
        stranger.certificate().display(),
        stranger.key().display()
    );
    // Again and again: the server's word must not be lost to the end of the connection.
    for _ in 0..20 {
        for parameters in [vec![bed.ca()], vec![bed.ca(), strange.clone()]] {
            let (fault, text) = bed.fault(&bed.url("localhost", &parameters)).await;
            assert_eq!(fault, TlsFault::ClientCertificate, "{text}");
            assert!(text.contains("tls-cert=FILE"), "{text}");
        }
    }
    // Files that are renewed are used without a new keeper.
    let keeper = Keeper::connect(&bed.good_url()).await.unwrap();
    keeper.mutex("a").lock().await.unwrap().unlock().await.unwrap();
    bed.client.replace_by(&stranger);
    let again = Keeper::connect(&bed.good_url()).await.unwrap_err();
    assert!(matches!(again, Error::Tls { .. }), "{again:?}");
    bed.client.replace_by(&bed.authority.issue(&["renewed"]));
    let mut admin = bed.server.connection().await;
    let _: u64 = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
        .query_async(&mut admin)
        .await
        .unwrap();
    keeper
        .mutex("a")
        .wait(PATIENCE)
        .lock()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

#[tokio::test]
async fn plain_text_and_tls_are_not_mistaken_for_each_other() {
    let Some(bed) = Bed::new() else { return };
    let plain = bed.server.address().port();
    let url = format!("rediss://:{SECRET}@localhost:{plain}/?{}", bed.ca());
    let (fault, text) = bed.fault(&url).await;
    assert_eq!(fault, TlsFault::NotTls, "{text}");
    assert!(text.contains("redis://"), "{text}");

    let url = format!("redis://:{SECRET}@localhost:{}", bed.server.tls_address().port());
    let error = Keeper::connect(&url).await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("rediss://") && !text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_dead_tls_server_is_unreachable_and_no_fault_of_tls() {
    let Some(bed) = Bed::new() else { return };
    bed.server.freeze();
    let config = RedisConfig::from_url(&bed.good_url())
        .unwrap()
        .connect_limit(Duration::from_millis(300))
        .unwrap();
    let error = Keeper::builder().connect_with(config).await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
    bed.server.thaw();
    bed.server.kill();
    let error = Keeper::connect(&bed.good_url()).await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
}

#[tokio::test]
async fn bad_files_and_bad_settings_are_told_before_connecting() {
    let Some(bed) = Bed::new() else { return };
    for parameter in [
        "tls-ca=/no/such/file".to_owned(),
        // A key where a certificate should be.
        format!("tls-cert={0}&tls-key={0}", bed.client.certificate().display()),
    ] {
        let error = Keeper::connect(&bed.url("localhost", &[parameter])).await.unwrap_err();
        assert!(matches!(&error, Error::Url(UrlError::Certificate(_))), "{error:?}");
        assert!(!format!("{error} {error:?}").contains(SECRET));
    }
    let error = Keeper::connect(&format!("{}#insecure", bed.good_url()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("always verified"), "{error}");
}
