//! What the collector frees, and what it leaves.

use super::super::header::Kind;
use super::*;

/// A round that waited 1.5 s for a processor was followed by a pause of 30 s, in which nothing was freed.
#[test]
fn a_round_that_waits_for_the_processor_causes_no_long_pause() {
    let start = processor_time();
    let looking = Work { looked: 1000, freed: 0 };
    // As long as a busy machine may keep a thread waiting; twenty times that is above the shortest pause.
    std::thread::sleep(PAUSE / 10);
    assert_eq!(looking.pause_behind(start), PAUSE);
    while processor_time() < start + PAUSE / 10 {
        std::hint::spin_loop();
    }
    assert!(looking.pause_behind(start) >= 2 * PAUSE);
    // Only looking is limited: what freeing has cost is not.
    assert_eq!(Work { looked: 1000, freed: 490 }.pause_behind(start).max(2 * PAUSE), 2 * PAUSE);
    assert_eq!(Work { looked: 1000, freed: 600 }.pause_behind(start), Duration::ZERO);
    assert_eq!(Work { looked: 10, freed: 10 }.pause_behind(start), PAUSE);
}

fn store() -> (tempfile::TempDir, Store, Types) {
    let folder = tempfile::tempdir().unwrap();
    let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
    let types = Types::default();
    types.begin(&store).unwrap();
    (folder, store, types)
}

/// One round in place 0.
fn round(types: &Types, store: &Store) -> everleaf::Result<()> {
    let databases = Databases::new(store, 1);
    Collector::default().round(types, &databases, MapNumber::default(), store, &mut Work::default())
}

/// Place 0.
fn keys<'a>(types: &'a Types, store: &'a Store) -> Keys<'a> {
    Keys { types, map: store.default_map(), place: MapNumber::default() }
}

/// Makes a collection like the one of a header, with a number of its own.
fn make(types: &Types, store: &Store, key: &[u8], header: Header) -> Header {
    let ready = types.ready().unwrap();
    let header = Header { id: ready.new_id(), ..header };
    store.default_map().put(key, ready.encode(&header)).unwrap();
    ready.members.put(live_key(MapNumber::default(), header.id), key).unwrap();
    for member in 0..header.count {
        let place = [header.id.to_be_bytes(), member.to_be_bytes()].concat();
        ready.members.put(&place, b"").unwrap();
    }
    header
}

#[test]
fn what_is_gone_is_freed_and_what_is_there_stays() {
    let (_folder, store, types) = store();
    let ready = types.ready().unwrap();
    let empty = ready.members.len();
    let make = |key: &[u8], count: u64| {
        make(
            &types,
            &store,
            key,
            Header {
                kind: Kind::Set,
                id: 0,
                count,
                changes: 1,
                extra: 0,
                has_outside: false,
                reaches: [false; 2],
            },
        )
    };
    make(b"kept", 10);
    make(b"removed", 2_000);
    make(b"replaced", 100);
    make(b"rebuilt", 100);
    store.default_map().remove(b"removed").unwrap();
    store.default_map().put(b"replaced", b"a string").unwrap();
    make(b"rebuilt", 5);
    round(&types, &store).unwrap();
    assert_eq!(ready.members.len(), empty + 10 + 1 + 5 + 1);
}

/// The members of a set that had expired were freed, and its header stayed where it was until the sweep came by:
/// a clock that was set back showed a set of three members that had none. Here the sweep is off, so the header is
/// still there behind the round, unless the round removed it: then a pool that is read by a program without the
/// clock, the tree itself, has no key.
#[test]
fn the_header_of_what_has_expired_goes_before_its_members() {
    let folder = tempfile::tempdir().unwrap();
    let options = everleaf::Options::new().create(true).sweep(false);
    let store = options.open(folder.path().join("p")).unwrap();
    let types = Types::default();
    types.begin(&store).unwrap();
    let map = store.default_map();
    let header = Header {
        kind: Kind::Set,
        id: 0,
        count: 3,
        changes: 1,
        extra: 0,
        has_outside: false,
        reaches: [false; 2],
    };
    make(&types, &store, b"expired", header);
    make(&types, &store, b"kept", header);
    assert!(map.expire(b"expired", everleaf::Expiry::from_unix_ms(1)).unwrap());
    assert_eq!((map.get(b"expired").unwrap(), map.len()), (None, 2), "it is still counted");
    round(&types, &store).unwrap();
    assert_eq!(map.len(), 1);
    assert_eq!(types.ready().unwrap().members.len(), 2 + 3 + 1);
}

/// A damaged member, or header, ended each round at the same place for ever: whatever was gone behind it kept its
/// space.
#[test]
fn damage_of_one_collection_keeps_no_other_from_being_freed() {
    const MARKS: [&[u8]; 2] = [b"a member whose value will rot", b"a header that will rot"];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let open = || everleaf::Options::new().create(true).verify_reads(true).open(&path).unwrap();
    {
        let store = open();
        let types = Types::default();
        types.begin(&store).unwrap();
        let header = Header {
            kind: Kind::Set,
            id: 0,
            count: 100,
            changes: 1,
            extra: 0,
            has_outside: false,
            reaches: [false; 2],
        };
        let first = make(&types, &store, b"first", header);
        let member = [first.id.to_be_bytes(), 50u64.to_be_bytes()].concat();
        types.ready().unwrap().members.put(&member, MARKS[0]).unwrap();
        store.default_map().remove(b"first").unwrap();
        make(&types, &store, b"second", header);
        store.default_map().put(b"second", MARKS[1]).unwrap();
        make(&types, &store, b"third", header);
        store.default_map().remove(b"third").unwrap();
    }
    let mut pool = std::fs::read(&path).unwrap();
    for mark in MARKS {
        let at = pool.windows(mark.len()).position(|bytes| bytes == mark).unwrap();
        pool[at] ^= 1;
    }
    std::fs::write(&path, pool).unwrap();
    let store = open();
    let types = Types::default();
    types.open(&store).unwrap();
    let before = types.ready().unwrap().members.len();
    let round = round(&types, &store);
    assert!(matches!(round, Err(Error::Corrupt(_))), "it is told");
    assert_eq!(types.ready().unwrap().members.len(), before - 100 - 1, "the third is freed");
}

/// A damaged note ended each round, and so did one of a list whose elements are to be trimmed: nothing behind it was
/// freed.
#[test]
fn damaged_notes_keep_no_other_collection_from_being_freed() {
    const MARK: &[u8] = b"the key of a collection whose note will rot";
    for before in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        let open = || everleaf::Options::new().create(true).verify_reads(true).open(&path).unwrap();
        {
            let store = open();
            let types = Types::default();
            types.begin(&store).unwrap();
            let header = Header {
                kind: Kind::List,
                id: 0,
                count: 10,
                changes: 1,
                extra: 0,
                has_outside: false,
                reaches: [false; 2],
            };
            for key in [b"first", MARK, b"third"] {
                let list = make(&types, &store, key, header);
                let trimmed = Header { count: 4, ..list };
                let ready = types.ready().unwrap();
                store.default_map().put(key, ready.encode(&trimmed)).unwrap();
                let what = if key == MARK { MARK } else { b"" };
                ready.members.put(trimmed_key(list.id), what).unwrap();
            }
            make(&types, &store, b"fourth", header);
            store.default_map().remove(b"fourth").unwrap();
        }
        let mut pool = std::fs::read(&path).unwrap();
        let mut found = 0;
        for at in MARK.len()..pool.len() - MARK.len() {
            if &pool[at..at + MARK.len()] == MARK {
                // In the value of a note, or the last byte of its key, which is no other's then.
                pool[at - before] ^= 0x80;
                found += 1;
            }
        }
        assert!(found >= 3, "the key, and both notes");
        std::fs::write(&path, pool).unwrap();
        let store = open();
        let types = Types::default();
        types.open(&store).unwrap();
        let (databases, collector) = (Databases::new(&store, 1), Collector::default());
        let round =
            collector.round(&types, &databases, MapNumber::default(), &store, &mut Work::default());
        assert!(matches!(round, Err(Error::Corrupt(_))), "it is told: {before}");
        let trimmed = collector.trim_lists(&types, &databases, &store);
        assert!(matches!(trimmed, Err(Error::Corrupt(_))), "it is told: {before}");
        // Of two lists four elements are left, with their notes; of the damaged one all that there was; the mark and
        // the start.
        let members = &types.ready().unwrap().members;
        assert_eq!(members.len(), 2 * (4 + 1) + (10 + 2) + 2, "{before}");
    }
}

/// Moves a collection, as `RENAME` does.
fn rename(types: &Types, store: &Store, header: &Header, from: &[u8], to: &[u8]) {
    let ready = types.ready().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&ready.members, live_key(MapNumber::default(), header.id), to);
    batch.put(store.default_map(), to, ready.encode(header));
    batch.remove(store.default_map(), from);
    store.write(&batch).unwrap();
}

/// The collector reads a note, then the key it names. A collection that is renamed in between was
/// taken for one that is gone before the note was read again, and its members were freed.
#[test]
fn what_is_renamed_while_the_collector_looks_is_not_gone() {
    let (_folder, store, types) = store();
    let header = Header {
        kind: Kind::Set,
        id: 0,
        count: 3,
        changes: 1,
        extra: 0,
        has_outside: false,
        reaches: [false; 2],
    };
    let header = make(&types, &store, b"here", header);
    // The note that the collector has read names this key.
    rename(&types, &store, &header, b"here", b"there");
    assert!(!keys(&types, &store).holds(b"here", header.id).unwrap());
    assert!(!keys(&types, &store).is_gone(header.id).unwrap());
    store.default_map().remove(b"there").unwrap();
    assert!(keys(&types, &store).is_gone(header.id).unwrap());
}

/// Nor if it comes to the key that the note names, is seen there, and goes on.
#[test]
fn what_is_renamed_between_the_looks_at_note_and_key_stays() {
    let (_folder, store, types) = store();
    let header = Header {
        kind: Kind::Set,
        id: 0,
        count: 3,
        changes: 1,
        extra: 0,
        has_outside: false,
        reaches: [false; 2],
    };
    let header = make(&types, &store, b"here", header);
    let meanwhile = || rename(&types, &store, &header, b"here", b"there");
    assert!(!keys(&types, &store).is_gone_after(header.id, meanwhile).unwrap());
}

#[test]
fn what_is_renamed_to_and_fro_keeps_its_members() {
    let (_folder, store, types) = store();
    let header = Header {
        kind: Kind::Set,
        id: 0,
        count: 5,
        changes: 1,
        extra: 0,
        has_outside: false,
        reaches: [false; 2],
    };
    let header = make(&types, &store, b"here", header);
    let before = types.ready().unwrap().members.len();
    // Dropped behind the loop below, also by a panic.
    let renames = std::sync::Arc::new(());
    let watch = std::sync::Arc::downgrade(&renames);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while watch.strong_count() > 0 {
                round(&types, &store).unwrap();
            }
        });
        for _ in 0..3_000 {
            rename(&types, &store, &header, b"here", b"there");
            rename(&types, &store, &header, b"there", b"here");
        }
        drop(renames);
    });
    assert_eq!(types.ready().unwrap().members.len(), before);
}
