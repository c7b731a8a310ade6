//! A report about a server as text for people.

use crate::report::{Report, Row};
use crate::table::{aligned, grouped};

/// The columns: heading, and whether they are aligned to the left.
const COLUMNS: [(&str, bool); 10] = [
    ("workload", true),
    ("keys", true),
    ("threads", false),
    ("per second", false),
    ("spread", false),
    ("unit", true),
    ("p50 us", false),
    ("p99 us", false),
    ("p99.9 us", false),
    ("max us", false),
];

/// The report as lines of text: speeds and latencies as the client sees them.
pub fn render(report: &Report) -> String {
    let (setup, machine) = (&report.setup, &report.machine);
    let server = if setup.domain.is_empty() { "a server" } else { &setup.domain };
    let mut text = format!(
        "everleaf bench: {server} at {}\n{} keys of {} B + values of {} B; {} rounds, seed {}\n\
         client: {}, {} CPUs\n",
        setup.medium,
        grouped(setup.keys),
        setup.key_size_bytes,
        setup.value_size_bytes,
        setup.rounds,
        setup.seed,
        machine.cpu,
        machine.cpu_count,
    );
    match setup.offered_per_second {
        None => text.push_str("closed loop: a reply makes room for the next request\n\n"),
        Some(rate) => text.push_str(&format!(
            "open loop: {} requests a second are due, {} at a time; latencies count from then on\n\n",
            grouped(rate as u64),
            setup.burst.unwrap_or(1),
        )),
    }
    let mut cells = vec![COLUMNS.map(|(name, _)| name.to_owned()).to_vec()];
    cells.extend(report.rows.iter().map(row_cells));
    text.push_str(&aligned(&cells, &COLUMNS.map(|(_, is_left)| is_left)));
    text.push_str(
        "\ndepth: requests in flight on each connection, at most, in a closed loop.\n\
         per second: requests, all connections, median of the rounds; spread: from the lowest to the highest. \
         Every\nrequest is timed, from when it was written to the connection, or due, to its reply.\n",
    );
    if report.rows.iter().any(|row| row.preempted_rounds == 0) && setup.offered_per_second.is_none()
    {
        text.push_str("The client was busy all the time in some rounds: give it more CPU.\n");
    }
    if !machine.is_optimized {
        text.push_str("This program was built without optimisation: its times mean nothing.\n");
    }
    text
}

fn row_cells(row: &Row) -> Vec<String> {
    let keys = match row.theta {
        Some(theta) => format!("{} {}", row.distribution, format!("{theta}").replace("0.", ".")),
        None if row.distribution.is_empty() => "new".to_owned(),
        None => row.distribution.to_owned(),
    };
    let microseconds = |nanoseconds: u64| format!("{:.1}", nanoseconds as f64 / 1e3);
    vec![
        row.workload.to_owned(),
        keys,
        row.threads.to_string(),
        grouped(row.per_second.median as u64),
        format!("{:.0}%", row.per_second.percent()),
        row.unit.to_owned(),
        microseconds(row.latency.p50_ns),
        microseconds(row.latency.p99_ns),
        microseconds(row.latency.p999_ns),
        microseconds(row.latency.max_ns),
    ]
}
