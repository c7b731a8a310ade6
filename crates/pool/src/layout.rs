//! The bytes of a pool file that belong to the pool itself.
//!
//! All numbers are little-endian. Offsets are in bytes from the start of the file.
//!
//! ```text
//!   file            offset  size
//!   header A             0   128
//!   session A          256    64
//!   ids A              512     8
//!   seal A             768    64
//!   holder            1024    64
//!   header B          4096   128
//!   session B         4352    64
//!   ids B             4608     8
//!   seal B            4864    64
//!   root directory    8192 64000    1000 entries of 64 bytes
//!   data start       73728          the allocator's, up to the size in the session
//!
//!   header          offset  size
//!   magic                0     8    "EVERLEAF"
//!   format version       8     4    1
//!   header size         12     4    128
//!   incompatible        16     8    feature bits a reader must know, or refuse the pool
//!   compatible          24     8    feature bits a reader may ignore
//!   uuid                32    16
//!   page size           48     4    4096
//!   size granule        52     4    65536: the size is a multiple of it
//!   root offset         56     4    8192
//!   root count          60     4    1000
//!   data start          64     8    73728
//!   maximum size        72     8    bytes the pool may grow to
//!   created             80     8    nanoseconds since 1970-01-01 UTC; 0 if not known
//!   domain              88     1    the domain it was made for: 1 Adr, 2 Eadr, 3 Process
//!   zero                89     7
//!   generation          96     8    counts rewrites of the header
//!   log                104     8    of the log that the pool was opened with last, what tells it from others; 0 if
//!                                   there is none (feature bit 6)
//!   log's generation   112     8    of the store at that opening, as the log's folder says since before
//!   checksum           120     4    CRC-32C of bytes 0 .. 120
//!   zero               124     4
//!
//!   session         offset  size
//!   generation           0     8    counts rewrites of the session
//!   size                 8     8    bytes of the pool in use
//!   clean               16     1    1 after a clean close, else 0
//!   domain              17     1    what the stores of the session survive, as in the header;
//!                                   3 on a disk, whatever domain the session worked by
//!   zero                18     6
//!   boot id             24    16    of the kernel that ran the session; not known if the upper half of its
//!                                   byte 6 is 0: random ones, of older versions zero. Into the last 8 bytes the
//!                                   file's place is mixed by exclusive or, if it is known: inode and mount
//!   dirty shutdowns     40     8    count of the memory devices; all ones if they tell none
//!   zero                48     8
//!   checksum            56     4    CRC-32C of bytes 0 .. 56
//!   mark                60     4    "SESS"
//!
//!   ids             offset  size
//!   last id              0     4    0 if none was handed out
//!   checksum             4     4    CRC-32C of bytes 0 .. 4
//!
//!   seal            offset  size    what the pool held when it was closed cleanly
//!   generation           0     8    of the session that it belongs to: else it is not in force
//!   leaves               8     8    leaf blocks of all trees with keys as integers or byte strings
//!   keys                16     8    entries in them that hold a key
//!   sum                 24     8    of the sums of the leaf blocks
//!   roots               32     8    CRC-32C over the root directory
//!   zero                40    16
//!   checksum            56     4    CRC-32C of bytes 0 .. 56
//!   mark                60     4    "SEAL"
//!
//!   holder          offset  size    written when a process opens the pool for writing; advice only
//!   process id           0     4
//!   checksum             4     4    CRC-32C of bytes 8 .. 32, then 0 .. 4
//!   start time           8     8    of the process, in clock ticks after boot
//!   command             16    16    zero padded
//!
//!   root entry      offset  size
//!   commit               0     8    0: free. Else, from the low byte up:
//!     state              0     1      0xA5
//!     check              1     1      CRC-8 of state, kind, value and the name checksum
//!     kind               2     2
//!     value              4     4
//!   name                 8    40    UTF-8, zero padded
//!   name checksum       48     4    CRC-32C of name (40 bytes), name length, incarnation
//!   name length         52     4    1 .. 40
//!   incarnation         56     8    counts the roots that had this entry
//! ```
//!
//! The first 128 bytes of the file keep the meaning of magic, version and checksum in every
//! version, so that a newer pool is told from a damaged one.

/// First byte of the space that belongs to the allocator.
pub const DATA_START: u64 = 73728;

/// The first eight bytes of a pool.
pub const MAGIC: [u8; 8] = *b"EVERLEAF";
/// The format version this code writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Incompatible feature bit: records may carry an expiry.
pub const FEATURE_EXPIRY: u64 = 1;
/// Incompatible feature bit: the map of pending batches may hold what an opening has to finish.
pub const FEATURE_BATCHES: u64 = 2;
/// Incompatible feature bit: records may carry their expiry in a word of its own.
pub const FEATURE_EXPIRY_WORD: u64 = 4;
/// Incompatible feature bit: maps may have hashed leaves, and new ones have.
pub const FEATURE_HASHED_LEAVES: u64 = 8;
/// Incompatible feature bit: a batch may change the expiry of a key alone.
pub const FEATURE_EXPIRY_IN_BATCHES: u64 = 16;
/// Incompatible feature bit: lists of the server may have runs, which an older server takes for what nobody has any
/// more.
pub const FEATURE_RUNS_OF_LISTS: u64 = 32;
/// Incompatible feature bit: the header names the log that the pool was opened with.
pub const FEATURE_LOG_NOTE: u64 = 64;
/// Compatible feature bit: no empty key with an empty value has the check sum 0 that an older program gave
/// it, so that a header of zeros is none.
pub const FEATURE_SUM_OF_EMPTY: u64 = 1;
/// The incompatible feature bits this code knows. A pool has those that were ever used in it.
pub const KNOWN_FEATURES: u64 = FEATURE_EXPIRY
    | FEATURE_BATCHES
    | FEATURE_EXPIRY_WORD
    | FEATURE_HASHED_LEAVES
    | FEATURE_EXPIRY_IN_BATCHES
    | FEATURE_RUNS_OF_LISTS
    | FEATURE_LOG_NOTE;

/// Offsets of the two copies of the header.
pub const HEADER_OFFSETS: [u64; 2] = [0, 4096];
/// Bytes in a header.
pub const HEADER_SIZE: u64 = 128;
/// 8-byte words in a header.
pub(crate) const HEADER_WORDS: usize = 16;

/// Offsets of the two copies of the session.
pub const SESSION_OFFSETS: [u64; 2] = [256, 4096 + 256];
/// Bytes in a session.
pub const SESSION_SIZE: u64 = 64;
/// 8-byte words in a session.
pub(crate) const SESSION_WORDS: usize = 8;
/// The last four bytes of a session.
pub const SESSION_MARK: [u8; 4] = *b"SESS";

/// Offsets of the two copies of the id counter.
pub const IDS_OFFSETS: [u64; 2] = [512, 4096 + 512];
/// Bytes in an id counter.
pub const IDS_SIZE: u64 = 8;

/// Offsets of the two copies of the seal.
pub const SEAL_OFFSETS: [u64; 2] = [768, 4096 + 768];
/// Bytes in a seal.
pub const SEAL_SIZE: u64 = 64;
/// 8-byte words in a seal.
pub(crate) const SEAL_WORDS: usize = 8;
/// The last four bytes of a seal.
pub const SEAL_MARK: [u8; 4] = *b"SEAL";

/// Offset of the record of the process that holds the pool.
pub const HOLDER_OFFSET: u64 = 1024;
/// Bytes in the record of the process that holds the pool.
pub const HOLDER_SIZE: u64 = 64;

/// Offset of the root directory.
pub const ROOT_OFFSET: u64 = 8192;
/// Entries in the root directory.
pub const ROOT_COUNT: u16 = 1000;
/// Bytes in an entry of the root directory.
pub const ROOT_SIZE: u64 = 64;
/// 8-byte words in an entry of the root directory.
pub(crate) const ROOT_WORDS: usize = 8;
/// The most bytes in the name of a root.
pub const ROOT_NAME_MAX: usize = 40;
/// The state byte of a root that exists.
pub const ROOT_LIVE: u8 = 0xA5;

/// Alignment of [`DATA_START`], in bytes.
pub const PAGE_SIZE: u32 = 4096;
/// The size of a pool is a multiple of this many bytes: no page size in use is larger.
pub const SIZE_GRANULE: u64 = 65536;
/// The smallest pool, in bytes: its own pages and some of the allocator's.
pub const SIZE_MIN: u64 = 2 * SIZE_GRANULE;

const _: () = {
    assert!(HEADER_SIZE as usize == HEADER_WORDS * 8);
    assert!(SESSION_SIZE as usize == SESSION_WORDS * 8);
    assert!(SEAL_SIZE as usize == SEAL_WORDS * 8);
    assert!(ROOT_SIZE as usize == ROOT_WORDS * 8);
    assert!(ROOT_SIZE as usize == 8 + ROOT_NAME_MAX + 16);
    let mut copy = 0;
    while copy < 2 {
        let page = copy as u64 * PAGE_SIZE as u64;
        assert!(HEADER_OFFSETS[copy] == page);
        assert!(SESSION_OFFSETS[copy] >= HEADER_OFFSETS[copy] + HEADER_SIZE);
        assert!(IDS_OFFSETS[copy] >= SESSION_OFFSETS[copy] + SESSION_SIZE);
        // A record within one line is written back as one.
        assert!(SESSION_OFFSETS[copy].is_multiple_of(SESSION_SIZE));
        assert!(IDS_OFFSETS[copy].is_multiple_of(IDS_SIZE));
        assert!(SEAL_OFFSETS[copy] >= IDS_OFFSETS[copy] + IDS_SIZE);
        assert!(SEAL_OFFSETS[copy].is_multiple_of(SEAL_SIZE));
        assert!(SEAL_OFFSETS[copy] + SEAL_SIZE <= page + 1024);
        assert!(IDS_OFFSETS[copy] + IDS_SIZE <= page + PAGE_SIZE as u64);
        copy += 1;
    }
    assert!(HOLDER_OFFSET >= IDS_OFFSETS[0] + IDS_SIZE);
    assert!(HOLDER_OFFSET + HOLDER_SIZE <= HEADER_OFFSETS[1]);
    assert!(ROOT_OFFSET == 2 * PAGE_SIZE as u64);
    assert!(ROOT_OFFSET.is_multiple_of(ROOT_SIZE));
    assert!(ROOT_OFFSET + ROOT_COUNT as u64 * ROOT_SIZE <= DATA_START);
    assert!(DATA_START.is_multiple_of(PAGE_SIZE as u64));
    assert!(SIZE_MIN > DATA_START && SIZE_MIN.is_multiple_of(SIZE_GRANULE));
};
