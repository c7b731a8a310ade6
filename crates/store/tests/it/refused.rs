//! An opening that is refused changes nothing, and no pool is replaced by the log of another.
//!
//! What was lost: a pool that was closed cleanly, beside which the log of another pool had come to lie,
//! was refused, which is right, and stayed marked as not closed. After the next start of the machine it
//! counted as lost, and opening it put the contents of the other log in its place.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf::{Durability, Error, Options, Store};
use everleaf_index::{Pool, PoolOptions, Trees};

fn options(durability: Durability) -> Options {
    Options::new().create(true).max_size_bytes(1 << 28).durability(durability)
}

/// A store with one key, closed.
fn make(path: &Path, durability: Durability, key: &[u8]) {
    let store = options(durability).open(path).expect("it opens");
    let _ = store.default_map().put(key, b"value").expect("room");
    store.close().expect("it closes");
}

/// Lets the pool file seem to be from before the last start of the machine.
fn another_boot(path: &Path) {
    set_boot(path, 0x5A);
}

fn set_boot(path: &Path, byte: u8) {
    let file = fs::File::options().read(true).write(true).open(path).expect("there");
    for offset in [256, 4096 + 256] {
        let mut session = [0; 64];
        file.read_exact_at(&mut session, offset).expect("readable");
        session[24..40].fill(byte);
        let sum = everleaf_log::checksum(&session[..56]);
        session[56..60].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&session, offset).expect("room");
    }
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("log")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).expect("room");
    for file in fs::read_dir(from).expect("a folder") {
        let file = file.expect("readable");
        fs::copy(file.path(), to.join(file.file_name())).expect("room");
    }
}

/// Puts the log of another pool beside this one.
fn put_foreign_log(folder: &Path, path: &Path) {
    let other = folder.join("other");
    make(&other, Durability::Power, b"of another");
    copy_folder(&folder.join("other.log"), &log_of(path));
}

/// The pool as a process leaves it that is killed while it has it open, before the machine is started
/// anew.
fn crash(path: &Path, options: Options) {
    let image = path.with_extension("image");
    let store = options.open(path).expect("it opens");
    let _ = store.default_map().put(b"last", b"value").expect("room");
    fs::copy(path, &image).expect("room");
    drop(store);
    fs::rename(image, path).expect("there");
    another_boot(path);
}

/// What is in the way of an opening with some durability: it is put into a folder, beside a pool.
type Refusal = (&'static str, fn(&Path, &Path), Durability);

fn refusals() -> Vec<Refusal> {
    vec![
        ("a foreign log", put_foreign_log, Durability::Power),
        ("a foreign log, and none wanted", put_foreign_log, Durability::Process),
        (
            "a log that cannot be read",
            |_, path| fs::create_dir_all(log_of(path).join("identity")).expect("room"),
            Durability::Power,
        ),
        (
            "a map of integers",
            |_, path| {
                let pool = Pool::open(path, &PoolOptions::default()).expect("it opens");
                let trees: Trees = Trees::open(pool, 1).expect("it opens");
                trees.u64_tree("numbers").expect("room");
                trees.close().expect("it closes");
            },
            Durability::Power,
        ),
        (
            "a pool of another program",
            |_, path| {
                let pool = Pool::open(path, &PoolOptions::default()).expect("it opens");
                let trees: Trees = Trees::open(pool, 1).expect("it opens");
                let code = 0x7FFF;
                trees.heap().pool().create_root("another", code, 1).expect("room");
                trees.close().expect("it closes");
            },
            Durability::Process,
        ),
        ("a damaged heap header", |_, path| damage(path, false), Durability::Process),
        ("a damaged chunk header", |_, path| damage(path, true), Durability::Process),
    ]
}

/// Overwrites the first word of the heap's header, or that of its first chunk.
fn damage(path: &Path, chunk: bool) {
    let read_only = PoolOptions { read_only: true, ..PoolOptions::default() };
    let pool: Pool<everleaf_index::Hardware> = Pool::open(path, &read_only).expect("it opens");
    let header = pool.data_start();
    drop(pool);
    let file = fs::File::options().read(true).write(true).open(path).expect("there");
    let mut shift = [0; 8];
    file.read_exact_at(&mut shift, header + 8).expect("readable");
    let first = (header + 1024).next_multiple_of(1 << u64::from_le_bytes(shift));
    file.write_all_at(&[0xFF; 8], if chunk { first } else { header }).expect("room");
}

#[test]
fn an_opening_that_is_refused_leaves_the_pool_closed() {
    for (what, spoil, durability) in refusals() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        make(&path, Durability::Process, b"key");
        spoil(folder.path(), &path);
        let error = options(durability).open(&path).map(drop).expect_err(what).to_string();
        another_boot(&path);
        let again = options(durability).open(&path).map(drop).expect_err(what).to_string();
        assert_eq!(error, again, "{what}: the pool was left as it was found");
        if what == "a pool of another program" || what.starts_with("a damaged") {
            continue;
        }
        let read_only = Options::new().read_only(true);
        if what.starts_with("a foreign log") {
            // Nobody can say whether the pool is what it was beside another log.
            let error = read_only.clone().open(&path).map(drop).expect_err(what).to_string();
            assert!(error.contains("not the one of this pool"), "{what}: {error}");
            let log = log_of(&path);
            fs::rename(&log, log.with_extension("aside")).expect("there");
        }
        let store = read_only.open(&path).expect(what);
        assert_eq!(
            store.default_map().get(b"key").expect("readable").as_deref(),
            Some(&b"value"[..])
        );
        let report = store.check().expect("it can be checked");
        assert!(report.is_complete && report.problems.is_empty(), "{what}: {report:?}");
    }
}

#[test]
fn a_pool_is_not_replaced_by_the_log_of_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    make(&path, Durability::Process, b"key");
    crash(&path, options(Durability::Process));
    put_foreign_log(folder.path(), &path);
    let before = fs::read(&path).expect("there");
    let error = options(Durability::Power).open(&path).map(drop).expect_err("it is not its log");
    let text = error.to_string();
    assert!(matches!(error, Error::Corrupt(_)), "{text}");
    assert!(text.contains("of another pool") && text.contains("pool.log"), "{text}");
    assert!(fs::read(&path).expect("there") == before, "nothing was changed");
}

#[test]
fn a_pool_that_took_the_place_of_another_has_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    make(&path, Durability::Power, b"key");
    for round in 0..3 {
        crash(&path, options(Durability::Power));
        let store = options(Durability::Power).open(&path).expect("it is rebuilt");
        assert!(store.rebuilt().is_some(), "round {round}");
        assert_eq!(store.default_map().len(), 2, "round {round}");
        store.close().expect("it closes");
        if round == 1 {
            let _ = Store::compact(&path, |_| {}).expect("room");
        }
    }
    assert!(!folder.path().join("pool.replaced").exists());
}

/// What was lost: where the number of the boot is not to be read, as without /proc, every kill was taken for a crash of
/// the machine, and the pool, which had what was not synced yet, was replaced by what the log had.
#[test]
fn a_pool_that_may_be_whole_is_kept_when_it_is_rebuilt() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, kept) = (folder.path().join("pool"), folder.path().join("pool.replaced"));
    for (byte, is_kept) in [(0x5A, false), (0x0A, true)] {
        let power = Durability::Power;
        make(&path, power, b"key");
        crash(&path, options(power));
        set_boot(&path, byte);
        let store = options(power).open(&path).expect("it is rebuilt");
        let told = store.rebuilt().expect("it was").kept.clone();
        assert_eq!(told, is_kept.then(|| kept.clone()), "a user who looks for it is told where");
        drop(store);
        assert_eq!(kept.exists(), is_kept);
        fs::remove_file(&path).expect("there");
        fs::remove_dir_all(log_of(&path)).expect("there");
    }
    let trusted = Options::new().trust_after_machine_crash(true).open(&kept).expect("it opens");
    assert!(!trusted.default_map().is_empty());
}

/// As older versions left it: nothing says of which pool the log is, but that its own number begins like
/// that of the pool it was made for.
#[test]
fn a_pool_that_an_old_log_does_not_know_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, kept) = (folder.path().join("pool"), folder.path().join("pool.replaced"));
    let forget = || fs::write(log_of(&path).join("settings"), "268435456 0\n").expect("room");
    make(&path, Durability::Power, b"key");
    crash(&path, options(Durability::Power));
    forget();
    let store = options(Durability::Power).open(&path).expect("it is rebuilt");
    assert_eq!(store.default_map().len(), 2);
    drop(store);
    assert!(!kept.exists(), "the log was made for it");
    // One that took its place meanwhile, or was always another.
    fs::remove_file(&path).expect("there");
    let aside = folder.path().join("aside");
    make(&aside, Durability::Process, b"precious");
    crash(&aside, options(Durability::Process));
    fs::rename(&aside, &path).expect("there");
    forget();
    let store = options(Durability::Power).open(&path).expect("it is rebuilt");
    assert_eq!(store.default_map().get(b"precious").expect("readable"), None);
    drop(store);
    let trusted = Options::new().trust_after_machine_crash(true).open(&kept).expect("it opens");
    assert_eq!(
        trusted.default_map().get(b"precious").expect("readable").as_deref(),
        Some(&b"value"[..])
    );
}

#[test]
fn nothing_is_restored_or_repaired_beside_a_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, backup) = (folder.path().join("pool"), folder.path().join("backup"));
    make(&backup, Durability::Process, b"key");
    make(&path, Durability::Power, b"newer");
    fs::remove_file(&path).expect("the pool is lost");
    let restored = Store::restore(&backup, &path, |_| {}).map(drop).expect_err("there is a log");
    let repaired = Store::repair(&backup, &path).map(drop).expect_err("there is a log");
    for error in [restored, repaired] {
        let text = error.to_string();
        assert!(text.contains("pool.log") && text.contains("move the log away"), "{text}");
    }
    assert!(!path.exists());
    let store = options(Durability::Power).open(&path).expect("it is rebuilt");
    assert_eq!(
        store.default_map().get(b"newer").expect("readable").as_deref(),
        Some(&b"value"[..])
    );
    drop(store);
    fs::remove_file(&path).expect("there");
    fs::rename(log_of(&path), folder.path().join("away")).expect("there");
    assert_eq!(Store::restore(&backup, &path, |_| {}).expect("nothing is in the way").keys, 1);
}

/// The log of a pool is lost, and then the machine crashes: what is left of the pool is not proven by
/// anything, and is refused with what can be done, however it is opened. What was lost is what is in such a pool: the
/// refusal named no flag with which it opens.
#[test]
fn a_pool_without_its_log_is_refused_after_a_machine_crash() {
    for durability in [Durability::Power, Durability::Interval(Duration::from_secs(1))] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        make(&path, durability, b"key");
        crash(&path, options(durability));
        fs::remove_dir_all(log_of(&path)).expect("there");
        let before = fs::read(&path).expect("there");
        for options in [
            options(durability),
            options(Durability::Process),
            Options::new().create(true),
            Options::new().read_only(true),
        ] {
            let error = options.open(&path).map(drop).expect_err("nothing proves it");
            let text = error.to_string();
            assert!(matches!(error, Error::MachineCrashed(_)), "{text}");
            assert!(
                text.contains("--trust-after-machine-crash") && text.contains("repair"),
                "{text}"
            );
        }
        assert!(fs::read(&path).expect("there") == before, "nothing was changed");
        assert!(!log_of(&path).exists(), "no log was made");
        let trusted = options(durability).trust_after_machine_crash(true);
        assert_eq!(trusted.open(&path).expect("it is wanted").default_map().len(), 2);
    }
}

/// A pool is trusted after a crash of the machine although its log is there: what counts is the log.
#[test]
fn trust_does_not_put_a_torn_pool_before_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    make(&path, Durability::Power, b"key");
    crash(&path, options(Durability::Power));
    // As the disk may leave it: the pages of the values never came there.
    let mut torn = fs::read(&path).expect("there");
    let values: Vec<usize> = torn
        .windows(5)
        .enumerate()
        .filter(|(_, bytes)| bytes == b"value")
        .map(|(at, _)| at)
        .collect();
    assert!(!values.is_empty());
    values.iter().for_each(|at| torn[*at..*at + 5].copy_from_slice(b"torn!"));
    fs::write(&path, torn).expect("room");
    let read_only = Options::new().read_only(true).trust_after_machine_crash(true);
    let error = read_only.open(&path).map(drop).expect_err("the log has to be read");
    let text = error.to_string();
    assert!(text.contains("pool.log") && text.contains("everleaf snapshot"), "{text}");
    let trusted = options(Durability::Power).trust_after_machine_crash(true);
    let store = trusted.open(&path).expect("it is rebuilt");
    assert!(store.rebuilt().is_some());
    let value = store.default_map().get(b"key").expect("readable");
    assert_eq!(value.as_deref(), Some(&b"value"[..]));
}

/// The kind of an answer stood behind the answer itself.
#[test]
fn what_the_log_is_answered_is_told_once() {
    let refused = everleaf_log::RealDisk::open("/none/such/folder").expect_err("no folder");
    let text = refused.to_string();
    assert!(text.ends_with("(os error 2)"), "{text}");
    let error = Error::from(refused);
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, Error::Io(_, error) if error.kind() == std::io::ErrorKind::NotFound));
}

#[test]
fn who_lacks_a_descriptor_is_told_of_the_limit() {
    let told = |code| Error::Io("it".into(), std::io::Error::from_raw_os_error(code)).to_string();
    let (mine, all, other) = (told(24), told(23), told(2));
    assert!(mine.contains("`ulimit -n`, which is "), "{mine}");
    assert!(all.contains("`sysctl fs.file-max`"), "{all}");
    assert!(!other.contains("limit"), "{other}");
}

/// A log on a disk that was not mounted at one start: the pool got another one, and was rebuilt from the old one when
/// the machine had crashed and the disk was there again. What had been acknowledged since was lost without a word.
#[test]
fn a_log_that_was_away_for_a_while_replaces_no_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let (log, aside) = (log_of(&path), folder.path().join("aside"));
    make(&path, Durability::Power, b"before");
    fs::rename(&log, &aside).expect("there");
    fs::create_dir(&log).expect("room");
    make(&path, Durability::Power, b"meanwhile");
    crash(&path, options(Durability::Power));
    let newer = folder.path().join("newer");
    fs::rename(&log, &newer).expect("there");
    fs::rename(&aside, &log).expect("there");
    let bytes = fs::read(&path).expect("there");
    for _ in 0..2 {
        let error = options(Durability::Power).open(&path).map(drop).expect_err("another log");
        assert!(error.to_string().contains("not the one of this pool"), "{error}");
    }
    assert!(fs::read(&path).expect("there") == bytes);
    fs::rename(&log, &aside).expect("there");
    fs::rename(&newer, &log).expect("there");
    let store = options(Durability::Power).open(&path).expect("its own");
    for key in ["before", "meanwhile", "last"] {
        assert!(store.default_map().contains(key).expect("sound"), "{key}");
    }
}

/// Demands that a pool that went on without its log, and whose machine crashed, is refused when the log is back, and
/// has all that was written to it when that is away.
fn is_not_replaced_by(path: &Path, aside: &Path) {
    let log = log_of(path);
    fs::rename(aside, &log).expect("there");
    for durability in [Durability::Power, Durability::Process] {
        let error = options(durability).open(path).map(drop).expect_err("not its log any more");
        assert!(matches!(error, Error::Corrupt(_) | Error::MachineCrashed(_)), "{error}");
    }
    fs::rename(&log, aside).expect("there");
    let trusted = Options::new().trust_after_machine_crash(true).open(path).expect("it is whole");
    for key in ["before", "meanwhile", "last"] {
        assert!(trusted.default_map().contains(key).expect("sound"), "{key}");
    }
}

/// The same without a log meanwhile: the header went on naming the old one, which was whole and its own.
#[test]
fn a_log_that_a_pool_went_on_without_replaces_it_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let (log, aside) = (log_of(&path), folder.path().join("aside"));
    make(&path, Durability::Power, b"before");
    fs::rename(&log, &aside).expect("there");
    make(&path, Durability::Process, b"meanwhile");
    crash(&path, options(Durability::Process));
    is_not_replaced_by(&path, &aside);
}

/// The same with an older copy of its own log: only the pool that was closed had been compared with it.
#[test]
fn an_older_copy_of_a_log_replaces_no_newer_pool() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let (log, older) = (log_of(&path), folder.path().join("older"));
    make(&path, Durability::Power, b"before");
    copy_folder(&log, &older);
    make(&path, Durability::Power, b"meanwhile");
    crash(&path, options(Durability::Power));
    let newer = folder.path().join("newer");
    fs::rename(&log, &newer).expect("there");
    copy_folder(&older, &log);
    let error = options(Durability::Power).open(&path).map(drop).expect_err("it is older");
    assert!(error.to_string().contains("is an older copy of the one"), "{error}");
    // A user who has nothing newer says so by moving the pool away.
    let away = folder.path().join("away");
    fs::rename(&path, &away).expect("there");
    let store = options(Durability::Power).open(&path).expect("it is rebuilt");
    assert_eq!(store.default_map().len(), 1);
    drop(store);
    fs::remove_dir_all(&log).expect("there");
    fs::rename(&newer, &log).expect("there");
    fs::rename(&away, &path).expect("there");
    let store = options(Durability::Power).open(&path).expect("its own");
    assert_eq!(store.default_map().len(), 3);
}

/// The same behind a compaction: the new file said nothing of a log, so the old one replaced it, and nothing was kept.
#[test]
fn a_compacted_pool_says_in_its_header_which_log_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let (log, aside) = (log_of(&path), folder.path().join("aside"));
    make(&path, Durability::Power, b"before");
    fs::rename(&log, &aside).expect("there");
    make(&path, Durability::Process, b"meanwhile");
    Store::compact(&path, |_| {}).expect("room");
    crash(&path, options(Durability::Process));
    is_not_replaced_by(&path, &aside);
}

/// And one with its log, where nothing opened it since: beside an older copy of that.
#[test]
fn a_compacted_pool_is_not_rebuilt_from_an_older_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let (log, older) = (log_of(&path), folder.path().join("older"));
    make(&path, Durability::Power, b"before");
    copy_folder(&log, &older);
    make(&path, Durability::Power, b"meanwhile");
    Store::compact(&path, |_| {}).expect("room");
    another_boot(&path);
    // The pool is lost: its headers are whole, and it has no more than its beginning.
    let file = fs::File::options().write(true).open(&path).expect("there");
    file.set_len(1 << 14).expect("it is cut");
    fs::remove_dir_all(&log).expect("there");
    fs::rename(&older, &log).expect("there");
    let error = options(Durability::Power).open(&path).map(drop).expect_err("it is older");
    assert!(error.to_string().contains("is an older copy of the one"), "{error}");
}

/// A process that was killed before the machine was started anew in order: its pool has everything on the disk, and the
/// log lacks the last interval. The pool was replaced and removed.
#[test]
fn a_pool_with_a_log_in_intervals_is_kept_when_it_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let interval = Durability::Interval(Duration::from_secs(3600));
    make(&path, interval, b"before");
    crash(&path, options(interval));
    let store = options(interval).open(&path).expect("it is rebuilt");
    let kept = store.rebuilt().and_then(|rebuilt| rebuilt.kept.clone()).expect("it is kept");
    drop(store);
    {
        let trusted = Options::new().trust_after_machine_crash(true);
        let trusted = trusted.open(&kept).expect("it is whole");
        assert!(trusted.default_map().contains("last").expect("sound"));
    }
    // The next one takes its place: there is one at most.
    for round in 0..2 {
        let store = options(interval).open(&path).expect("it opens");
        store.default_map().put("round", [round]).expect("room");
        drop(store);
        crash(&path, options(interval));
        let store = options(interval).open(&path).expect("it is rebuilt");
        assert_eq!(store.rebuilt().and_then(|it| it.kept.clone()).as_ref(), Some(&kept));
    }
    assert!(!folder.path().join("pool.replaced-2").exists());
}

/// The same pool behind a link, with the log beside the link, as older versions had it: what was kept was the link,
/// which led to the new pool.
#[test]
fn a_pool_behind_a_link_is_kept_and_not_the_link() {
    let interval = Durability::Interval(Duration::from_secs(3600));
    for (ending, is_pool) in [(".replaced", true), (".no-pool", false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, data) = (folder.path().join("pool"), folder.path().join("data"));
        make(&path, interval, b"before");
        crash(&path, options(interval));
        fs::create_dir(&data).expect("room");
        let file = data.join("words");
        fs::rename(&path, &file).expect("there");
        if !is_pool {
            fs::write(&file, b"of another program").expect("room");
        }
        let before = fs::read(&file).expect("there");
        std::os::unix::fs::symlink(&file, &path).expect("room");
        let store = options(interval).open(&path).expect("it is rebuilt");
        let kept = store.rebuilt().and_then(|it| it.kept.clone()).expect("it is kept");
        drop(store);
        assert_eq!(kept, data.join(format!("words{ending}")));
        assert!(fs::symlink_metadata(&kept).expect("there").is_file());
        assert!(fs::read(&kept).expect("there") == before, "{ending}: it is another file");
    }
}

/// The log of such a pool had lost the file that says so, and counted as one in which everything is; and a pool that
/// was damaged besides was removed, though `repair` finds in it what the log does not have.
#[test]
fn a_pool_that_may_have_more_than_its_log_is_kept() {
    let interval = Durability::Interval(Duration::from_secs(3600));
    let settings = |path: &Path| log_of(path).join("settings");
    type Case = (&'static str, Durability, fn(&Path, &Path), bool);
    let cut: fn(&Path, &Path) = |path, _| {
        let file = fs::File::options().write(true).open(path).expect("there");
        file.set_len(file.metadata().expect("there").len() - 4096).expect("room");
    };
    let cases: [Case; 5] = [
        ("settings that are gone", interval, |_, it| fs::remove_file(it).expect("there"), true),
        (
            "settings that are damaged",
            interval,
            |_, it| fs::write(it, "1 0 x").expect("room"),
            true,
        ),
        ("a pool that is cut short", interval, cut, true),
        ("a log that has all, and a pool that is cut short", Durability::Power, cut, false),
        ("no pool", interval, |path, _| fs::remove_file(path).expect("there"), false),
    ];
    for (what, durability, spoil, is_kept) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        make(&path, durability, b"before");
        crash(&path, options(durability));
        spoil(&path, &settings(&path));
        let before = fs::read(&path).unwrap_or_default();
        let store = Options::new().open(&path).expect(what);
        let kept = store.rebuilt().expect(what).kept.clone();
        assert!(store.default_map().contains("before").expect("sound"), "{what}");
        assert_eq!(kept.is_some(), is_kept, "{what}");
        assert!(kept.is_none_or(|kept| fs::read(kept).expect("there") == before), "{what}");
    }
}
