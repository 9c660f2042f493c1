use std::fmt;
use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::parameters::Parameters;
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::error::UrlError;

/// A copy of a request may run on the server for at most this long after it was sent.
const LONGEST_RESPONSE_LIMIT: Duration = Duration::from_secs(2);

/// Which server to use, and how long to wait for it.
///
/// ```
/// use lockkeeper::redis::RedisConfig;
/// use std::time::Duration;
///
/// let config = RedisConfig::from_url("redis://:secret@cache.example:6380/2")?
///     .response_limit(Duration::from_millis(500))?;
/// assert_eq!(format!("{config:?}"), "RedisConfig { server: \"cache.example:6380\", database: 2 }");
/// # Ok::<(), lockkeeper::UrlError>(())
/// ```
#[derive(Clone)]
pub struct RedisConfig {
    info: ConnectionInfo,
    client_name: String,
    pub(super) response_limit: Duration,
    pub(super) connect_limit: Duration,
    pub(super) heartbeat: Duration,
    pub(super) allow_anonymous: bool,
    pub(super) preloaded_scripts: bool,
    /// There if the connections are encrypted, and only then.
    #[cfg(feature = "tls")]
    pub(super) tls: Option<Tls>,
    /// Messages stay within their shard.
    pub(super) sharded: bool,
    /// Each request says that it was sent here for a slot that is on its way.
    pub(super) asking: bool,
}

impl RedisConfig {
    /// Reads `redis://user:password@host:port/database`, or `unix:///path?db=1&user=..&pass=..` (`redis+unix` is the
    /// same). Everything but the host is optional; user and password are percent-decoded. `rediss` is `redis` over TLS, by the
    /// cargo feature `tls`.
    ///
    /// Behind a `?` there can be, joined by `&`:
    ///
    /// | parameter | meaning |
    /// |---|---|
    /// | `tls-ca=FILE` | whom to trust, instead of the system's authorities |
    /// | `tls-cert=FILE`, `tls-key=FILE` | the certificate that is shown to the server, and its key |
    /// | `tls-server-name=NAME` | the name in the server's certificate, if it is not the host |
    /// | `allow-anonymous=true` | a server on another machine may be used [without credentials](Self::allow_anonymous) |
    /// | `scripts=preloaded` | scripts are [loaded by an administrator](Self::preloaded_scripts) |
    ///
    /// # Errors
    /// [`UrlError::Scheme`] for a scheme that is not supported, [`UrlError::WithoutTls`] for `rediss` without the feature,
    /// [`UrlError::Tls`] for TLS parameters on other schemes, [`UrlError::Unreadable`] for a text that is no such URL or has a
    /// parameter that is not known. The error's text holds no part of the user or the password.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let scheme = match url.split_once("://") {
            Some((scheme, _)) if is_scheme(scheme) => scheme.to_ascii_lowercase(),
            _ => return Err(unreadable("it is no URL; the form is redis://host:port")),
        };
        match scheme.as_str() {
            "redis" | "unix" | "redis+unix" | "valkey" | "valkey+unix" => {}
            "rediss" | "valkeys" if cfg!(feature = "tls") => {}
            "rediss" | "valkeys" => return Err(UrlError::WithoutTls),
            _ => return Err(UrlError::Scheme(scheme)),
        }
        let (url, said) = Parameters::split(url)?;
        let info = url.into_connection_info().map_err(|error| {
            // The first part is a fixed text of the driver's; what follows may quote the URL.
            let text = error.to_string();
            unreadable(text.split(" - ").next().unwrap_or_default())
        })?;
        Self::from_client_info(info)?.with(said)
    }

    /// Takes address, user, password and database from a client of the `redis` crate; its other settings are replaced
    /// by Lockkeeper's own.
    pub(crate) fn from_client_info(info: ConnectionInfo) -> Result<Self, UrlError> {
        if let ConnectionAddr::TcpTls { insecure: true, .. } = info.addr() {
            return Err(UrlError::Tls(
                "certificates are always verified: the client must not be an insecure one",
            ));
        }
        if !cfg!(feature = "tls") && matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(UrlError::WithoutTls);
        }
        if info.redis_settings().db() < 0 {
            return Err(unreadable("Invalid database number"));
        }
        let redis = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("lockkeeper", env!("CARGO_PKG_VERSION"));
        Ok(Self {
            #[cfg(feature = "tls")]
            tls: matches!(info.addr(), ConnectionAddr::TcpTls { .. }).then(Tls::default),
            info: info.set_redis_settings(redis).set_tcp_settings(tcp_settings()),
            client_name: "lockkeeper".to_owned(),
            response_limit: LONGEST_RESPONSE_LIMIT,
            connect_limit: Duration::from_secs(2),
            heartbeat: Duration::from_secs(1),
            allow_anonymous: false,
            preloaded_scripts: false,
            sharded: false,
            asking: false,
        })
    }

    /// The password, instead of the URL's.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        let redis = self.info.redis_settings().clone().set_password(password);
        self.info = self.info.set_redis_settings(redis);
        self
    }

    /// How long to wait for one answer: 2 seconds unless set, which is also the longest. An acquire that arrives at the
    /// server later than this after it was sent is refused there.
    ///
    /// # Errors
    /// [`UrlError::Limit`] if it is shorter than a millisecond or longer than 2 seconds.
    pub fn response_limit(mut self, limit: Duration) -> Result<Self, UrlError> {
        if limit < Duration::from_millis(1) || limit > LONGEST_RESPONSE_LIMIT {
            return Err(UrlError::Limit(
                "the response limit must be between 1 millisecond and 2 seconds",
            ));
        }
        self.response_limit = limit;
        Ok(self)
    }

    /// How long one attempt to connect may take, the handshake included: 2 seconds unless set.
    ///
    /// # Errors
    /// [`UrlError::Limit`] if it is zero.
    pub fn connect_limit(mut self, limit: Duration) -> Result<Self, UrlError> {
        if limit.is_zero() {
            return Err(UrlError::Limit("the connect limit must not be zero"));
        }
        self.connect_limit = limit;
        Ok(self)
    }

    /// How often the connection for signals is probed while somebody waits, and how long its answer may take: 1 second
    /// unless set.
    ///
    /// # Errors
    /// [`UrlError::Limit`] if it is shorter than 10 milliseconds.
    pub fn heartbeat(mut self, period: Duration) -> Result<Self, UrlError> {
        if period < Duration::from_millis(10) {
            return Err(UrlError::Limit("the heartbeat must be at least 10 milliseconds"));
        }
        self.heartbeat = period;
        Ok(self)
    }

    /// The name under which the server lists the connections: `lockkeeper` unless set. Spaces and control characters
    /// are replaced, since the server takes none.
    #[must_use]
    pub fn client_name(mut self, name: &str) -> Self {
        self.client_name = name
            .chars()
            .map(|character| if character.is_ascii_graphic() { character } else { '_' })
            .collect();
        self
    }

    /// The same for another server of the same deployment.
    pub(super) fn at(&self, host: &str, port: u16) -> Self {
        let mut config = self.clone();
        let address = match config.info.addr() {
            ConnectionAddr::TcpTls {
                insecure, tls_params, ..
            } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        config.info = config.info.set_addr(address);
        config
    }

    /// Host and port, if it is reached by the network.
    pub(super) fn host_and_port(&self) -> Option<(&str, u16)> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Some((host, *port)),
            _ => None,
        }
    }

    /// Reads `redis+cluster://user:password@host:port,host:port`, of which any may be down: one that answers tells of all
    /// the others. `rediss+cluster` is the same over TLS.
    ///
    /// # Errors
    /// Those of [`from_url`](Self::from_url), and [`UrlError::Limit`] for a database other than 0.
    pub(crate) fn from_cluster_url(url: &str) -> Result<Vec<Self>, UrlError> {
        let configs = Self::from_url_with_hosts(url)?;
        if configs.iter().any(|config| config.database() != 0) {
            return Err(UrlError::Limit("a cluster has one database, number 0"));
        }
        Ok(configs)
    }

    /// One for each host of a URL that names several, with everything else in common.
    fn from_url_with_hosts(url: &str) -> Result<Vec<Self>, UrlError> {
        let no_hosts = || unreadable("it names no hosts; the form is scheme://host:port,host:port");
        let (scheme, rest) = url.split_once("://").ok_or_else(no_hosts)?;
        let scheme = scheme.split('+').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
            None => (String::new(), authority),
        };
        if hosts.split(',').any(str::is_empty) {
            return Err(no_hosts());
        }
        hosts
            .split(',')
            .map(|host| Self::from_url(&format!("{scheme}://{credentials}{host}{path}")))
            .collect()
    }

    pub(super) fn name_on_server(&self) -> &str {
        &self.client_name
    }

    pub(super) fn connection_info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Host and port, or the path of the socket.
    pub(crate) fn server(&self) -> String {
        self.info.addr().to_string()
    }

    /// The path of the socket, if it is one.
    #[cfg(test)]
    fn socket(&self) -> Option<&std::path::PathBuf> {
        match self.info.addr() {
            ConnectionAddr::Unix(path) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn database(&self) -> i64 {
        self.info.redis_settings().db()
    }

    /// A text of the server's or the driver's, without the password and the user.
    pub(super) fn scrub(&self, text: &str) -> String {
        let redis = self.info.redis_settings();
        let mut clean = text.to_owned();
        if let Some(password) = redis.password().filter(|password| !password.is_empty()) {
            clean = clean.replace(password, "<password>");
        }
        match redis.username() {
            Some(user) if !user.is_empty() && user != "default" => replace_word(&clean, user, "<user>"),
            _ => clean,
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("server", &self.server())
            .field("database", &self.database())
            .finish()
    }
}

fn unreadable(text: &str) -> UrlError {
    UrlError::Unreadable(text.to_owned())
}

/// Whether a text may be shown as a scheme: what comes before "://" in a mistyped URL could be anything.
fn is_scheme(text: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.len() <= 16 && text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(letters)
}

/// The driver's defaults leave a silent peer undetected for minutes and small requests waiting for company.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(1))
        .with_interval(Duration::from_secs(1));
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
    let keepalive = keepalive.with_retries(3);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let settings = settings.set_user_timeout(Duration::from_secs(4));
    settings
}

fn replace_word(text: &str, word: &str, with: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        clean.push_str(before);
        let inside = before.ends_with(is_part) || after.starts_with(is_part);
        clean.push_str(if inside { word } else { with });
        rest = after;
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_url_is_read_in_full() {
        let config = RedisConfig::from_url("redis://al%69ce:p%40ss%2Fw@[::1]:7000/3").unwrap();
        let redis = config.connection_info().redis_settings();
        assert_eq!(
            (redis.username(), redis.password(), redis.db()),
            (Some("alice"), Some("p@ss/w"), 3)
        );
        assert_eq!(redis.protocol(), ProtocolVersion::RESP3);
        assert_eq!(config.server(), "::1:7000");
        assert!(config.connection_info().tcp_settings().nodelay());
    }

    #[test]
    fn sockets_are_read_in_both_spellings() {
        for url in [
            "unix:///tmp/r.sock?db=2&pass=s%2Bt",
            "redis+unix:///tmp/r.sock?db=2&pass=s%2Bt",
        ] {
            let config = RedisConfig::from_url(url).unwrap();
            assert_eq!(config.socket(), Some(&PathBuf::from("/tmp/r.sock")));
            assert_eq!(config.database(), 2);
            assert_eq!(config.connection_info().redis_settings().password(), Some("s+t"));
        }
    }

    #[test]
    fn resp3_is_forced() {
        let config = RedisConfig::from_url("redis://localhost/?protocol=resp2").unwrap();
        assert_eq!(
            config.connection_info().redis_settings().protocol(),
            ProtocolVersion::RESP3
        );
    }

    #[test]
    fn other_schemes_are_told_by_name() {
        for scheme in ["http", "redis+cluster"] {
            assert_eq!(
                RedisConfig::from_url(&format!("{scheme}://user:secret@host")).unwrap_err(),
                UrlError::Scheme(scheme.to_owned())
            );
        }
    }

    #[test]
    fn no_error_and_no_debug_text_shows_user_or_password() {
        for url in [
            "user7:hunter2@host",
            "user7:hunter2://host",
            "redis://user7:hunter2@",
            "redis://user7:hunter2@host/notanumber",
            "redis://user7:hunter2@host/-1",
            "redis://user7:hunter2@host:99999999",
            "redis://user7:hunter2@0.0.0.0",
            "redis://user7:hunter2@host?protocol=hunter2",
            "redis://user7:hunter2%ff@host",
            "",
            "redis",
        ] {
            let error = RedisConfig::from_url(url).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2") && !shown.contains("user7"), "{url}: {shown}");
        }
        let config = RedisConfig::from_url("redis://user7:hunter2@host/1").unwrap();
        assert_eq!(
            format!("{config:?}"),
            "RedisConfig { server: \"host:6379\", database: 1 }"
        );
    }

    #[test]
    fn texts_are_scrubbed() {
        let config = RedisConfig::from_url("redis://bob:hunter2@host").unwrap();
        assert_eq!(
            config.scrub("unknown command 'AUTH' 'bob' 'hunter2xhunter2', not bobby or abob: User bob"),
            "unknown command 'AUTH' '<user>' '<password>x<password>', not bobby or abob: User <user>"
        );
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let config = || RedisConfig::from_url("redis://host").unwrap();
        assert!(config().response_limit(Duration::ZERO).is_err());
        assert!(config().response_limit(Duration::from_millis(2001)).is_err());
        assert!(config().response_limit(Duration::from_secs(2)).is_ok());
        assert!(config().connect_limit(Duration::ZERO).is_err());
        assert!(config().heartbeat(Duration::from_millis(9)).is_err());
    }

    #[test]
    fn a_client_name_has_no_spaces() {
        assert_eq!(
            RedisConfig::from_url("redis://host")
                .unwrap()
                .client_name("my job\n")
                .name_on_server(),
            "my_job_"
        );
    }
}
