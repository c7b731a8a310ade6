//! `everleaf export --to redis-cluster://` and `import redis-cluster://`, with three masters of Redis or Valkey that
//! the test makes a cluster of, as far as they are installed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say what they skip"
)]

use crate::common::PoolFolder;
use crate::redis::{Redis, SERVERS, fill, free_port};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First and last slot of each master.
const SHARES: [(u16, u16); 3] = [(0, 5460), (5461, 10_922), (10_923, 16_383)];
/// The slot of the key `s`, which is of the first share.
const SLOT_OF_S: &str = "3828";

/// How often an export is tried that is to meet a slot that moves.
const ROUND_COUNT_MAX: usize = 5;

/// Three masters, and the folders of their files.
struct Masters {
    servers: Vec<Redis>,
    /// Used if there are certificates.
    tls_ports: Vec<u16>,
    _folders: Vec<PoolFolder>,
}

impl Masters {
    /// `None`, which is told, where there is no such server.
    fn start(program: &str) -> Option<Self> {
        Self::start_with(program, None)
    }

    /// The same, with ports for TLS, which is also spoken among the servers, if there are certificates.
    fn start_with(program: &str, certificates: Option<&PoolFolder>) -> Option<Self> {
        let mut masters =
            Masters { servers: Vec::new(), tls_ports: Vec::new(), _folders: Vec::new() };
        let mut places = Vec::new();
        for (first, last) in SHARES {
            let (folder, bus, tls_port) = (PoolFolder::empty(), free_port(), free_port());
            let bus = bus.to_string();
            let mut arguments = [
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-require-full-coverage",
                "yes",
                "--cluster-node-timeout",
                "1500",
            ]
            .map(String::from)
            .to_vec();
            if let Some(certificates) = certificates {
                let file = |name| certificates.path(name).to_str().unwrap().to_string();
                let (port, yes) = (tls_port.to_string(), "yes".to_string());
                for (name, value) in [
                    ("--tls-port", port),
                    ("--tls-cluster", yes),
                    ("--tls-ca-cert-file", file("ca.pem")),
                    ("--tls-cert-file", file("server.pem")),
                    ("--tls-key-file", file("server.key")),
                    ("--tls-auth-clients", "no".to_string()),
                ] {
                    arguments.extend([name.to_string(), value]);
                }
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let server = Redis::start(program, &folder, &arguments)?;
            server.run(&format!("cluster addslotsrange {first} {last}\n"));
            places.push((if certificates.is_some() { tls_port } else { server.port }, bus));
            masters.servers.push(server);
            masters.tls_ports.push(tls_port);
            masters._folders.push(folder);
        }
        let servers = &masters.servers;
        for (port, bus) in &places[1..] {
            servers[0].run(&format!("cluster meet 127.0.0.1 {port} {bus}\n"));
        }
        let is_whole = |server: &Redis| {
            let info = server.run("cluster info\n");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        masters.wait_until(|| masters.servers.iter().all(is_whole));
        Some(masters)
    }

    /// Asks again and again: a cluster tells nobody when its members have agreed.
    fn wait_until(&self, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "the cluster does not get there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn address(&self, number: usize) -> String {
        format!("redis-cluster://127.0.0.1:{}", self.servers[number].port)
    }

    fn tls_address(&self, number: usize) -> String {
        format!("rediss-cluster://127.0.0.1:{}", self.tls_ports[number])
    }

    fn id(&self, number: usize) -> String {
        self.servers[number].run("cluster myid\n").trim().to_string()
    }

    fn key_counts(&self) -> Vec<u64> {
        let count_of = |server: &Redis| server.run("dbsize\n").trim().parse().unwrap();
        self.servers.iter().map(count_of).collect()
    }

    fn empty(&self) {
        self.servers.iter().for_each(|server| drop(server.run("flushall\n")));
    }

    /// Lets a slot begin to move.
    fn open_slot(&self, slot: &str, from: usize, to: usize) {
        self.servers[to].run(&format!("cluster setslot {slot} importing {}\n", self.id(from)));
        self.servers[from].run(&format!("cluster setslot {slot} migrating {}\n", self.id(to)));
    }

    /// Brings the rest of a slot's keys over, and lets it belong there.
    fn close_slot(&self, slot: &str, from: usize, to: usize) {
        let keys = self.servers[from].run(&format!("cluster getkeysinslot {slot} 1000\n"));
        for key in keys.lines().filter(|key| !key.is_empty()) {
            let port = self.servers[to].port;
            self.servers[from].run(&format!("migrate 127.0.0.1 {port} {key} 0 5000 replace\n"));
        }
        for number in [to, from] {
            self.servers[number].run(&format!("cluster setslot {slot} node {}\n", self.id(to)));
        }
        let place = format!("127.0.0.1:{}", self.servers[to].port);
        let is_known = |server: &Redis| {
            let told = server.run("get s\n");
            match server.port == self.servers[to].port {
                true => !told.contains("MOVED"),
                false => told.contains("MOVED") && told.contains(&place),
            }
        };
        self.wait_until(|| self.servers.iter().all(is_known));
    }

    /// Does something while the slot of the key `s` goes back and forth between the first server and the third, which
    /// are 0 and 2; it begins and ends where it is then.
    fn while_a_slot_moves<R>(&self, from: &mut usize, act: impl FnOnce() -> R) -> R {
        let acting = Arc::new(());
        let watch = Arc::downgrade(&acting);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while watch.strong_count() > 0 {
                    let to = 2 - *from;
                    self.open_slot(SLOT_OF_S, *from, to);
                    self.close_slot(SLOT_OF_S, *from, to);
                    *from = to;
                }
            });
            let done = act();
            drop(acting);
            done
        })
    }
}

/// A pool with the keys of all types of one database, one with those of several, and a server that is no cluster, with
/// what it tells of the keys of the first.
fn filled_pool(program: &str, place: &PoolFolder) -> Option<(Redis, String)> {
    let redis = Redis::start(program, place, &[])?;
    fill(&redis);
    place.run(["import", &redis.address(), "all.pool"]).succeeded();
    place.run(["import", &format!("{}/0", redis.address()), "one.pool"]).succeeded();
    let digest = digest_of(&redis, place, "one.pool");
    Some((redis, digest))
}

/// What a server tells of the keys of a pool, which are all it has then.
fn digest_of(redis: &Redis, place: &PoolFolder, pool: &str) -> String {
    place.run(["export", pool, "--format", "resp", "--output", "pool.resp"]).succeeded();
    redis.run("flushall\n");
    redis.pipe(&place.path("pool.resp"));
    redis.digest()
}

#[test]
fn a_pool_goes_into_a_cluster_and_back() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some((redis, before)) = filled_pool(program, &place) else { continue };
        let masters = Masters::start(program).unwrap();
        let to = |number| masters.address(number);
        let refused = place.run(["export", "all.pool", "--to", &to(0)]).failed(1);
        assert!(refused.contains("database 3") && refused.contains("nothing was"), "{refused}");
        assert_eq!(masters.key_counts(), [0, 0, 0]);
        let told = place.run(["export", "one.pool", "--to", &to(0)]).succeeded();
        assert!(told.starts_with("exported 613 keys to 3 masters"), "{told}");
        assert!(told.contains("compared with the pool"), "{told}");
        assert!(masters.key_counts().iter().all(|count| *count > 100));
        let full = place.run(["export", "one.pool", "--to", &to(1)]).failed(2);
        assert!(full.contains("613 keys") && full.contains("FLUSHALL"), "{full}");
        for size in ["1000", "100000000"] {
            let pool = format!("{size}.pool");
            let told = place.run(["import", &to(1), &pool, "--whole-size-max", size]).succeeded();
            assert!(told.starts_with("imported 613 keys of 1 database"), "{told}");
            assert_eq!(digest_of(&redis, &place, &pool), before, "{size}");
        }
        masters.empty();
        let json = place.run(["export", "one.pool", "--to", &to(2), "--json"]).json();
        assert_eq!((&json["keys"], &json["servers"]), (&613.into(), &3.into()));
        assert_eq!((&json["redirected"], &json["verified"]), (&0.into(), &true.into()));
        assert_eq!(json["target"], to(2));
    }
}

/// Makes an authority, and a certificate of it for this machine; says whether there is a program for that.
fn make_certificates(place: &PoolFolder) -> bool {
    std::fs::write(place.path("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let authority = [
        "req",
        "-x509",
        "-days",
        "2",
        "-subj",
        "/CN=authority",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
    ];
    let request = ["req", "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr"];
    let signed = [
        "x509",
        "-req",
        "-days",
        "2",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "server.pem",
        "-extfile",
        "names",
    ];
    for arguments in
        [[&authority[..], &key].concat(), [&request[..], &key].concat(), signed.to_vec()]
    {
        let made = Command::new("openssl").current_dir(place.path("")).args(&arguments).output();
        let Ok(made) = made else {
            let may_lack = std::env::var_os("EVERLEAF_TEST_ALL_PROGRAMS").is_none();
            assert!(may_lack, "there is no openssl");
            println!("skipped: there is no openssl");
            return false;
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    true
}

/// Each server tells at which ports the others speak TLS, and is sent its keys there; also one of a slot that has
/// moved.
#[test]
fn a_pool_goes_into_a_cluster_and_back_by_tls() {
    for program in SERVERS {
        let (place, certificates) = (PoolFolder::empty(), PoolFolder::empty());
        let Some((redis, before)) = filled_pool(program, &place) else { continue };
        if !make_certificates(&certificates) {
            return;
        }
        let masters = Masters::start_with(program, Some(&certificates)).unwrap();
        let authority = certificates.path("ca.pem");
        let to = ["--cacert", authority.to_str().unwrap()];
        let export = ["export", "one.pool", "--to", &masters.tls_address(0)];
        let unknown = place.run(export).failed(7);
        assert!(unknown.contains("certificate"), "{unknown}");
        let told = place.run([&export[..], &to].concat()).succeeded();
        assert!(told.starts_with("exported 613 keys to 3 masters"), "{told}");
        assert!(told.contains("compared with the pool"), "{told}");
        assert!(masters.key_counts().iter().all(|count| *count > 100));
        let import = ["import", &masters.tls_address(1), "back.pool"];
        let told = place.run([&import[..], &to].concat()).succeeded();
        assert!(told.starts_with("imported 613 keys of 1 database"), "{told}");
        assert_eq!(digest_of(&redis, &place, "back.pool"), before);
        // The plain ports are not what a client of TLS is sent to.
        masters.empty();
        masters.open_slot(SLOT_OF_S, 0, 2);
        let export = [&export[..], &to, &["--no-verify", "--json"]].concat();
        let json = place.run(export).json();
        assert_eq!((&json["keys"], &json["redirected"]), (&613.into(), &1.into()));
    }
}

/// Of one master alone a part of the keys would be taken for all of them.
#[test]
fn an_import_of_one_master_is_told_of_the_others() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(masters) = Masters::start(program) else { continue };
        masters.servers[0].run("set s v\n");
        let single = masters.servers[0].address();
        let told = place.run(["import", &single, "one.pool"]);
        let cluster = masters.address(0);
        assert!(
            told.err.contains("one of 3 masters") && told.err.contains(&cluster),
            "{}",
            told.err
        );
        assert!(told.code == 0 && told.text().starts_with("imported 1 key"), "{}", told.text());
        place.run(["import", &single, "two.pool", "--quiet"]).succeeded();
        let Some(alone) = Redis::start(program, &place, &[]) else { continue };
        place.run(["import", &alone.address(), "three.pool"]).succeeded();
    }
}

/// What a server says of each key of a slot that moves: those that are new go where it moves to.
#[test]
fn slots_move_while_a_pool_goes_into_a_cluster() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some((redis, before)) = filled_pool(program, &place) else { continue };
        let masters = Masters::start(program).unwrap();
        masters.open_slot(SLOT_OF_S, 0, 2);
        let export = ["export", "one.pool", "--to", &masters.address(0)];
        let refused = place.run(export).failed(7);
        assert!(refused.contains("slots") && refused.contains("was not compared"), "{refused}");
        let refused = place.run(["import", &masters.address(1), "new.pool"]).failed(7);
        assert!(refused.contains("slots") && !place.path("new.pool").exists(), "{refused}");
        masters.close_slot(SLOT_OF_S, 0, 2);
        let told = place.run(["import", &masters.address(1), "back.pool"]).succeeded();
        assert!(told.starts_with("imported 613 keys"), "{told}");
        assert_eq!(digest_of(&redis, &place, "back.pool"), before);
        // Back and forth, until all is there; and again, a few times, if no key has met it: that is a matter of chance.
        let mut from = 2;
        let met = (0..ROUND_COUNT_MAX).any(|_| {
            masters.empty();
            let json = masters.while_a_slot_moves(&mut from, || {
                place.run([&export[..], &["--no-verify", "--json"]].concat()).json()
            });
            assert_eq!(json["keys"], 613);
            json["redirected"] != 0
        });
        if !met {
            println!("no key was redirected in {ROUND_COUNT_MAX} rounds of {program}");
        }
        place.run(["import", &masters.address(1), "again.pool"]).succeeded();
        assert_eq!(digest_of(&redis, &place, "again.pool"), before);
    }
}

/// What was missed: a slot that had moved, of which the server that was asked had not heard yet. Its keys were with
/// the server that had been read before, or with none that was read.
#[test]
fn servers_that_tell_of_other_shares_are_no_cluster_at_rest() {
    for program in SERVERS {
        let place = PoolFolder::with_pool();
        let Some(masters) = Masters::start(program) else { continue };
        place.run(["import", &masters.address(0), "before.pool"]).succeeded();
        // The third hears of it when one of the others tells, or never.
        masters.servers[1].run(&format!("cluster setslot {SLOT_OF_S} node {}\n", masters.id(2)));
        let refused = place.run(["import", &masters.address(0), "new.pool"]).failed(7);
        assert!(refused.contains("slots") && !place.path("new.pool").exists(), "{refused}");
    }
}

#[test]
fn a_password_is_for_all_and_a_cluster_without_a_master_is_down() {
    for program in SERVERS {
        let place = PoolFolder::with_pool();
        let Some(mut masters) = Masters::start(program) else { continue };
        place.run(["put", "pool", "s", "v"]).succeeded();
        masters.servers[2].run("config set requirepass secret\n");
        let export = ["export", "pool", "--to", &masters.address(0)];
        let refused = place.run(export).failed(7);
        let third = format!("127.0.0.1:{}", masters.servers[2].port);
        assert!(refused.contains(&third) && refused.contains("NOAUTH"), "{refused}");
        let with_password = masters.address(0).replace("//", "//:secret@");
        let told = place.run(["export", "pool", "--to", &with_password]).succeeded();
        assert!(told.starts_with("exported 1 key to 3 masters") && !told.contains("secret"));
        let told = place.run(["import", &with_password, "new.pool"]).succeeded();
        assert!(told.starts_with("imported 1 key"), "{told}");
        masters.servers[2].child.kill().unwrap();
        masters.servers[2].child.wait().unwrap();
        let is_down = |server: &Redis| server.run("cluster info\n").contains("cluster_state:fail");
        masters.wait_until(|| masters.servers[..2].iter().all(is_down));
        for arguments in [&export[..], &["import", &masters.address(0), "other.pool"]] {
            let refused = place.run(arguments).failed(7);
            assert!(refused.contains(&third) || refused.contains("down"), "{refused}");
        }
    }
}

#[test]
fn what_is_no_cluster_or_no_place_for_one_is_refused() {
    let place = PoolFolder::with_pool();
    let is_refused = |arguments: &[&str], part: &str| {
        let refused = place.run(arguments).failed(2);
        assert!(refused.contains(part), "{arguments:?}: {refused}");
    };
    let to = "redis-cluster://127.0.0.1:1";
    is_refused(&["export", "pool", "--to", "redis://127.0.0.1:1"], "redis-cli --pipe");
    is_refused(&["export", "pool", "--to", "redis-cluster://h/3"], "database 0 only");
    is_refused(&["export", "pool", "--to", to, "--format", "resp"], "leave --format");
    is_refused(&["export", "pool", "--to", to, "--prefix", "x"], "the range away");
    is_refused(&["export", "pool", "--no-verify"], "--to redis-cluster://");
    is_refused(&["import", to, "redis://127.0.0.1:1"], "into a pool");
    is_refused(&["import", "redis://127.0.0.1:1", to], "everleaf export POOL --to");
    let nobody = place.run(["export", "pool", "--to", to]).failed(7);
    assert!(nobody.contains("127.0.0.1:1 cannot be used"), "{nobody}");
    // A key that begins so.
    place.run(["put", "pool", "redis:", "v"]).succeeded();
    let hex: String = "redis://".bytes().map(|byte| format!("{byte:02x}")).collect();
    let told = place.run(["export", "pool", "--hex", "--to", &hex]).succeeded();
    assert_eq!(told, "redis:\tv\n");
    for program in SERVERS {
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        let alone = redis.address().replace("redis://", "redis-cluster://");
        for arguments in [["export", "pool", "--to", &alone], ["import", &alone, "new.pool", "-q"]]
        {
            let refused = place.run(arguments).failed(7);
            assert!(refused.contains("is no server of a cluster"), "{refused}");
        }
    }
}
