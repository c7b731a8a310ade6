//! Making segments, of files that wait to become some.

use super::Current;
use crate::disk::write_whole;
use crate::layout::{BLOCK_SIZE, SEGMENT, SPARE, file_name, parse_name};
use crate::scan::{SegmentHeader, encode_header};
use crate::{Disk, DiskFile, Error, Result};

/// Removes the files that wait in the folder, and so may have chunks of a segment that was begun and
/// never got its name: its number is given again, and they would pass for chunks of the new one.
pub(super) fn leftovers<D: Disk>(disk: &D) -> Result<Vec<String>> {
    let mut names =
        disk.list().map_err(|error| Error::io("cannot list the log's folder", &error))?;
    names.retain(|name| parse_name(SPARE, name).is_some());
    if disk.mutant("log.keeps_leftovers") {
        return Ok(names);
    }
    for name in names {
        disk.remove(&name).map_err(|error| Error::io(format!("cannot remove {name}"), &error))?;
    }
    Ok(Vec::new())
}

/// Makes segments.
pub(super) struct Maker<'a, D> {
    pub(super) disk: &'a D,
    pub(super) uuid: &'a [u8; 16],
    pub(super) spares: Vec<String>,
}

impl<D: Disk> Maker<'_, D> {
    /// Makes a segment that has `chunks` in it, from a spare file if there is one.
    pub(super) fn make(
        &mut self,
        header: SegmentHeader,
        chunks: &[u8],
    ) -> Result<Current<D::File>> {
        let name = file_name(SEGMENT, header.sequence);
        let failed = |verb: &str, error: &std::io::Error| {
            Error::io(format!("cannot {verb} the segment {name} of the log"), error)
        };
        let (spare, file) = self.take_file(&header).map_err(|error| failed("make", &error))?;
        let prepared = self.prepare(&file, &header, chunks);
        if let Err(error) = prepared {
            // Best effort: the space of a file that did not become a segment is of use to others.
            drop(self.disk.remove(&spare));
            return Err(failed("prepare", &error));
        }
        self.disk.rename(&spare, &name).map_err(|error| failed("name", &error))?;
        if !self.disk.mutant("log.no_folder_sync") {
            self.disk.sync_folder().map_err(|error| failed("name", &error))?;
        }
        Ok(Current { file, header, position: BLOCK_SIZE + chunks.len() as u64 })
    }

    /// A file that is not a segment yet: its name, and the file.
    fn take_file(&mut self, header: &SegmentHeader) -> std::io::Result<(String, D::File)> {
        while let Some(spare) = self.spares.pop() {
            let file = self.disk.open(&spare)?;
            if file.size()? == header.size {
                return Ok((spare, file));
            }
            drop(file);
            self.disk.remove(&spare)?;
        }
        let spare = file_name(SPARE, header.sequence);
        let file = self.disk.create(&spare)?;
        Ok((spare, file))
    }

    fn prepare(
        &self,
        file: &D::File,
        header: &SegmentHeader,
        chunks: &[u8],
    ) -> std::io::Result<()> {
        if file.size()? != header.size {
            file.preallocate(header.size)?;
        }
        let mut block = vec![0; BLOCK_SIZE as usize];
        let bytes = encode_header(self.uuid, header);
        block[..bytes.len()].copy_from_slice(&bytes);
        write_whole(file, &block, 0)?;
        write_whole(file, chunks, BLOCK_SIZE)?;
        if self.disk.mutant("log.no_header_sync") {
            return Ok(());
        }
        file.sync_data()
    }
}
