//! The settings of TLS, and when their files are read.
//!
//! While a transaction with `CONFIG` is run nobody else is served, and nobody is to wait for the disk that has these
//! files. So they are read before it is run ([`ReadAhead`](crate::tls::ReadAhead)), and looked up when the command is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::context::{Context, Later};
use crate::failure::Failure;
use crate::tls::{ClientCertificates, LoadedCertificates, TlsFiles};

/// The files of TLS, as they are to be.
pub struct Certificates {
    /// `None` without TLS.
    files: Option<TlsFiles>,
    is_changed: bool,
}

impl Certificates {
    /// Those that are used, or will be when the transaction is done that this is a part of.
    pub fn of(context: &Context<'_>) -> Self {
        let changed = context.later.as_ref().and_then(|later| later.tls_files.clone());
        let used = || context.shared.control.tls.as_ref().map(|tls| tls.files());
        Certificates::new(changed.or_else(used))
    }

    /// These, with nothing changed yet.
    pub fn new(files: Option<TlsFiles>) -> Self {
        Certificates { files, is_changed: false }
    }

    /// Takes a setting, if it is one of TLS; also one that is as it was, because what the file holds may not be.
    pub fn take(&mut self, name: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let Some(files) = &mut self.files else { return Ok(false) };
        let path = || PathBuf::from(OsStr::from_bytes(value));
        match name.to_ascii_lowercase().as_slice() {
            b"tls-cert-file" => files.certificate = path(),
            b"tls-key-file" => files.key = path(),
            b"tls-ca-cert-file" => {
                // A client that had to show a certificate still has to: that nobody is named any more is refused.
                if value.is_empty() && files.client_authorities.is_some() {
                    files.client_certificates = Some(files.wanted());
                }
                files.client_authorities = Some(path()).filter(|_| !value.is_empty());
            }
            b"tls-auth-clients" => {
                let wanted = ClientCertificates::of_name(value).ok_or(Failure::text(
                    "ERR CONFIG SET failed (possibly related to argument 'tls-auth-clients') - \
                     argument(s) must be one of the following: no, optional, yes",
                ))?;
                files.client_certificates = Some(wanted);
            }
            _ => return Ok(false),
        }
        self.is_changed = true;
        Ok(true)
    }

    /// Whether a setting was taken.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The files, as they are to be.
    pub fn into_files(self) -> Option<TlsFiles> {
        self.files
    }

    /// What the files hold: read now, or for a transaction before it.
    pub fn load(self, later: Option<&mut Later>) -> Result<LoadedCertificates, Failure> {
        let fail = |why: String| Failure::text(format!("ERR CONFIG SET failed - {why}"));
        let gone = || {
            fail("other files of TLS are in use than when the transaction began: try again".into())
        };
        let files = self.files.ok_or_else(gone)?;
        let Some(later) = later else { return LoadedCertificates::read(files).map_err(fail) };
        let ready = later.ahead.found(&files).ok_or_else(gone)?;
        let ready = ready.map_err(fail)?;
        later.tls_files = Some(files);
        Ok(ready)
    }
}
