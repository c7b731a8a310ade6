//! A connection in one line, as `CLIENT LIST` and the log of refusals tell of it.

use super::facts::full_name;
use crate::registry::{Client, Details, shortened};

/// Bytes that are kept of each text of a client where it is kept.
const KEPT_SIZE_MAX: usize = 128;

/// One line of `CLIENT LIST`: the fields of Redis 7.2 in its order, and the event loop. There is no buffer for replies
/// of a connection's own, and no list of them: `rbs`, `rbp` and `oll` are 0.
pub fn describe(client: &Client, now_ms: u64) -> String {
    line(client, &client.details(), now_ms)
}

/// The same, as it may be kept: without the rest of what the client chose as long as it wanted.
pub fn describe_shortly(client: &Client, now_ms: u64) -> String {
    let mut details = client.details();
    for text in [&mut details.name, &mut details.library_name, &mut details.library_version] {
        if text.len() > KEPT_SIZE_MAX {
            *text = shortened(text, KEPT_SIZE_MAX).into();
        }
    }
    line(client, &details, now_ms)
}

fn line(client: &Client, details: &Details, now_ms: u64) -> String {
    let held = client.gauges.get();
    let seconds = |since_ms| now_ms.saturating_sub(since_ms) / 1000;
    let queued = client.gauges.queued().map_or("-1".to_string(), |count| count.to_string());
    let user = details.user.as_ref().map_or_else(String::new, |user| user.shown());
    let who = format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={}",
        client.id,
        client.peer,
        client.local,
        client.gauges.descriptor(),
        details.name,
        seconds(client.created_ms),
        seconds(client.last_active_ms()),
        flags(client, details),
        details.database,
    );
    let holds = format!(
        "sub=0 psub=0 ssub=0 multi={queued} qbuf={} qbuf-free={} argv-mem={} multi-mem={} rbs=0 rbp=0 obl={} oll=0 \
         omem={} tot-mem={} events={}",
        held.input,
        held.input_free,
        held.arguments,
        held.transaction,
        held.unsent,
        held.output,
        client.memory(),
        if held.unsent > 0 { "rw" } else { "r" },
    );
    format!(
        "{who} {holds} cmd={} user={user} redir=-1 resp={} lib-name={} lib-ver={} loop={}\n",
        full_name(client.last_command()).as_deref().unwrap_or("NULL"),
        details.protocol.number(),
        details.library_name,
        details.library_version,
        client.loop_index,
    )
}

/// A letter for each thing that is so, or that none is.
fn flags(client: &Client, details: &Details) -> String {
    let all = [
        ('O', details.is_monitor),
        ('x', client.gauges.queued().is_some()),
        ('b', client.is_waiting()),
        ('c', client.gauges.get().is_closing),
        ('A', client.is_killed()),
        ('U', client.gauges.is_unix()),
        ('e', details.no_evict),
        ('T', details.no_touch),
    ];
    let set: String = all.into_iter().filter(|(_, is_so)| *is_so).map(|(flag, _)| flag).collect();
    if set.is_empty() { "N".to_string() } else { set }
}
