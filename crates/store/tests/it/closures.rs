//! Functions that the store calls, and that use the store: nothing of it may wait for itself, and a
//! panic in one leaves everything as it was. Whatever hangs fails after a time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use everleaf::{Action, Error, Options, Store, Tree, WriteBatch};

/// Far more than any of the tests needs on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(240);
/// Threads that may be in the store at once, and some more.
const SESSIONS: usize = 128;
const THREADS: usize = 300;
/// How often each of many functions asks for something while another thread is to come in between.
const ASKED_COUNT: usize = 50;

fn open(folder: &Path) -> Arc<Store> {
    let options = Options::new().create(true).max_size_bytes(1 << 30);
    Arc::new(options.open(folder.join("pool")).expect("the pool opens"))
}

/// Runs something that must end.
fn ends(what: &str, act: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(act));
        sender.send(()).expect("somebody waits");
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} does not end"));
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Lets nobody go on before so many have come.
struct Crowd {
    count: Mutex<usize>,
    grown: Condvar,
}

impl Crowd {
    fn new() -> Crowd {
        Crowd { count: Mutex::new(0), grown: Condvar::new() }
    }

    fn join(&self, wanted: usize) {
        let mut count = self.count.lock().expect("nobody panics");
        *count += 1;
        self.grown.notify_all();
        drop(self.grown.wait_while(count, |count| *count < wanted).expect("nobody panics"));
    }
}

fn is_sound(store: &Store) {
    let problems = store.check().expect("the check runs").problems;
    assert_eq!(problems, Vec::<String>::new());
}

/// Each of 128 threads had a session and wanted a second one, which it waited for in vain.
#[test]
fn more_threads_than_sessions_nest_in_closures() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let end = store.clone();
    ends("nesting", move || {
        let crowd = Arc::new(Crowd::new());
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (store, crowd) = (store.clone(), crowd.clone());
                std::thread::spawn(move || {
                    let key = |name: &str| format!("{name} {number}").into_bytes();
                    let inner = |_: Option<&[u8]>| {
                        store.default_map().put(key("inner"), b"1").expect("room");
                        store
                            .default_map()
                            .get_with(key("inner"), |value| value.len())
                            .expect("get");
                        Action::Put(b"2".to_vec())
                    };
                    store
                        .default_map()
                        .update_with(key("outer"), |_| {
                            // All sessions are taken, by threads that want another one.
                            crowd.join(SESSIONS);
                            store.default_map().update_with(key("middle"), inner).expect("room");
                            Action::Put(b"3".to_vec())
                        })
                        .expect("room");
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    assert_eq!(end.default_map().len(), 3 * THREADS as u64);
    is_sound(&end);
}

/// Statistics took every session in order: with one in a closure they waited for it, and the closure,
/// which wanted a session that they had taken, for them.
#[test]
fn statistics_wait_for_no_closure() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.default_map().put(b"k", b"v").expect("room");
    ends("asking for statistics", move || {
        let asked = Crowd::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let inside = || {
                    assert_eq!(store.statistics().keys, 1);
                    asked.join(1);
                    asked.join(3);
                    assert_eq!(store.default_map().get(b"k").expect("get"), Some(b"v".to_vec()));
                };
                store.default_map().get_with(b"k", |_| inside()).expect("get");
            });
            asked.join(2);
            assert_eq!(store.statistics().keys, 1);
            asked.join(4);
        });
    });
}

/// What was lost: all threads stood still. Statistics took one session after the other and waited for functions that
/// wanted a second one. Here all sessions that threads share are in such functions when a check begins, which waits for
/// them.
#[test]
fn statistics_and_checks_run_beside_closures_that_nest() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let end = store.clone();
    ends("working beside checks", move || {
        for round in 0..3u32 {
            let crowd = Crowd::new();
            std::thread::scope(|scope| {
                for number in 0..SESSIONS as u32 {
                    let (store, crowd) = (&store, &crowd);
                    scope.spawn(move || {
                        let key = number.to_be_bytes();
                        let change = |found: Option<&[u8]>| {
                            crowd.join(SESSIONS + 2);
                            // Again and again: the check begins meanwhile, and waits.
                            for _ in 0..ASKED_COUNT {
                                assert_eq!(store.statistics().maps, 1);
                                let seen = store.default_map().get_with(key, <[u8]>::to_vec);
                                let seen = seen.expect("get");
                                assert_eq!(found, seen.as_deref(), "nobody else writes it");
                                std::thread::yield_now();
                            }
                            Action::Put(round.to_be_bytes().to_vec())
                        };
                        store.default_map().update_with(key, change).expect("room");
                    });
                }
                scope.spawn(|| {
                    crowd.join(SESSIONS + 2);
                    is_sound(&store);
                });
                crowd.join(SESSIONS + 2);
                assert!(store.statistics().pool_size_bytes > 0);
            });
        }
    });
    assert_eq!(end.default_map().len(), SESSIONS as u64);
    is_sound(&end);
}

/// A thread that made a map had the lock of the makers and waited for a session; those that had the sessions
/// waited for the lock.
#[test]
fn maps_are_made_inside_and_outside_of_closures() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(1 << 30);
    let options = options.durability(everleaf::Durability::Interval(Duration::from_secs(3600)));
    let store = Arc::new(options.open(folder.path().join("pool")).expect("the pool opens"));
    store.default_map().put(b"k", b"v").expect("room");
    ends("making maps", move || {
        let crowd = Arc::new(Crowd::new());
        let threads: Vec<_> = (0..SESSIONS + 40)
            .map(|number| {
                let (store, crowd) = (store.clone(), crowd.clone());
                std::thread::spawn(move || {
                    let make = || store.map(&format!("map {}", number % 30)).expect("room");
                    if number < SESSIONS {
                        let inside = |_: &[u8]| {
                            crowd.join(SESSIONS);
                            // Somebody may have dropped it again.
                            let put = make().put(b"k", b"v");
                            assert!(matches!(put, Ok(_) | Err(Error::MapDropped)), "{put:?}");
                        };
                        store.default_map().get_with(b"k", inside).expect("get").expect("there");
                    } else {
                        make();
                        store.drop_map(&format!("map {}", number % 30)).expect("writable");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// They waited for the operation that they were called from.
#[test]
fn what_would_wait_for_its_caller_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.default_map().put(b"k", b"v").expect("room");
    let copy = folder.path().join("copy");
    ends("calling from inside", move || {
        let refused = |error: Error| {
            assert!(matches!(&error, Error::Nested(text) if text.contains("called by a function")));
        };
        let mut batch = WriteBatch::new();
        batch.put(store.default_map(), b"b", b"1");
        let inside = |_: &[u8]| {
            refused(store.check().expect_err("it waits for all"));
            refused(store.view().map(drop).expect_err("the first view waits for all"));
            refused(store.write(&batch).expect_err("the first batch waits for all"));
            refused(store.backup(&copy, |_| {}).map(drop).expect_err("it needs a view"));
        };
        store.default_map().get_with(b"k", inside).expect("get").expect("there");
        assert_eq!(store.default_map().get(b"b").expect("get"), None);
        // With a view open nobody has to be waited for.
        let view = store.view().expect("a view");
        let inside = |_: &[u8]| {
            let second = store.view().expect("another view");
            assert!(store.write(&batch).expect("room").is_done());
            assert_eq!(second.default_map().get(b"b").expect("get"), None);
        };
        store.default_map().get_with(b"k", inside).expect("get").expect("there");
        drop(view);
        assert_eq!(store.default_map().get(b"b").expect("get"), Some(b"1".to_vec()));
        is_sound(&store);
    });
}

/// A check called the space of a map that was being loaded leaked.
#[test]
fn a_check_waits_for_a_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    ends("checking beside a load", move || {
        let (inside, is_inside) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let loaded = store.clone();
        let loader = std::thread::spawn(move || {
            let pairs = (0..20_000u32).map(|number| {
                if number == 10_000 {
                    inside.send(()).expect("somebody waits");
                    may_go.recv().expect("it may go on");
                }
                (number.to_be_bytes(), [7; 300])
            });
            loaded.load_map("slow", pairs).expect("room").len()
        });
        is_inside.recv().expect("it loads");
        let (checked, may_end) = (store.clone(), Arc::new(AtomicBool::new(false)));
        let (begins, is_begun) = mpsc::channel::<()>();
        let checker = std::thread::spawn({
            let may_end = may_end.clone();
            move || {
                begins.send(()).expect("somebody waits");
                is_sound(&checked);
                assert!(may_end.load(Ordering::SeqCst), "a check ended in the middle of a load");
            }
        });
        is_begun.recv().expect("it begins");
        for number in 0..2000u32 {
            // Nobody else waits meanwhile, wherever the check is.
            store.default_map().put(number.to_be_bytes(), b"beside").expect("room");
            std::thread::yield_now();
        }
        let quick = store.load_map("quick", (0..9u8).map(|number| ([number], b"v")));
        assert_eq!(quick.expect("room").len(), 9, "another load waits for nobody");
        may_end.store(true, Ordering::SeqCst);
        go.send(()).expect("it waits");
        assert_eq!(loader.join().expect("no panic"), 20_000);
        checker.join().expect("nothing is leaked");
        // One after another, with checks all the time.
        let end = Arc::new(AtomicBool::new(false));
        let checker = std::thread::spawn({
            let (store, end) = (store.clone(), end.clone());
            move || {
                while !end.load(Ordering::Relaxed) {
                    is_sound(&store);
                }
            }
        });
        for round in 0..20u8 {
            let pairs = (0..3000u32).map(|number| (number.to_be_bytes(), [round; 100]));
            store.load_map("again", pairs).expect("room");
            let unsorted = store.load_map("bad", (0..3000u32).map(|number| ([number as u8], "")));
            assert!(matches!(unsorted, Err(Error::NotSorted(256))));
            store.drop_map("again").expect("writable");
        }
        end.store(true, Ordering::Relaxed);
        checker.join().expect("nothing is leaked");
    });
}

/// What a load had made until its pairs panicked was in nobody's books: a check called the pool leaking, and its space
/// was gone until the next opening.
#[test]
fn a_load_whose_pairs_panic_leaves_nothing_behind() {
    for tree in [Tree::NbTree, Tree::HashedLeaf] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 30).tree(tree);
        let store = options.open(folder.path().join("pool")).expect("the pool opens");
        let pairs = (0..20_000u32).map(|number| {
            assert!(number < 19_999, "the pairs end early");
            (number.to_be_bytes(), [7; 300])
        });
        let load = || store.load_map("loaded", pairs).map(drop);
        catch_unwind(AssertUnwindSafe(load)).expect_err("the panic is passed on");
        is_sound(&store);
        assert!(store.existing_map("loaded").expect("it looks").is_none(), "{tree:?}");
        let again = (0..9u8).map(|number| ([number], b"v"));
        assert_eq!(store.load_map("loaded", again).expect("room").len(), 9, "{tree:?}");
    }
}

/// It would wait for the load that it is called from; a check by another thread, or afterwards, does not.
#[test]
fn a_check_from_within_a_load_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    ends("checking within a load", move || {
        let pairs = (0..300u32).map(|number| {
            let error = store.check().expect_err("it would wait for this load");
            assert!(error.to_string().contains("called by a function"), "{error}");
            if number == 7 {
                let inner = store.load_map("inner", [("k", "v")]).expect("room");
                assert_eq!(inner.get("k").expect("get"), Some(b"v".to_vec()));
                store.check().expect_err("the outer load goes on");
            }
            (number.to_be_bytes(), b"v")
        });
        assert_eq!(store.load_map("outer", pairs).expect("room").len(), 300);
        is_sound(&store);
        // From within an operation a load begins, whichever thread wants to check.
        store.default_map().put(b"k", b"v").expect("room");
        let checker = store.default_map().get_with(b"k", |_| {
            let (begins, is_begun) = mpsc::channel::<()>();
            let checker = std::thread::spawn({
                let store = store.clone();
                move || {
                    begins.send(()).expect("somebody waits");
                    is_sound(&store);
                }
            });
            is_begun.recv().expect("it begins");
            for round in 0..20 {
                store.load_map(&format!("nested{round}"), [("k", "v")]).expect("room");
            }
            checker
        });
        checker.expect("get").expect("there").join().expect("nothing is leaked");
    });
}

/// A panic in a function of the user, wherever the store calls one, with and without a view: nothing
/// is changed, no session, stripe or pin is left, and views still show their moment.
#[test]
fn a_panic_in_a_closure_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let pairs: BTreeMap<Vec<u8>, Vec<u8>> =
        (0..200u8).map(|key| (vec![key], vec![key; 50])).collect();
    for (key, value) in &pairs {
        store.default_map().put(key, value).expect("room");
    }
    ends("going on after panics", move || {
        for with_view in [false, true] {
            let view = with_view.then(|| store.view().expect("a view"));
            for number in 0..40u8 {
                let key = [number];
                let all = [&key[..], &[199]];
                let panics: [&dyn Fn(); 5] = [
                    &|| drop(store.default_map().get_with(key, |_| panic!("planned"))),
                    &|| drop(store.default_map().update_with(key, |_| panic!("planned"))),
                    &|| drop(store.default_map().update_with(b"absent", |_| panic!("planned"))),
                    &|| drop(store.default_map().get_many(&all, |_, _| panic!("planned"))),
                    &|| {
                        let visit = |_: &[u8], _: &[u8]| -> ControlFlow<()> { panic!("planned") };
                        let scan = store.default_map().scan(..);
                        let scan = if number % 2 == 0 { scan.reverse() } else { scan };
                        drop(scan.visit(visit));
                    },
                ];
                for panics in panics {
                    catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
                }
            }
            assert!(store.default_map().iter().map(Result::unwrap).eq(pairs.clone()));
            if let Some(view) = &view {
                assert!(store.default_map().put([7], b"new").expect("room"));
                assert!(view.default_map().iter().map(Result::unwrap).eq(pairs.clone()));
                assert!(store.default_map().put([7], [7; 50]).expect("room"));
            }
            drop(view);
            // Both wait for pins, and the check for sessions.
            drop(store.view().expect("a view"));
            is_sound(&store);
        }
    });
}

/// Views, ranges and maps that outlive the store's own handle, the map, and the thread that made them.
#[test]
fn views_and_ranges_outlive_store_map_and_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    let store = open(folder.path());
    let map = store.map("side").expect("room");
    for key in 0..3000u32 {
        map.put(key.to_be_bytes(), b"then").expect("room");
    }
    let (view, range) = {
        let (store, map) = (store.clone(), map.clone());
        let made = std::thread::spawn(move || {
            let view = store.view().expect("a view").map(&map);
            let mut range = view.iter();
            assert!(range.next().is_some() && range.next_back().is_some());
            (view, range)
        });
        made.join().expect("no panic")
    };
    let mut live = map.iter();
    assert!(live.next().is_some_and(|pair| pair.is_ok()));
    assert!(store.drop_map("side").expect("writable"));
    assert_eq!(store.map("side").expect("room").len(), 0);
    assert!(matches!(live.by_ref().last(), Some(Err(Error::MapDropped))), "it says why it ends");
    assert!(live.next().is_none() && live.next_back().is_none());
    assert_eq!(range.map(Result::unwrap).count(), 2998);
    let store = Arc::into_inner(store).expect("nobody else has it");
    assert!(
        matches!(store.close(), Err(Error::StillOpen { views: 1, .. })),
        "the view keeps it open"
    );
    assert_eq!(view.get(7u32.to_be_bytes()).expect("get"), Some(b"then".to_vec()));
    assert!(Options::new().open(&pool).is_err());
    drop((view, live, map));
    let store = Options::new().open(&pool).expect("the last one closed it");
    assert!(store.statistics().was_clean);
    is_sound(&store);
}

/// Views are opened all the time while batches run and closures nest: a view that is opened from inside
/// of an operation may be refused, and never shows half a batch.
#[test]
fn views_open_from_inside_while_batches_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let keys: Vec<[u8; 1]> = (0..40u8).map(|key| [key]).collect();
    ends("opening views", move || {
        let (done, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0u64.. {
                    if done.load(Ordering::Acquire) {
                        return;
                    }
                    let mut batch = WriteBatch::new();
                    for key in &keys {
                        batch.put(store.default_map(), key, round.to_be_bytes());
                    }
                    assert!(store.write(&batch).expect("room").is_done());
                }
            });
            let look = |_: &[u8]| {
                let Ok(view) = store.view() else { return };
                // Relaxed: a count.
                opened.fetch_add(1, Ordering::Relaxed);
                let first = view.default_map().get(keys[0]).expect("get").expect("there");
                for key in &keys {
                    assert_eq!(
                        view.default_map().get(key).expect("get").as_deref(),
                        Some(&first[..])
                    );
                }
            };
            // Relaxed: a count.
            while opened.load(Ordering::Relaxed) < 300 {
                store.default_map().get_with(keys[1], look).expect("get");
                let view = store.view().expect("a view");
                let values: Vec<_> =
                    view.default_map().iter().map(Result::unwrap).map(|(_, value)| value).collect();
                assert!(values.windows(2).all(|pair| pair[0] == pair[1]));
            }
            done.store(true, Ordering::Release);
        });
        is_sound(&store);
        assert_eq!(store.statistics().view_bytes, 0);
    });
}

/// The order of locks was that of a thread, not of a store: a debug build panicked when a function that has
/// all stripes of one store used another.
#[test]
fn two_stores_are_used_inside_of_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str| {
        let options = Options::new().create(true).max_size_bytes(1 << 26);
        options.durability(everleaf::Durability::Power).open(folder.path().join(name))
    };
    let (one, other) = (open("one").expect("it opens"), open("other").expect("it opens"));
    let _ = other.default_map().put(b"key", b"value").expect("room");
    let used = || {
        let _ = other.default_map().put(b"count", other.default_map().len().to_be_bytes())?;
        other.map("another")?.clear()?;
        let mut batch = WriteBatch::new();
        batch.put(other.default_map(), b"batch", b"value");
        let _ = other.write(&batch)?;
        drop(other.view()?);
        let _ = other.write_alone(|alone, _| {
            assert_eq!(alone.len(), 3);
            Ok::<(), Error>(())
        })?;
        other.default_map().get(b"key")
    };
    let written = one.write_alone(|alone, batch| {
        assert_eq!(alone.len(), 0);
        batch.put(one.default_map(), b"key", used()?.expect("it is there"));
        Ok::<(), Error>(())
    });
    assert!(written.expect("room").is_done());
    let value = one.default_map().get_with(b"key", |value| (value.to_vec(), used().expect("room")));
    assert_eq!(value.expect("get"), Some((b"value".to_vec(), Some(b"value".to_vec()))));
}

/// It would wait for itself.
#[cfg(debug_assertions)]
#[test]
fn a_function_that_has_all_stripes_does_not_use_its_own_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(1 << 26);
    let store = options.open(folder.path().join("pool")).expect("it opens");
    let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.write_alone(|_, _| store.default_map().get(b"key").map(drop))
    }));
    assert!(used.is_err());
    assert_eq!(store.default_map().get(b"key").expect("nobody has the stripes"), None);
}
