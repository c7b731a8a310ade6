//! The pages: metrics in the format OpenMetrics, version 1.0, and whether the server is well.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use everleaf::Statistics;

use crate::process_memory;
use crate::shared::Shared;

/// The type of the page of metrics.
pub const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics being written.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        self.line(format_args!("# TYPE {name} {kind}"));
        if !unit.is_empty() {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string cannot fail");
    }

    /// A number that goes up and down. A name that ends with a unit says so.
    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, "gauge", unit_of(name), help);
        self.line(format_args!("{name} {value}"));
    }

    /// A number that only goes up.
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", unit_of(name), help);
        self.line(format_args!("{name}_total {value}"));
    }
}

fn unit_of(name: &str) -> &'static str {
    ["bytes", "seconds"].into_iter().find(|unit| name.ends_with(&format!("_{unit}"))).unwrap_or("")
}

/// All metrics.
pub fn metrics(shared: &Shared) -> String {
    let store = shared.store.statistics();
    let mut page = Page(String::new());
    page.family("everleaf_build", "info", "", "The program.");
    page.line(format_args!("everleaf_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
    page.gauge(
        "everleaf_uptime_seconds",
        "Since the server started.",
        shared.now_ms() as f64 / 1000.0,
    );
    clients(shared, &mut page);
    requests(shared, &mut page);
    keys(&store, &mut page);
    memory(shared, &store, &mut page);
    persistence(shared, &store, &mut page);
    page.0.push_str("# EOF\n");
    page.0
}

fn clients(shared: &Shared, page: &mut Page) {
    page.gauge("everleaf_clients", "Connections.", shared.registry.count());
    page.gauge(
        "everleaf_clients_max",
        "The most connections at a time.",
        shared.settings.client_count_max(),
    );
    page.gauge(
        "everleaf_clients_waiting",
        "Connections whose command waits.",
        shared.waiters.total(),
    );
    // Relaxed: statistics, here and below.
    let accepted = shared.accepted_count.load(Ordering::Relaxed);
    page.counter("everleaf_connections_accepted", "Connections accepted.", accepted);
    // Relaxed: statistics.
    let rejected = shared.rejected_count.load(Ordering::Relaxed);
    page.counter(
        "everleaf_connections_rejected",
        "Connections refused because there were too many.",
        rejected,
    );
    let evicted = shared.client_memory.evicted_count();
    page.counter(
        "everleaf_clients_evicted",
        "Connections closed for what they made the server hold.",
        evicted,
    );
}

fn requests(shared: &Shared, page: &mut Page) {
    // Never reset, other than those of INFO.
    let tally = shared.total();
    page.counter("everleaf_commands", "Commands answered.", tally.commands);
    page.counter("everleaf_errors", "Commands answered with an error.", tally.errors);
    let slow = shared.slow_log.total();
    page.counter("everleaf_slow_commands", "Commands that took long (SLOWLOG).", slow);
    page.counter("everleaf_hits", "Lookups of keys that were there.", tally.hits);
    page.counter("everleaf_misses", "Lookups of keys that were not there.", tally.misses);
    page.counter("everleaf_received_bytes", "Bytes received from clients.", tally.bytes_in);
    page.counter("everleaf_sent_bytes", "Bytes sent to clients.", tally.bytes_out);
}

fn keys(store: &Statistics, page: &mut Page) {
    page.family("everleaf_keys", "gauge", "", "Keys of each map.");
    for (name, map) in &store.by_map {
        page.line(format_args!("everleaf_keys{{map=\"{}\"}} {}", label(name), map.keys));
    }
    page.family("everleaf_expiring_keys", "gauge", "", "Keys of each map that expire some time.");
    for (name, map) in &store.by_map {
        page.line(format_args!(
            "everleaf_expiring_keys{{map=\"{}\"}} {}",
            label(name),
            map.expiring_keys
        ));
    }
    page.counter(
        "everleaf_expired_keys",
        "Keys that had expired and were removed.",
        store.swept_keys,
    );
}

fn memory(shared: &Shared, store: &Statistics, page: &mut Page) {
    let process = process_memory::read();
    let own = process.resident.saturating_sub(process.resident_file);
    page.gauge("everleaf_memory_bytes", "Memory of the process besides the pool.", own);
    page.gauge(
        "everleaf_pool_resident_bytes",
        "Memory that shows the pool file.",
        process.resident_file,
    );
    page.gauge(
        "everleaf_index_bytes",
        "Memory of inner nodes and leaf metadata.",
        store.memory_bytes,
    );
    page.gauge(
        "everleaf_views_bytes",
        "Memory of old values that views can see.",
        store.view_bytes,
    );
    page.gauge(
        "everleaf_clients_bytes",
        "Memory that clients make the server hold.",
        shared.client_memory.total(),
    );
}

fn persistence(shared: &Shared, store: &Statistics, page: &mut Page) {
    page.family("everleaf_durability", "info", "", "What survives.");
    page.line(format_args!("everleaf_durability_info{{durability=\"{}\"}} 1", store.durability));
    page.gauge("everleaf_pool_bytes", "Size of the pool file.", store.pool_size_bytes);
    page.gauge("everleaf_pool_used_bytes", "Of it, what is in use.", store.pool_used_bytes);
    page.gauge("everleaf_pool_max_bytes", "How far it may grow.", store.pool_max_bytes);
    page.gauge(
        "everleaf_log_bytes",
        "Keys and values in the log since the last snapshot.",
        store.log_bytes,
    );
    page.gauge(
        "everleaf_log_lag_commits",
        "Commits in the log that are not on the disk yet.",
        store.log_lag,
    );
    let owes = u8::from(store.log_owes_snapshot);
    page.gauge(
        "everleaf_log_owes_snapshot",
        "1 until the snapshot is there that makes the log whole.",
        owes,
    );
    let failed = u8::from(shared.saver.has_failed());
    page.gauge("everleaf_last_save_failed", "1 if the last SAVE or BGSAVE failed.", failed);
    page.gauge("everleaf_recovery_seconds", "How long opening took.", store.recovery.as_secs_f64());
}

/// Why the server should get no more requests, if it should not.
pub fn illness(shared: &Shared) -> Option<&'static str> {
    if shared.control.is_stopping() {
        return Some("the server is stopping");
    }
    // First: a log that was removed with the pool has failed, too, and to start anew would lose all.
    if shared.store.is_pool_gone() {
        return Some(
            "the file of the pool is gone: every write is refused. SAVE saves what there is, and so does an orderly \
             end of the server, but not a kill",
        );
    }
    if shared.store.has_log_failed() {
        return Some("the log has failed: every write is refused until the server is restarted");
    }
    shared.store.is_read_only().then_some("the store takes no writes")
}

/// A value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
