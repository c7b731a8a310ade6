//! `INFO`: the state of the server in numbers.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use everleaf::{DEFAULT_MAP, Durability, Statistics};

use super::connection::COMPATIBLE_VERSION;
use super::context::Context;
use super::facts;
use crate::failure::CommandResult;
use crate::latency::Calls;
use crate::process_memory;
use crate::resp::Request;
use crate::shared::Shared;

/// A section's name and the function that writes its lines.
type Section = (&'static str, fn(&Shared, &Statistics, &mut Lines));

/// The one that is given only to clients that ask for it, or for all.
const COMMANDS: &str = "Commandstats";
const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    (COMMANDS, commands),
    ("Keyspace", keyspace),
];

/// `INFO [section ...]`
pub fn info(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let wanted: Vec<Vec<u8>> = request.args_from(1).map(|name| name.to_ascii_lowercase()).collect();
    let all = wanted.iter().any(|name| matches!(&name[..], b"all" | b"everything"));
    let usual = wanted.is_empty() || wanted.iter().any(|name| &name[..] == b"default");
    // Once, because collecting them takes a look at the whole tree.
    let store = context.keys.statistics();
    let mut lines = Lines(String::new());
    for (name, write) in SECTIONS {
        if all
            || (usual && name != COMMANDS)
            || wanted.contains(&name.to_ascii_lowercase().into_bytes())
        {
            lines.heading(name);
            write(context.shared, &store, &mut lines);
        }
    }
    context.reply.verbatim(&lines.0);
    Ok(())
}

/// The text being written: headings and `name:value` lines.
struct Lines(String);

impl Lines {
    fn heading(&mut self, name: &str) {
        let gap = if self.0.is_empty() { "" } else { "\r\n" };
        self.0.push_str(&format!("{gap}# {name}\r\n"));
    }

    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        write!(self.0, "{name}:{value}\r\n").expect("writing to a string cannot fail");
    }
}

fn server(shared: &Shared, _: &Statistics, lines: &mut Lines) {
    let uptime_s = shared.now_ms() / 1000;
    let port = shared.control.addresses.first().map_or(0, |address| address.port());
    lines.add("redis_version", COMPATIBLE_VERSION);
    lines.add("redis_mode", "standalone");
    lines.add("run_id", &shared.run_id);
    lines.add("everleaf_version", env!("CARGO_PKG_VERSION"));
    lines.add("os", std::env::consts::OS);
    lines.add("arch_bits", usize::BITS);
    lines.add("multiplexing_api", "mio");
    lines.add("process_id", std::process::id());
    lines.add("tcp_port", port);
    lines.add("io_threads", shared.loops.len());
    lines.add("uptime_in_seconds", uptime_s);
    lines.add("uptime_in_days", uptime_s / 86_400);
}

fn clients(shared: &Shared, _: &Statistics, lines: &mut Lines) {
    lines.add("connected_clients", shared.registry.count());
    lines.add("maxclients", shared.settings.client_count_max());
    lines.add("blocked_clients", shared.waiters.total());
    // Relaxed: a statistic.
    lines.add("client_output_bytes", shared.output_total.load(Ordering::Relaxed));
    for (index, state) in shared.loops.iter().enumerate() {
        lines.add(&format!("thread{index}_clients"), state.connection_count());
    }
}

fn memory(shared: &Shared, store: &Statistics, lines: &mut Lines) {
    let process = process_memory::read();
    // The part that is not a view of the pool file.
    lines.add("used_memory", process.resident.saturating_sub(process.resident_file));
    lines.add("used_memory_rss", process.resident);
    lines.add("used_memory_peak", process.resident_peak);
    lines.add("used_memory_pool_mapped", process.resident_file);
    lines.add("used_memory_index", store.memory_bytes);
    lines.add("mem_clients_normal", shared.client_memory.total());
    lines.add("maxmemory_clients", shared.settings.client_memory_max().unwrap_or(0));
    lines.add("used_memory_views", store.view_bytes);
    lines.add("maxmemory", 0);
    lines.add("maxmemory_policy", "noeviction");
}

fn persistence(shared: &Shared, store: &Statistics, lines: &mut Lines) {
    lines.add("loading", 0);
    let saver = &shared.saver;
    lines.add("rdb_bgsave_in_progress", u8::from(saver.is_busy()));
    lines.add("rdb_last_save_time", saver.last_s());
    lines.add("rdb_last_bgsave_status", if saver.has_failed() { "err" } else { "ok" });
    lines.add("aof_enabled", u8::from(store.durability != Durability::Process));
    lines.add("durability", store.durability.name());
    if let Durability::Interval(interval) = store.durability {
        lines.add("durability_interval_ms", interval.as_millis());
    }
    lines.add("log_bytes_since_snapshot", store.log_bytes);
    lines.add("log_commits_not_on_disk", store.log_lag);
    lines.add("log_owes_snapshot", u8::from(store.log_owes_snapshot));
    lines.add("pool_domain", store.domain.name());
    lines.add("pool_size_bytes", store.pool_size_bytes);
    lines.add("pool_used_bytes", store.pool_used_bytes);
    lines.add("pool_returned_bytes", store.pool_returned_bytes);
    lines.add("pool_max_bytes", store.pool_max_bytes);
    lines.add("recovery_microseconds", store.recovery.as_micros());
}

fn stats(shared: &Shared, store: &Statistics, lines: &mut Lines) {
    let tally = shared.statistics();
    // Relaxed: statistics.
    lines.add("total_connections_received", shared.accepted_count.load(Ordering::Relaxed));
    lines.add("total_commands_processed", tally.commands);
    lines.add("total_net_input_bytes", tally.bytes_in);
    lines.add("total_net_output_bytes", tally.bytes_out);
    // Relaxed: statistics.
    lines.add("rejected_connections", shared.rejected_count.load(Ordering::Relaxed));
    lines.add("keyspace_hits", tally.hits);
    lines.add("keyspace_misses", tally.misses);
    lines.add("total_error_replies", tally.errors);
    lines.add("expired_keys", store.swept_keys);
    lines.add("evicted_keys", 0);
    lines.add("migrate_cached_sockets", 0);
    lines.add("evicted_clients", shared.client_memory.evicted_count());
}

/// What clients look for; there are no replicas.
fn replication(shared: &Shared, _: &Statistics, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
    lines.add("master_failover_state", "no-failover");
    lines.add("master_replid", &shared.run_id);
    lines.add("master_replid2", "0".repeat(40));
    lines.add("master_repl_offset", 0);
    lines.add("second_repl_offset", -1);
    lines.add("repl_backlog_active", 0);
    lines.add("repl_backlog_size", 0);
    lines.add("repl_backlog_first_byte_offset", 0);
    lines.add("repl_backlog_histlen", 0);
}

/// The calls of each command, which are counted while `latency-tracking` is on.
fn commands(shared: &Shared, _: &Statistics, lines: &mut Lines) {
    for number in 0..facts::NUMBER_COUNT {
        let Some(calls) = shared.latency.calls(number) else { continue };
        let Some(name) = facts::full_name(number) else { continue };
        let Calls { count, microseconds, rejected, failed } = calls;
        let each = microseconds as f64 / count.max(1) as f64;
        lines.add(
            &format!("cmdstat_{name}"),
            format_args!(
                "calls={count},usec={microseconds},usec_per_call={each:.2},\
                 rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

fn keyspace(shared: &Shared, store: &Statistics, lines: &mut Lines) {
    for (database, map) in shared.databases.figures(store) {
        let keys = map.keys;
        lines.add(
            &format!("db{database}"),
            format_args!(
                "keys={keys},expires={},avg_ttl={}",
                map.expiring_keys.min(keys),
                map.expiring_mean.as_millis()
            ),
        );
    }
    let default = store.by_map.get(DEFAULT_MAP).cloned().unwrap_or_default();
    lines.add("maps", store.maps);
    lines.add("leaves", default.leaves);
    lines.add("height", default.height);
}
