use std::fmt;

/// Why a TLS connection was not made. Nothing of the user's was sent: no password, no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsFault {
    /// The server's certificate is not signed by anybody whom this side trusts: it is self-signed, or from a private authority.
    UnknownIssuer,
    /// The server's certificate is for another name than the one that was asked for.
    WrongName,
    /// The server's certificate has expired, or is not valid yet, by this machine's clock.
    OutOfDate,
    /// The port does not speak TLS.
    NotTls,
    /// The server wants a client certificate: none was shown, or it does not trust the one that was.
    ClientCertificate,
    /// Anything else.
    Other,
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownIssuer => "unknown issuer",
            Self::WrongName => "wrong name",
            Self::OutOfDate => "out of date",
            Self::NotTls => "not TLS",
            Self::ClientCertificate => "client certificate",
            Self::Other => "error",
        })
    }
}
