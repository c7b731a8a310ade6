//! Certificates that are read before they are needed: where they are, nobody is to wait for a disk.

use std::collections::HashMap;

use super::{LoadedCertificates, TlsFiles};

/// What was read for the commands of a transaction.
#[derive(Default)]
pub struct ReadAhead {
    by_files: HashMap<TlsFiles, Result<LoadedCertificates, String>>,
}

impl ReadAhead {
    /// Reads these files, once. Returns them if they can be used.
    pub fn read(&mut self, files: TlsFiles) -> Option<TlsFiles> {
        let read = || LoadedCertificates::read(files.clone());
        let is_read = self.by_files.entry(files.clone()).or_insert_with(read).is_ok();
        is_read.then_some(files)
    }

    /// What these files held, or why they cannot be used; `None` if they were not read.
    pub fn found(&self, files: &TlsFiles) -> Option<Result<LoadedCertificates, String>> {
        self.by_files.get(files).cloned()
    }
}
