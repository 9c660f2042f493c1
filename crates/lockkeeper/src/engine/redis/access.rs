//! What a configuration says about trust: TLS, and servers that ask for no credentials.

use std::net::IpAddr;
#[cfg(feature = "tls")]
use std::path::PathBuf;

use redis::{AsyncConnectionConfig, Client, ConnectionAddr};

use super::config::RedisConfig;
use super::parameters::Parameters;
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::error::UrlError;

impl RedisConfig {
    /// The certificates of the authorities that are trusted, in a PEM file, instead of the system's. The file is read again for
    /// each new connection. In a URL: `tls-ca=FILE`.
    ///
    /// # Errors
    /// [`UrlError::Tls`] if the URL's scheme was not `rediss`.
    #[cfg(feature = "tls")]
    pub fn tls_ca(self, file: impl Into<PathBuf>) -> Result<Self, UrlError> {
        self.with_tls(|tls| tls.ca = Some(file.into()))
    }

    /// The certificate that is shown to the server, and its key, as PEM files, which are read again for each new connection.
    /// In a URL: `tls-cert=FILE&tls-key=FILE`.
    ///
    /// # Errors
    /// [`UrlError::Tls`] if the URL's scheme was not `rediss`.
    #[cfg(feature = "tls")]
    pub fn tls_client_certificate(
        self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, UrlError> {
        self.with_tls(|tls| tls.identity = Some((certificate.into(), key.into())))
    }

    /// The name that the server's certificate must be for, if it is not the URL's host. In a URL: `tls-server-name=NAME`.
    ///
    /// # Errors
    /// [`UrlError::Tls`] if the URL's scheme was not `rediss`.
    #[cfg(feature = "tls")]
    pub fn tls_server_name(self, name: impl Into<String>) -> Result<Self, UrlError> {
        self.with_tls(|tls| tls.server_name = Some(name.into()))
    }

    #[cfg(feature = "tls")]
    fn with_tls(mut self, change: impl FnOnce(&mut Tls)) -> Result<Self, UrlError> {
        change(self.tls.as_mut().ok_or(PLAIN)?);
        Ok(self)
    }

    /// Whether a server on another machine may be used without a password or a client certificate. Unless allowed,
    /// connecting to one is an error: whoever reaches such a server can take and free every lock. In a URL:
    /// `allow-anonymous=true`.
    #[must_use]
    pub fn allow_anonymous(mut self, allowed: bool) -> Self {
        self.allow_anonymous = allowed;
        self
    }

    /// Whether the scripts are loaded by an administrator (`lockkeeper scripts load`) and never by this keeper, which then
    /// needs neither `EVAL` nor `SCRIPT LOAD`. A script that is missing is an error:
    /// [`Refusal::ScriptMissing`](crate::Refusal::ScriptMissing). In a URL: `scripts=preloaded`.
    ///
    /// A restarted server, a replica that took over, and `SCRIPT FLUSH` know no scripts: they must be loaded again.
    #[must_use]
    pub fn preloaded_scripts(mut self, preloaded: bool) -> Self {
        self.preloaded_scripts = preloaded;
        self
    }

    /// Takes in what a URL said beside the address.
    pub(super) fn with(mut self, said: Parameters) -> Result<Self, UrlError> {
        if let Some(allowed) = said.allow_anonymous {
            self = self.allow_anonymous(allowed);
        }
        if let Some(preloaded) = said.preloaded_scripts {
            self = self.preloaded_scripts(preloaded);
        }
        let identity = match (said.tls_cert, said.tls_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err(UrlError::Tls("tls-cert and tls-key belong together: give both or none")),
        };
        if said.tls_ca.is_none() && said.tls_server_name.is_none() && identity.is_none() {
            return Ok(self);
        }
        #[cfg(feature = "tls")]
        return self.with_tls(|tls| {
            *tls = Tls {
                ca: said.tls_ca,
                identity,
                server_name: said.tls_server_name,
            }
        });
        #[cfg(not(feature = "tls"))]
        Err(PLAIN)
    }

    /// Refuses an open server on another machine, unless that is wanted.
    ///
    /// # Errors
    /// [`UrlError::Anonymous`].
    pub(super) fn check_credentials(&self) -> Result<(), UrlError> {
        let (ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. }) = self.connection_info().addr() else {
            return Ok(());
        };
        let password = self.connection_info().redis_settings().password();
        let known = password.is_some_and(|password| !password.is_empty()) || self.shows_certificate();
        if known || self.allow_anonymous || is_loopback(host) {
            return Ok(());
        }
        Err(UrlError::Anonymous(self.server()))
    }

    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self.connection_info().addr(), ConnectionAddr::TcpTls { .. })
    }

    #[cfg(feature = "tls")]
    fn shows_certificate(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.identity.is_some())
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "the other build looks")]
    fn shows_certificate(&self) -> bool {
        false
    }

    /// A client of the driver's; its certificates are those that are on disk now.
    pub(super) fn client(&self) -> Result<Client, UrlError> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.client(self.connection_info());
        }
        Client::open(self.connection_info().clone())
            .map_err(|error| UrlError::Unreadable(self.scrub(&error.to_string())))
    }

    /// How the driver connects. Limits are ours, not the driver's: every call is bounded by its caller's time.
    pub(super) fn connection_config(&self) -> AsyncConnectionConfig {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        #[cfg(feature = "tls")]
        if let Some(resolver) = self.tls.as_ref().and_then(|tls| tls.resolver(self.connection_info())) {
            return config.set_dns_resolver(resolver);
        }
        config
    }
}

const PLAIN: UrlError = UrlError::Tls("TLS settings need a rediss:// URL: this one is in plain text");

fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> RedisConfig {
        RedisConfig::from_url(url).unwrap()
    }

    #[test]
    fn an_open_server_elsewhere_is_refused_unless_that_is_wanted() {
        for url in [
            "redis://cache.example",
            "redis://10.0.0.7:6380/1",
            "redis://[2001:db8::1]",
            "redis://bob@cache.example",
            "rediss://cache.example?tls-ca=/ca.pem",
            "redis://localhost.example",
        ] {
            let error = config(url).check_credentials().unwrap_err();
            assert!(matches!(error, UrlError::Anonymous(_)), "{url}");
            assert!(error.to_string().contains("allow-anonymous=true"), "{error}");
            let parameter = if url.contains('?') { '&' } else { '?' };
            assert!(
                config(&format!("{url}{parameter}allow-anonymous=true"))
                    .check_credentials()
                    .is_ok()
            );
            assert!(config(url).allow_anonymous(true).check_credentials().is_ok());
            assert!(config(url).password("hunter2").check_credentials().is_ok());
        }
    }

    #[test]
    fn a_server_on_this_machine_may_be_open() {
        for url in [
            "redis://127.0.0.1",
            "redis://127.8.0.1:7000",
            "redis://[::1]",
            "redis://[::ffff:127.0.0.1]",
            "redis://LocalHost",
            "unix:///r.sock",
        ] {
            assert_eq!(config(url).check_credentials(), Ok(()), "{url}");
        }
        let known = "rediss://cache.example?tls-cert=/c.pem&tls-key=/k.pem";
        assert_eq!(config(known).check_credentials(), Ok(()));
    }

    #[test]
    fn tls_settings_are_for_tls_alone() {
        for url in [
            "redis://host?tls-ca=/ca.pem",
            "redis://host?tls-server-name=a",
            "unix:///r.sock?tls-cert=/c&tls-key=/k",
            "rediss://host?tls-cert=/c",
            "rediss://host?tls-key=/k",
        ] {
            assert!(matches!(RedisConfig::from_url(url), Err(UrlError::Tls(_))), "{url}");
        }
        assert_eq!(config("redis://host").tls_ca("/ca.pem").unwrap_err(), PLAIN);
        assert!(config("rediss://host").tls_ca("/ca.pem").is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_told_by_its_path() {
        let folder = std::env::temp_dir();
        for url in [
            "rediss://localhost?tls-ca=/no/such/ca.pem".to_owned(),
            format!("rediss://localhost?tls-ca={}", folder.display()),
        ] {
            let error = config(&url).client().unwrap_err();
            assert!(
                matches!(&error, UrlError::Certificate(text) if text.contains('/')),
                "{error}"
            );
        }
    }
}
