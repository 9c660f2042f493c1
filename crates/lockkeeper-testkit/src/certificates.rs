//! Certificates for tests, made on the spot.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// An authority of our own. Its files are removed with the last value that needs them.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: Arc<TempDir>,
    file: PathBuf,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    _folder: Arc<TempDir>,
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    /// A new authority, whom nobody trusts yet.
    ///
    /// # Panics
    ///
    /// If the files cannot be written.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names are valid names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Lockkeeper's tests");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let folder = Arc::new(folder());
        let file = folder.path().join("ca.pem");
        fs::write(&file, certificate.pem()).expect("the folder can be written to");
        Self {
            issuer: Issuer::new(params, key),
            folder,
            file,
        }
    }

    /// The file by which this authority is trusted.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// A certificate for these names and addresses, valid today.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.sign(names, |_| {})
    }

    /// A certificate that was valid once.
    #[must_use]
    pub fn issue_expired(&self, names: &[&str]) -> Identity {
        self.sign(names, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        })
    }

    fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = params(names);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity::write(Arc::clone(&self.folder), &certificate.pem(), &key)
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Identity {
    /// A certificate that nobody signed but itself.
    #[must_use]
    pub fn self_signed(names: &[&str]) -> Self {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(names).self_signed(&key).expect("a certificate");
        Self::write(Arc::new(folder()), &certificate.pem(), &key)
    }

    fn write(folder: Arc<TempDir>, certificate: &str, key: &KeyPair) -> Self {
        let number = fs::read_dir(folder.path()).map_or(0, Iterator::count);
        let identity = Self {
            certificate: folder.path().join(format!("{number}.pem")),
            key: folder.path().join(format!("{number}.key")),
            _folder: folder,
        };
        fs::write(&identity.certificate, certificate).expect("the folder can be written to");
        fs::write(&identity.key, key.serialize_pem()).expect("the folder can be written to");
        identity
    }

    /// The certificate's file.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// The key's file.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.key
    }

    /// Puts another certificate and key into the files, as a renewal does.
    ///
    /// # Panics
    ///
    /// If the files cannot be written.
    pub fn replace_by(&self, other: &Self) {
        fs::copy(&other.certificate, &self.certificate).expect("the file can be written");
        fs::copy(&other.key, &self.key).expect("the file can be written");
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("the names are valid")
}

fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("lockkeeper-certificates-")
        .tempdir()
        .expect("a folder")
}
