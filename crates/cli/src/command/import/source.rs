//! Where keys come from: a file, a server, or the masters of a cluster.

use super::arguments::ImportArgs;
use super::item::{Item, each_record_of_file};
use super::live::Live;
use super::masters::Masters;
use crate::failure::Failure;
use crate::global::Global;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where keys come from.
pub(super) enum Source {
    /// The same file is read each time, whatever has its name by then.
    File(PathBuf, File),
    Server(Live),
    Cluster(Masters),
}

impl Source {
    pub(super) fn of(args: &ImportArgs, global: Global) -> Result<Self, Failure> {
        match args.address()? {
            Some(address) => {
                let (cacert, size_max) = (args.cacert.as_deref(), args.whole_size_max);
                let patience = Duration::from_secs(args.timeout);
                Ok(match address.is_cluster {
                    true => {
                        Source::Cluster(Masters::connect(&address, cacert, patience, size_max)?)
                    }
                    false => {
                        let mut live = Live::connect(&address, cacert, patience, size_max)?;
                        if !global.quiet {
                            live.tell_of_others(&address)?;
                        }
                        Source::Server(live)
                    }
                })
            }
            None => {
                let path = PathBuf::from(&args.source);
                let file = open(&path, args.no_verify)?;
                Ok(Source::File(path, file))
            }
        }
    }

    /// Shows all items, once.
    pub(super) fn each(
        &mut self,
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Source::File(path, file) => each_of_file(path, file, see),
            Source::Server(live) => live.each(see),
            Source::Cluster(masters) => masters.each(see),
        }
    }

    /// Begins anew.
    pub(super) fn rewind(&mut self) -> Result<(), Failure> {
        let Source::File(path, file) = self else { return Ok(()) };
        let rewound = file.seek(SeekFrom::Start(0));
        rewound.map(drop).map_err(|error| unreadable(path, &error))
    }

    /// Which of some keys are not there any more.
    pub(super) fn gone(
        &mut self,
        database: u64,
        keys: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        match self {
            // Its check sum says that it is the one that was copied.
            Source::File(..) => Ok(Vec::new()),
            Source::Server(live) => live.gone(database, keys),
            Source::Cluster(masters) => masters.gone(keys),
        }
    }

    /// How many keys there are, if it says so.
    pub(super) fn key_count(&self) -> Option<u64> {
        match self {
            Source::File(..) => None,
            Source::Server(live) => live.key_count(),
            Source::Cluster(masters) => masters.key_count(),
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(&format!("cannot read {}", path.display()), error)
}

/// Opens a file that can be read once more, unless once is enough.
fn open(path: &Path, is_once_enough: bool) -> Result<File, Failure> {
    let metadata = path.metadata().map_err(|error| unreadable(path, &error))?;
    if !metadata.is_file() && (metadata.is_dir() || !is_once_enough) {
        let path = path.display();
        return Err(Failure::usage(match metadata.is_dir() {
            true => format!("{path} is a folder: name the RDB file in it"),
            false => format!(
                "{path} is no file but a pipe or device, and cannot be read a second time to compare the pool \
                 with it: write it to a file first, or give --no-verify"
            ),
        }));
    }
    File::open(path).map_err(|error| unreadable(path, &error))
}

fn each_of_file(
    path: &Path,
    file: &File,
    see: &mut dyn FnMut(Item) -> Result<(), Failure>,
) -> Result<(), Failure> {
    each_record_of_file(file, &path.display(), see)
}
