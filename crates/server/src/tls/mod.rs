//! TLS: certificates, and a socket that speaks it.
//!
//! A session lies between the socket and its connection (`socket.rs`). It reads and writes in the event loop as a plain
//! socket does, and never waits: what the kernel does not take, and what of a record has not arrived, stays in the
//! session until the socket is ready again. Certificates are read when the server starts, and again when it is told to
//! (`CONFIG SET`, SIGHUP); connections that are open keep theirs.

mod read_ahead;
mod socket;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everleaf::regular_file::read_regular;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

pub use read_ahead::ReadAhead;
pub use socket::TlsSocket;

/// A longer file holds no certificates.
const FILE_SIZE_MAX: u64 = 16 << 20;

/// How a server speaks TLS.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The TCP port; 0 lets the system choose.
    pub port: u16,
    /// Where certificates are, and whether clients must show one.
    pub files: TlsFiles,
    /// Connections that have not shown by then that they speak TLS are closed.
    pub handshake_timeout: Duration,
}

/// Where certificates are, and whether clients must show one. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// The certificate of the server, followed by those that lead to one that clients know.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Certificates of the authorities that may sign certificates of clients.
    pub client_authorities: Option<PathBuf>,
    /// Whether clients must show a certificate. `None` is what was never said: they must if an authority is named that
    /// signs them, which may be named while the server runs.
    pub client_certificates: Option<ClientCertificates>,
}

impl TlsFiles {
    /// Whether clients must show a certificate, said or not.
    pub fn wanted(&self) -> ClientCertificates {
        self.client_certificates.unwrap_or(match self.client_authorities {
            Some(_) => ClientCertificates::Required,
            None => ClientCertificates::No,
        })
    }
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientCertificates {
    /// Nobody is asked.
    No,
    /// One that is shown must be valid.
    Optional,
    /// Without a valid one nobody is served.
    Required,
}

impl ClientCertificates {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            ClientCertificates::No => "no",
            ClientCertificates::Optional => "optional",
            ClientCertificates::Required => "yes",
        }
    }

    /// What a word stands for.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let all =
            [ClientCertificates::No, ClientCertificates::Optional, ClientCertificates::Required];
        all.into_iter().find(|it| it.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The certificates in use, which can be exchanged. Thread-safe.
pub struct Tls {
    state: Mutex<LoadedCertificates>,
    /// Held from looking at what is in use to exchanging it, while files are read: what another one changes meanwhile
    /// would be undone. It is the first lock that is taken.
    changing: Mutex<()>,
}

/// Certificates that were read and fit together.
#[derive(Clone)]
pub struct LoadedCertificates {
    files: TlsFiles,
    config: Arc<ServerConfig>,
}

impl LoadedCertificates {
    /// Reads the files. The error is a sentence that names the file.
    pub fn read(files: TlsFiles) -> Result<Self, String> {
        let config = load(&files)?;
        Ok(LoadedCertificates { files, config })
    }

    /// Where they were read.
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files()).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files. The error is a sentence that names the file.
    pub fn load(files: TlsFiles) -> Result<Self, String> {
        let state = Mutex::new(LoadedCertificates::read(files)?);
        Ok(Tls { state, changing: Mutex::new(()) })
    }

    /// Lets nobody else change what is in use, from looking at it until it is exchanged.
    pub fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses these from now on, behind [`Self::begin_change`].
    pub fn exchange(&self, ready: LoadedCertificates) {
        *self.state() = ready;
    }

    /// Reads the files in use again. If one of them cannot be used, nothing changes.
    pub fn reload(&self) -> Result<(), String> {
        let _changing = self.begin_change();
        self.exchange(LoadedCertificates::read(self.files())?);
        Ok(())
    }

    /// The files in use.
    pub fn files(&self) -> TlsFiles {
        self.state().files.clone()
    }

    /// What a new connection is served with.
    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.state().config)
    }

    /// A panic elsewhere cannot have left it half changed.
    fn state(&self) -> MutexGuard<'_, LoadedCertificates> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(&files.certificate, "tls-cert-file")?;
    let key = PrivateKeyDer::from_pem_slice(&contents(&files.key, "tls-key-file")?)
        .map_err(|error| unreadable("tls-key-file", &files.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong = |error: rustls::Error| {
        format!(
            "the certificate {} and the key {} cannot be used: {error}",
            files.certificate.display(),
            files.key.display()
        )
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(wrong)?;
    let builder = match (files.wanted(), &files.client_authorities) {
        (ClientCertificates::No, None) => builder.with_no_client_auth(),
        (wanted, None) => {
            return Err(format!(
                "tls-auth-clients is {}, and no authority is named that signs the certificates of clients: \
                 give --tls-ca-cert-file, or --tls-auth-clients no",
                wanted.name()
            ));
        }
        (wanted, Some(file)) => {
            let mut roots = RootCertStore::empty();
            let refused = |what: &dyn fmt::Display| {
                format!("tls-ca-cert-file {} cannot be used: {what}", file.display())
            };
            for certificate in certificates(file, "tls-ca-cert-file")? {
                roots.add(certificate).map_err(|error| refused(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match wanted {
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            let verifier = verifier.build().map_err(|error| refused(&error))?;
            match wanted {
                // The file was read all the same: nobody is to believe in one that cannot be used.
                ClientCertificates::No => builder.with_no_client_auth(),
                _ => builder.with_client_cert_verifier(verifier),
            }
        }
    };
    Ok(Arc::new(builder.with_single_cert(chain, key).map_err(wrong)?))
}

/// What is in a file, whose name a client may have given.
fn contents(file: &Path, name: &str) -> Result<Vec<u8>, String> {
    read_regular(file, FILE_SIZE_MAX)
        .map_err(|error| format!("{name}: {} cannot be read: {error}", file.display()))
}

/// The certificates in a file, of which there must be one.
fn certificates(file: &Path, name: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let contents = contents(file, name)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&contents).collect();
    let all = all.map_err(|error| unreadable(name, file, &error))?;
    match all.is_empty() {
        true => Err(format!("{name}: {} has no certificate: it must be PEM", file.display())),
        false => Ok(all),
    }
}

fn unreadable(name: &str, file: &Path, error: &pem::Error) -> String {
    let file = file.display();
    match error {
        pem::Error::Io(error) => format!("{name}: {file} cannot be read: {error}"),
        pem::Error::NoItemsFound => format!("{name}: {file} has no such part: it must be PEM"),
        other => format!("{name}: {file} is not PEM: {other}"),
    }
}
