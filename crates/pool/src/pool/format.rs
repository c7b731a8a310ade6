//! Making zeroed memory a pool.

use everleaf_machine::Machine;

use super::ids;
use crate::layout::{FEATURE_SUM_OF_EMPTY, HEADER_OFFSETS, SIZE_GRANULE};
use crate::session_record::SessionRecord;
use crate::view::View;
use crate::{Backing, Domain, header};

/// The largest size of a pool that is not larger than `bytes`.
pub(super) fn floor(bytes: u64) -> u64 {
    bytes / SIZE_GRANULE * SIZE_GRANULE
}

/// Makes zeroed memory a pool. The header comes last: before it, the memory is no pool at all.
pub(super) fn format<M: Machine>(view: View<M>, backing: &dyn Backing, domain: Domain, max: u64) {
    let environment = backing.environment();
    let size = floor(backing.size());
    let capacity = floor(backing.capacity());
    let wanted = if max == 0 { capacity } else { max.min(capacity) };
    if M::mutant("pool.format_ids_unflushed") {
        ids::prepare(view, 0);
    } else {
        ids::write(view, 0);
    }
    let session = SessionRecord {
        generation: 1,
        size,
        clean: true,
        domain: lasting_domain(backing, domain),
        boot_id: environment.boot_id,
        dirty_shutdowns: environment.dirty_shutdowns,
    };
    session.write(view, 0);
    let header = header::Header {
        uuid: environment.new_uuid,
        max_size: wanted.next_multiple_of(SIZE_GRANULE).max(size),
        created_ns: environment.now_ns,
        domain,
        generation: 1,
        features: 0,
        // It is new.
        compatible: FEATURE_SUM_OF_EMPTY,
        log: header::LogNote::default(),
    };
    if M::mutant("pool.format_unflushed") {
        HEADER_OFFSETS.iter().for_each(|offset| view.prepare(*offset, &header.encode()));
    } else {
        header.write(view, 0);
    }
}

/// What the stores of a session that works by `domain` really survive. On a disk a pool may be
/// ordered to flush its lines, for a test, but that takes them no further than the kernel's cache.
pub(super) fn lasting_domain(backing: &dyn Backing, domain: Domain) -> Domain {
    if backing.survives_machine() { domain } else { Domain::Process }
}
