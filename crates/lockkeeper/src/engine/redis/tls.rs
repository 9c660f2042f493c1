//! TLS: whom a connection trusts and what it shows, and what its failures mean.
//!
//! Certificates are always verified; there is no way to switch that off. Files are read for each new connection, so that a
//! certificate that was renewed on disk is used without a restart.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redis::io::AsyncDNSResolver;
use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, RedisError, RedisFuture, TlsCertificates};
use rustls::{AlertDescription, CertificateError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::error::{TlsFault, UrlError};

/// What `rediss` connections have beside an address and credentials.
#[derive(Clone, Default)]
pub(super) struct Tls {
    /// The authorities that are trusted, instead of the system's.
    pub(super) ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    /// The name in the server's certificate, if it is not the host that is connected to.
    pub(super) server_name: Option<String>,
}

impl Tls {
    /// A client of the driver's with the files as they are now.
    pub(super) fn client(&self, info: &ConnectionInfo) -> Result<Client, UrlError> {
        choose_provider();
        let mut info = info.clone();
        if let (Some(name), ConnectionAddr::TcpTls { port, tls_params, .. }) = (&self.server_name, info.addr()) {
            let address = ConnectionAddr::TcpTls {
                host: name.clone(),
                port: *port,
                insecure: false,
                tls_params: tls_params.clone(),
            };
            info = info.set_addr(address);
        }
        // A client of the user's own may have brought its certificates along.
        if self.ca.is_none() && self.identity.is_none() {
            return Client::open(info).map_err(|error| UrlError::Certificate(error.to_string()));
        }
        let client_tls = match &self.identity {
            Some((certificate, key)) => Some(ClientTlsConfig {
                client_cert: read(certificate)?,
                client_key: read(key)?,
            }),
            None => None,
        };
        let root_cert = self.ca.as_deref().map(read).transpose()?;
        let certificates = TlsCertificates { client_tls, root_cert };
        // The driver's text tells what is wrong with a file, and quotes nothing of it.
        Client::build_with_tls(info, certificates)
            .map_err(|error| UrlError::Certificate(format!("a TLS file cannot be used: {error}")))
    }

    /// Finds the host where the certificate's name is another one.
    pub(super) fn resolver(&self, info: &ConnectionInfo) -> Option<Resolver> {
        self.server_name.as_ref()?;
        Some(Resolver {
            host: host_and_port(info)?.0.to_owned(),
        })
    }
}

fn read(path: impl AsRef<Path>) -> Result<Vec<u8>, UrlError> {
    let path = path.as_ref();
    let text = std::fs::read(path).map_err(|error| UrlError::Certificate(format!("{}: {error}", path.display())))?;
    if text.is_ascii() && !text.is_empty() {
        return Ok(text);
    }
    Err(UrlError::Certificate(format!("{}: it is no PEM file", path.display())))
}

/// The driver takes the process's provider of cryptography. A program that has chosen one keeps it; without this, a
/// program in which two are compiled would end in a panic.
fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else was faster: then there is one.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

fn host_and_port(info: &ConnectionInfo) -> Option<(&str, u16)> {
    match info.addr() {
        ConnectionAddr::TcpTls { host, port, .. } => Some((host, *port)),
        _ => None,
    }
}

/// Resolves one host, whatever name it is asked for.
pub(super) struct Resolver {
    host: String,
}

impl AsyncDNSResolver for Resolver {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _name: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((&*self.host, port)).await?.collect();
            Ok(Box::new(found.into_iter()) as _)
        })
    }
}

/// Ends when the port has answered in plain text, and else never. A server that takes the greeting of TLS for half a line
/// says nothing at all, so after `delay` it is asked in its own words, without credentials.
pub(super) async fn answers_in_plain_text(info: &ConnectionInfo, delay: Duration) {
    tokio::time::sleep(delay).await;
    let ask = async {
        let mut stream = tokio::net::TcpStream::connect(host_and_port(info)?).await.ok()?;
        stream.write_all(b"PING\r\n").await.ok()?;
        matches!(stream.read_u8().await.ok()?, b'+' | b'-').then_some(())
    };
    if ask.await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Why TLS failed, if it was TLS that failed and not the network.
pub(super) fn fault(error: &RedisError) -> Option<TlsFault> {
    // The driver gives away the shared pointer that it holds, not what is in it.
    let shared: &Shared = error.source()?.downcast_ref()?;
    if shared.is::<rustls::pki_types::InvalidDnsNameError>() {
        return Some(TlsFault::WrongName);
    }
    let inside = shared.downcast_ref::<std::io::Error>()?.get_ref()?;
    inside.downcast_ref().map(class)
}

/// As which the driver keeps an error that is not its own.
type Shared = Arc<dyn Error + Send + Sync>;

fn class(error: &rustls::Error) -> TlsFault {
    match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => TlsFault::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => TlsFault::WrongName,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => TlsFault::OutOfDate,
            // "CaUsedAsEndEntity": what self-signed certificates made in one command usually are.
            CertificateError::Other(_) => TlsFault::UnknownIssuer,
            _ => TlsFault::Other,
        },
        rustls::Error::InvalidMessage(_) => TlsFault::NotTls,
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            // A signature that does not fit: another authority of the same name.
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied,
        ) => TlsFault::ClientCertificate,
        _ => TlsFault::Other,
    }
}

/// What can be done about it.
pub(super) fn remedy(fault: TlsFault) -> &'static str {
    match fault {
        TlsFault::UnknownIssuer => {
            "name the certificate of the authority that signed the server's with tls-ca=FILE in the URL, or RedisConfig::tls_ca"
        }
        TlsFault::WrongName => {
            "connect by a name that is in the server's certificate, or tell the name with tls-server-name=NAME"
        }
        TlsFault::OutOfDate => "renew the server's certificate, or set this machine's clock",
        TlsFault::NotTls => {
            "use redis:// if this server is to be spoken to in plain text, or the port on which it speaks TLS"
        }
        TlsFault::ClientCertificate => {
            "show a certificate that the server trusts with tls-cert=FILE and tls-key=FILE, or let it ask for none \
             (tls-auth-clients)"
        }
        TlsFault::Other => "look at the server's log, and at the versions of TLS that it allows",
    }
}
