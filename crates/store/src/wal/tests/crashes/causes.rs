//! An effect without its cause, arranged: a thread has made a change for all to see and stops before
//! its record is in the log. Another reads it, does something that comes of it, and is told that this
//! is durable. Then the power fails.
//!
//! Before places were taken ahead of the changes this lost, with `Power` as with `Interval`: the cause
//! of a write that was there; maps with all that was acknowledged in them; what was synced.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use everleaf_log::simulated::{Faults, SimulatedDisk};

use super::world::{folder, options};
use crate::{Action, Durability, Exchange, Store, WriteBatch};

const FAR_MS: u64 = 1 << 45;

/// A change, what somebody reads of it, and what must be found whenever the effect is found.
struct Case {
    name: &'static str,
    /// Where the first thread stops.
    stops_at: &'static str,
    prepare: fn(&Store),
    cause: fn(&Store),
    is_seen: fn(&Store) -> bool,
    /// Where the effect goes.
    map: &'static str,
}

fn is(store: &Store, value: &[u8]) -> bool {
    store.default_map().get(b"cause").expect("get").as_deref() == Some(value)
}

fn put_old(store: &Store) {
    let _ = store.default_map().put(b"cause", b"old").expect("room");
}

const CASES: [Case; 10] = [
    Case {
        name: "put",
        stops_at: "store.changed",
        prepare: |_| (),
        cause: |store| {
            let _ = store.default_map().put(b"cause", b"new").expect("room");
        },
        is_seen: |store| is(store, b"new"),
        map: "default",
    },
    Case {
        name: "remove",
        stops_at: "store.changed",
        prepare: put_old,
        cause: |store| {
            let _ = store.default_map().remove(b"cause").expect("room");
        },
        is_seen: |store| {
            store.default_map().range(..).map(Result::unwrap).all(|(key, _)| key != b"cause")
        },
        map: "default",
    },
    Case {
        name: "put_with_expiry",
        stops_at: "store.changed",
        prepare: put_old,
        cause: |store| {
            let _ = store
                .default_map()
                .put_with_expiry(b"cause", b"new", crate::Expiry::from_unix_ms(FAR_MS))
                .expect("room");
        },
        is_seen: |store| is(store, b"new"),
        map: "default",
    },
    Case {
        name: "expire_at",
        stops_at: "store.changed",
        prepare: put_old,
        cause: |store| {
            let _ = store
                .default_map()
                .expire(b"cause", crate::Expiry::from_unix_ms(FAR_MS))
                .expect("room");
        },
        is_seen: |store| {
            store
                .default_map()
                .expiry(b"cause")
                .expect("get")
                .is_some_and(|at| at.as_unix_ms() == FAR_MS)
        },
        map: "default",
    },
    Case {
        name: "update_with",
        stops_at: "store.changed",
        prepare: put_old,
        cause: |store| {
            drop(
                store
                    .default_map()
                    .update_with(b"cause", |_| Action::Put(b"new".to_vec()))
                    .expect("room"),
            );
        },
        is_seen: |store| {
            let mut found = false;
            let see = |_, value: Option<&[u8]>| found = value == Some(b"new");
            store.default_map().get_many(&[b"cause"], see).expect("get");
            found
        },
        map: "default",
    },
    Case {
        name: "compare_exchange",
        stops_at: "store.changed",
        prepare: put_old,
        cause: |store| {
            let done = store.default_map().compare_exchange(b"cause", Some(b"old"), Some(b"new"));
            assert_eq!(done.expect("room"), Exchange::Done);
        },
        is_seen: |store| is(store, b"new"),
        map: "default",
    },
    Case {
        name: "batch",
        stops_at: "store.batch_made",
        prepare: |store| drop(store.map("second").expect("room")),
        cause: |store| {
            let mut batch = WriteBatch::new();
            let second = store.existing_map("second").expect("of strings").expect("there");
            batch.put(store.default_map(), b"cause", b"new").put(&second, b"cause", b"new");
            assert!(store.write(&batch).expect("room").is_done());
        },
        // A get would wait for the batch.
        is_seen: |store| {
            store
                .default_map()
                .range(..)
                .map(Result::unwrap)
                .any(|pair| pair == (b"cause".into(), b"new".into()))
        },
        map: "third",
    },
    Case {
        name: "clear",
        stops_at: "store.number_entered",
        prepare: |store| {
            let _ = store.map("second").expect("room").put(b"old", b"old").expect("room");
        },
        cause: |store| {
            let map = store.existing_map("second").expect("of strings").expect("there");
            map.clear().expect("room");
        },
        is_seen: |store| {
            let map = store.existing_map("second").expect("of strings");
            map.is_none_or(|map| map.iter().next().is_none())
        },
        map: "",
    },
    Case {
        name: "drop_map",
        stops_at: "store.map_removed",
        prepare: |store| drop(store.map("second").expect("room")),
        cause: |store| assert!(store.drop_map("second").expect("writable")),
        is_seen: |store| !store.map_names().contains(&"second".to_string()),
        map: "",
    },
    Case {
        name: "new map",
        stops_at: "store.number_entered",
        prepare: |_| (),
        cause: |store| {
            let _ = store.map("second").expect("room");
        },
        is_seen: |store| store.map_names().contains(&"second".to_string()),
        map: "second",
    },
];

/// What the second thread does when it has seen the cause.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Put,
    Batch,
    /// Nothing: it syncs, and tells somebody outside of the store.
    Sync,
}

/// Whether the cause is there after the crash, if its effect is.
fn holds(
    case: &Case,
    effect: Effect,
    durability: Durability,
    mutant: Option<&'static str>,
) -> bool {
    let faults = Faults { mutants: mutant.into_iter().collect(), ..Faults::default() };
    let (folder, disk) = (folder(), SimulatedDisk::new(faults, 1));
    let open = options(&disk).durability(durability).open(folder.path().join("pool"));
    let store = open.expect("it opens");
    drop(store.map("third").expect("room"));
    (case.prepare)(&store);
    store.sync().expect("the disk works");
    let (stop, stopped) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let (released, has_stopped) = (Mutex::new(released), AtomicBool::new(false));
    let (to_release, stops_at) = (release.clone(), case.stops_at);
    disk.set_point_hook(move |point| {
        // Relaxed: only that it happens once matters.
        if point == stops_at && !has_stopped.swap(true, Ordering::Relaxed) {
            stop.send(()).expect("the other thread listens");
            let _ = released.lock().expect("nobody panicked").recv();
        }
    });
    disk.set_wait_hook(move |_| {
        // A thread that waits for the one that has stopped lets it go on.
        let _ = to_release.try_send(());
        std::thread::yield_now();
        true
    });
    let left = std::thread::scope(|scope| {
        scope.spawn(|| (case.cause)(&store));
        stopped.recv().expect("it comes there");
        assert!((case.is_seen)(&store), "{}: the change cannot be seen", case.name);
        act(case, effect, durability, &store);
        let left = disk.crashed(7);
        let _ = release.try_send(());
        left
    });
    disk.clear_hook();
    left.set_faults(Faults::default());
    let folder = super::world::folder();
    let found = options(&left).durability(durability).open(folder.path().join("left"));
    let found = found.expect("it opens");
    (case.is_seen)(&found) && (effect == Effect::Sync || has_effect(case, &found))
}

/// Behind the stripes of a batch, an emptying or a dropping nobody else can write: another map does.
fn act(case: &Case, effect: Effect, durability: Durability, store: &Store) {
    match effect {
        Effect::Sync => store.sync().expect("the disk works"),
        Effect::Put => {
            let map = store.existing_map(case.map).expect("of strings").expect("there");
            assert!(!map.put(b"effect", b"1").expect("room"));
        }
        Effect::Batch => {
            let map = store.existing_map(case.map).expect("of strings").expect("there");
            let mut batch = WriteBatch::new();
            batch.put(&map, b"effect", b"1").put(&map, b"also", b"1");
            assert!(store.write(&batch).expect("room").is_done());
        }
    }
    if durability != Durability::Power {
        // It is not waited for: a later sync has what the log has collected by then.
        store.sync().expect("the disk works");
    }
}

fn has_effect(case: &Case, store: &Store) -> bool {
    let map = store.existing_map(case.map).expect("of strings");
    map.is_some_and(|map| map.get(b"effect").expect("get").is_some())
}

fn effects(case: &Case) -> &'static [Effect] {
    match case.map {
        "" => &[Effect::Sync],
        _ => &[Effect::Sync, Effect::Put, Effect::Batch],
    }
}

#[test]
fn what_was_read_is_durable_before_what_comes_of_it() {
    for case in &CASES {
        for effect in effects(case) {
            assert!(holds(case, *effect, Durability::Power, None), "{}", case.name);
            let second = Durability::Interval(std::time::Duration::from_secs(1));
            assert!(holds(case, *effect, second, None), "{}, interval", case.name);
        }
    }
}

#[test]
fn a_place_taken_behind_its_change_is_found() {
    for case in &CASES {
        for effect in effects(case) {
            let late = Some("store.takes_place_late");
            assert!(!holds(case, *effect, Durability::Power, late), "{}: not found", case.name);
        }
    }
}

/// Its name is in the pool before the log can have it: a thread that saw it and wrote what comes of it could
/// find that without the map.
#[test]
fn a_map_is_seen_only_when_it_has_its_place_in_the_log() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let store = options(&disk).open(folder.path().join("pool")).expect("it opens");
    let (stop, stopped) = sync_channel(1);
    let (release, released) = sync_channel::<()>(1);
    let released = Mutex::new(released);
    disk.set_point_hook(move |point| {
        if point == "store.place_taken" {
            stop.send(()).expect("the other thread listens");
            let _ = released.lock().expect("nobody panicked").recv();
        }
    });
    let has_name = || store.map_names().contains(&"second".to_string());
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| drop(store.map("second").expect("room")));
        stopped.recv().expect("it comes there");
        let is_seen = has_name();
        release.send(()).expect("it listens");
        assert!(!is_seen, "it has no number yet");
        maker.join().expect("no panic");
    });
    assert!(has_name());
}
