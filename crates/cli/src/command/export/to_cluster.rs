//! `everleaf export POOL --to redis-cluster://HOST`: all keys to the masters of a cluster, each to the one that has its
//! slot, and compared with the pool afterwards.

use super::{ExportArgs, PROGRESS_STEP};
use crate::command::import::{Comparison, Masters, has_expired};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::format::resp;
use crate::global::Global;
use crate::open;
use crate::output::{Output, counted};
use crate::progress::Progress;
use crate::redis::address::{Address, without_password};
use crate::redis::cluster::{Cluster, Unit};
use everleaf_server::transfer::{Keyspace, Part};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Bytes of a key's requests that are sent with those of others, and anew with one another.
const UNIT_SIZE_MAX: usize = 64 << 10;
/// Collections that take more of a server's memory are compared in pieces, as `import` does.
const WHOLE_SIZE_MAX: u64 = 64 << 20;
/// How long a server may be silent, unless it is said.
const PATIENCE_SECONDS: u64 = 600;
/// The only database of a cluster.
const DATABASE: u64 = 0;

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    keys: u64,
    redirected: u64,
    servers: usize,
    target: &'a str,
    verified: bool,
}

/// Copies all keys.
pub(super) fn run(
    args: &ExportArgs,
    pool: &Path,
    address: &Address,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = open::for_reading(pool, &args.map.trust)?;
    let mut keyspace = Keyspace::new(&store)?;
    let key_count = demand_one_database(&keyspace, pool)?;
    let patience = Duration::from_secs(args.timeout.unwrap_or(PATIENCE_SECONDS));
    let cacert = args.cacert.as_deref();
    let mut cluster = Cluster::connect(address, cacert, patience)?;
    demand_empty(&mut cluster)?;
    let show = global.wants_progress();
    let progress = Progress::pairs(show, "exporting", key_count);
    let keys = copy(&mut keyspace, &mut cluster, &progress, pool)?;
    drop(progress);
    let (servers, redirected) = (cluster.len(), cluster.redirected());
    drop(cluster);
    if !args.no_verify {
        let masters = Masters::connect(address, cacert, patience, WHOLE_SIZE_MAX);
        let mut masters = masters.map_err(not_compared)?;
        let progress = Progress::pairs(show, "comparing", keys);
        compare(&mut keyspace, &mut masters, Comparison::new(progress))?;
    }
    if global.json {
        let to = args.range.to.as_ref().map(|to| to.to_string_lossy());
        let target = to.as_deref().map_or("", without_password);
        let verified = !args.no_verify;
        return out.json(&Told { keys, redirected, servers, target, verified });
    }
    if global.quiet {
        return Ok(());
    }
    out.line(&format!(
        "exported {} to {} of the cluster of {}, {}",
        counted(keys, "key"),
        counted(servers as u64, "master"),
        address.place(),
        if args.no_verify { "not compared" } else { "compared with the pool" }
    ))
}

/// How many keys there are, in the only database that may have any.
fn demand_one_database(keyspace: &Keyspace<'_>, pool: &Path) -> Result<u64, Failure> {
    let mut count = 0;
    for (database, keys) in keyspace.sizes() {
        if database != DATABASE && keys > 0 {
            return Err(Failure::not_found(format!(
                "{}: {} of database {database}, and a cluster has database {DATABASE} only: nothing was written",
                pool.display(),
                counted(keys, "key"),
            )));
        }
        count += keys;
    }
    Ok(count)
}

/// A cluster with keys is not touched: they would be mixed, and could not be told apart any more.
fn demand_empty(cluster: &mut Cluster) -> Result<(), Failure> {
    match cluster.key_count()? {
        0 => Ok(()),
        count => Err(Failure::usage(format!(
            "the cluster has {}: a pool is copied to an empty one (FLUSHALL of each master empties it)",
            counted(count, "key")
        ))),
    }
}

/// Sends all keys; how many they were.
fn copy(
    keyspace: &mut Keyspace<'_>,
    cluster: &mut Cluster,
    progress: &Progress,
    pool: &Path,
) -> Result<u64, Failure> {
    let (mut sender, mut count) = (Sender { cluster, unit: Unit::default(), is_long: false }, 0);
    let sent = keyspace.each(DATABASE, |key, part| {
        if matches!(part, Part::End(_)) {
            count += 1;
            if count % PROGRESS_STEP == 0 {
                progress.set(count);
            }
        }
        sender.take(key, part).map_err(Cause::Cluster)
    });
    match sent.and_then(|()| sender.cluster.finish().map_err(Cause::Cluster)) {
        Ok(()) => Ok(count),
        Err(Cause::Pool(why)) => {
            Err(Failure::new(ExitCode::Pool, format!("{}: {why}", pool.display())))
        }
        Err(Cause::Cluster(failure)) => Err(Failure::new(
            failure.code,
            format!(
                "{}; the cluster has a part of the keys: empty it before the next attempt",
                failure.message
            ),
        )),
    }
}

/// Why not all was sent.
enum Cause {
    Pool(String),
    Cluster(Failure),
}

impl From<String> for Cause {
    fn from(why: String) -> Self {
        Cause::Pool(why)
    }
}

/// The parts of a key become requests: with those of other keys, or each by itself once they are many.
struct Sender<'c> {
    cluster: &'c mut Cluster,
    /// The requests of a key that were not given away.
    unit: Unit,
    /// Whether some of them were.
    is_long: bool,
}

impl Sender<'_> {
    fn take(&mut self, key: &[u8], part: Part<'_>) -> Result<(), Failure> {
        if matches!(part, Part::String(_) | Part::Begin) {
            (self.unit, self.is_long) = (Unit { key: key.to_vec(), requests: Vec::new() }, false);
        }
        let mut request = Vec::new();
        let written = resp::write_part(&mut request, key, part);
        written.map_err(|error| Failure::io("cannot make a request", &error))?;
        if !request.is_empty() {
            self.unit.requests.push(request);
        }
        match part {
            Part::End(_) if !self.is_long => self.cluster.add(std::mem::take(&mut self.unit)),
            Part::End(_) => self.send(),
            Part::Members(_) if self.is_long || self.unit.size() > UNIT_SIZE_MAX => {
                self.is_long = true;
                self.send()
            }
            _ => Ok(()),
        }
    }

    /// Sends what there is, and waits until it is done: what follows must not come before it.
    fn send(&mut self) -> Result<(), Failure> {
        self.cluster.send(&self.unit)?;
        self.unit.requests.clear();
        Ok(())
    }
}

/// Compares what the masters have with the pool, in both directions.
fn compare(
    keyspace: &mut Keyspace<'_>,
    masters: &mut Masters,
    mut comparison: Comparison,
) -> Result<(), Failure> {
    let shown = masters.each(&mut |item| comparison.take(keyspace, item));
    shown.map_err(not_compared)?;
    let mut behind = None;
    let unreadable = |why| Failure::new(ExitCode::Pool, format!("the pool cannot be read: {why}"));
    loop {
        let keys = keyspace.keys_after(DATABASE, behind.as_deref()).map_err(unreadable)?;
        let Some(last) = keys.last() else { break };
        behind = Some(last.clone());
        for key in masters.gone(keys).map_err(not_compared)? {
            // What has expired meanwhile is gone there.
            let expiry_ms = keyspace.expiry(DATABASE, &key).map_err(unreadable)?;
            let is_here = keyspace.contains(DATABASE, &key);
            let is_here = is_here.map_err(|error| unreadable(error.to_string()))?;
            comparison.judge(DATABASE, &key, !is_here || has_expired(expiry_ms));
        }
    }
    if comparison.different == 0 {
        return Ok(());
    }
    Err(Failure::not_found(format!(
        "{} of the cluster differ from the pool ({}): let nobody write to it meanwhile, empty it and begin anew",
        counted(comparison.different, "key"),
        comparison.named(),
    )))
}

/// A comparison that could not be made.
fn not_compared(failure: Failure) -> Failure {
    let message = format!(
        "{}; all is copied, and was not compared: --no-verify does without",
        failure.message
    );
    Failure::new(failure.code, message)
}
