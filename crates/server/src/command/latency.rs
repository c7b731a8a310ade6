//! `LATENCY`: how long commands take.

use super::context::Context;
use super::facts;
use super::object::help;
use crate::failure::{CommandResult, Failure};
use crate::latency::{EVENTS, Event, Latency};
use crate::resp::Request;
use crate::shown::shown;

/// Samples that a graph shows, and its rows.
const GRAPH_WIDTH: usize = 72;
const GRAPH_HEIGHT: u64 = 4;

/// `LATENCY LATEST | HISTORY event | GRAPH event | RESET [event ...] | HISTOGRAM [command ...] | DOCTOR | HELP`
pub fn latency(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let latency = &context.shared.latency;
    match request.arg(1).to_ascii_lowercase().as_slice() {
        b"latest" => latest(context),
        b"history" => {
            let event = latency.event(request.arg(2));
            context.reply.array(event.samples.len());
            for (second, milliseconds) in event.samples {
                context.reply.array(2);
                context.reply.count(second);
                context.reply.count(milliseconds);
            }
        }
        b"graph" => {
            let event = latency.event(request.arg(2));
            if event.samples.is_empty() {
                return Err(Failure::text(format!(
                    "ERR No samples available for event '{}'",
                    shown(request.arg(2))
                )));
            }
            let text = graph(&shown(request.arg(2)), &event);
            context.reply.verbatim(&text);
        }
        b"reset" => reset(context, request),
        b"histogram" => histogram(context, request),
        b"doctor" => {
            let text = advice(latency);
            context.reply.verbatim(&text);
        }
        // The table knows no other subcommands.
        _ => help(
            context,
            &[
                "LATENCY LATEST: of each event when it was last, how long, and the longest, in milliseconds",
                "LATENCY HISTORY event: the longest of each second with one",
                "LATENCY GRAPH event: the same as a picture",
                "LATENCY RESET [event ...]: forgets them",
                "LATENCY HISTOGRAM [command ...]: how many calls took up to so many microseconds",
                "LATENCY DOCTOR: what to do next",
                "Events are command and fast-command, behind CONFIG SET latency-monitor-threshold MILLISECONDS",
                "Histograms are made behind CONFIG SET latency-tracking yes",
            ],
        ),
    }
    Ok(())
}

fn latest(context: &mut Context<'_>) {
    let latency = &context.shared.latency;
    let seen: Vec<_> = EVENTS
        .iter()
        .filter_map(|name| {
            let event = latency.event(name.as_bytes());
            let (second, milliseconds) = *event.samples.back()?;
            Some((*name, second, milliseconds, event.longest_ms))
        })
        .collect();
    context.reply.array(seen.len());
    for (name, second, milliseconds, longest_ms) in seen {
        context.reply.array(4);
        context.reply.bulk(name.as_bytes());
        context.reply.count(second);
        context.reply.count(milliseconds);
        context.reply.count(longest_ms);
    }
}

/// Within a transaction all is forgotten when that is done; how many events that are is told of now.
fn reset(context: &mut Context<'_>, request: &Request<'_>) {
    let named: Vec<Vec<u8>> = match request.len() {
        2 => EVENTS.iter().map(|name| name.as_bytes().to_vec()).collect(),
        _ => request.args_from(2).map(<[u8]>::to_ascii_lowercase).collect(),
    };
    let latency = &context.shared.latency;
    let is_seen = |name: &&&str| {
        named.iter().any(|named| named == name.as_bytes())
            && !latency.event(name.as_bytes()).samples.is_empty()
    };
    let count = EVENTS.iter().filter(is_seen).count();
    context.act(move |shared| {
        named.iter().for_each(|name| {
            shared.latency.reset_event(name);
        })
    });
    context.reply.count(count as u64);
}

fn histogram(context: &mut Context<'_>, request: &Request<'_>) {
    let wanted: Vec<Vec<u8>> = request.args_from(2).map(<[u8]>::to_ascii_lowercase).collect();
    let is_wanted = |name: &str| {
        let (command, _) = name.split_once('|').unwrap_or((name, ""));
        let is = |wanted: &Vec<u8>| wanted == name.as_bytes() || wanted == command.as_bytes();
        wanted.is_empty() || wanted.iter().any(is)
    };
    let latency = &context.shared.latency;
    let found: Vec<_> = (0..facts::NUMBER_COUNT)
        .filter_map(|number| {
            let times = latency.histogram(number)?;
            let name = facts::full_name(number).filter(|name| is_wanted(name))?;
            Some((name, times))
        })
        .collect();
    context.reply.map(found.len());
    for (name, (calls, bounds)) in found {
        context.reply.bulk(name.as_bytes());
        context.reply.map(2);
        context.reply.bulk(b"calls");
        context.reply.count(calls);
        context.reply.bulk(b"histogram_usec");
        context.reply.map(bounds.len());
        for (microseconds, count) in bounds {
            context.reply.count(microseconds);
            context.reply.count(count);
        }
    }
}

/// The last samples as columns, the longest time the highest.
fn graph(name: &str, event: &Event) -> String {
    let times = || event.samples.iter().rev().take(GRAPH_WIDTH).rev().map(|(_, time)| *time);
    let (low, high) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let range = (high - low).max(1);
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.longest_ms,
        "-".repeat(GRAPH_WIDTH)
    );
    for row in (1..=GRAPH_HEIGHT).rev() {
        let mark = |time: u64| {
            let above = u128::from(time - low) * u128::from(GRAPH_HEIGHT - 1) / u128::from(range);
            match (1 + above).cmp(&u128::from(row)) {
                std::cmp::Ordering::Less => ' ',
                std::cmp::Ordering::Equal => '#',
                std::cmp::Ordering::Greater => '|',
            }
        };
        text.extend(times().map(mark));
        text.push('\n');
    }
    text
}

/// What to do next.
fn advice(latency: &Latency) -> String {
    let seen: Vec<_> = EVENTS
        .iter()
        .map(|name| (name, latency.event(name.as_bytes())))
        .filter(|(_, event)| !event.samples.is_empty())
        .map(|(name, event)| {
            let count = event.samples.len();
            format!("{name}: in {count} seconds, at most {} ms. ", event.longest_ms)
        })
        .collect();
    let next = match (latency.threshold_ms(), seen.is_empty()) {
        (0, _) => {
            "Events are not recorded: CONFIG SET latency-monitor-threshold MILLISECONDS begins."
        }
        (_, true) => "No command took as long as latency-monitor-threshold.",
        (_, false) => "SLOWLOG GET tells which commands took long, with their arguments.",
    };
    format!("{}{next}", seen.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_has_the_longest_time_at_the_top() {
        let samples = [(1, 100), (2, 400), (3, 200)].into();
        let text = graph("command", &Event { samples, longest_ms: 900 });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "command - high 400 ms, low 100 ms (all time high 900 ms)");
        assert_eq!(lines[2..], [" # ", " | ", " |#", "#||"]);
        let flat = Event { samples: [(1, u64::MAX)].into(), longest_ms: u64::MAX };
        assert!(graph("command", &flat).ends_with(" \n \n \n#\n"));
    }
}
