//! The bench over the network: the same workloads, asked of any server that speaks the protocol of
//! Redis.
//!
//! Each client thread watches its share of the connections. In a closed loop every connection keeps
//! up to `depth` requests in flight; in an open loop requests go out when they are due, whatever is
//! in flight. Every request is timed: from when it was written to the connection's buffer, or from
//! when it was due, to when its reply was read. Every reply is checked, values by the mark of their
//! key.
//!
//! ```text
//!   get, get-absent       GET                    update, put, insert, load   SET
//!   get-many              MGET                   remove                      DEL
//!   scan, those of e      RANGE of Everleaf      read-modify-write           GET, SET
//! ```

mod client;
mod connection;
mod control;
mod phase;
mod protocol;
mod server;
mod table;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use everleaf_machine::topology;

use super::index_kind::IndexKind;
use super::instruments::Instruments;
use super::measured::Measured;
use super::progress::Progress;
use super::session::{limit_removals, name_of, plan_of};
use super::settings::{Case, Length, Settings, check, setup};
use super::tally::Tally;
use crate::clock::thread_time;
use crate::distribution::Distribution;
use crate::driver::WorkloadRun;
use crate::error::BenchError;
use crate::keys::BytesKeys;
use crate::report::{Machine, Memory, Report, Round};
use crate::stream::{Plan, Stream, draw};
use crate::workload::Workload;
use client::Client;
use connection::Connection;
use phase::Phase;
pub use server::Server;
pub use table::render;

/// Requests in flight while keys are loaded or put back, on each connection.
const LOADING_DEPTH: usize = 64;
/// Operations of the trial that finds out how many fit into some seconds.
const TRIAL_COUNT: u64 = 20_000;

/// Measures a server. `progress` is told what comes next, before each measurement.
///
/// The keys are those of [`super::run`], and stay on the server. Of the settings, those of the pool
/// say nothing here; the threads of a case are those of the client. The report's costs are CPU time
/// of the client.
///
/// # Errors
/// The server cannot be reached, answers an error, or loses a key; settings that do not go together.
pub fn run(
    server: &Server,
    settings: &Settings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, BenchError> {
    let settings = Settings { index: IndexKind::Bytes, ..settings.clone() };
    check(&settings)?;
    check_server(server, &settings)?;
    control::greet(server)?;
    let mut bench = Bench {
        server,
        settings: &settings,
        instruments: Instruments::new(settings.miss_region),
        population: settings.keys,
        done: 0,
    };
    let total = (settings.cases.len() * settings.rounds) as u64;
    if server.is_loading && !settings.cases[0].workload.is_load() {
        progress(Progress { what: "loading", done: 0, total });
        bench.load(1)?;
    }
    let mut tallies: Vec<Tally> = settings.cases.iter().map(|case| Tally::new(*case)).collect();
    let mut lengths = Vec::new();
    for round in 0..settings.rounds {
        for (index, case) in settings.cases.iter().enumerate() {
            if round == 0 {
                lengths.push(bench.length(case)?);
            }
            let what = name_of(case, round, settings.rounds);
            progress(Progress { what: &what, done: bench.done, total });
            tallies[index].add(&bench.measure(case, lengths[index])?);
            bench.done += 1;
        }
    }
    let rounds: Vec<(Case, Vec<Round>)> =
        tallies.iter().map(|tally| (tally.case, tally.rounds.clone())).collect();
    let rows = tallies.into_iter().map(|tally| tally.into_row(&rounds)).collect();
    report(server, &settings, rows)
}

fn check_server(server: &Server, settings: &Settings) -> Result<(), BenchError> {
    let wrong = |text: String| Err(BenchError::Settings(text));
    if !(1..=10_000).contains(&server.connections) || !(1..=10_000).contains(&server.depth) {
        return wrong("there can be 1 to 10000 connections, with 1 to 10000 requests each".into());
    }
    for case in &settings.cases {
        let is_ours = matches!(case.workload, Workload::LoadSequential | Workload::UpdateMany);
        if case.workload.has_own_keys() || is_ours {
            let text =
                "cannot be measured over the network: choose single operations, or mixes of them";
            return wrong(format!("{} {text}", case.workload));
        }
        if case.threads > server.connections {
            return wrong("there must be a connection for each thread at least".into());
        }
        let keys_of_each = settings.keys / server.connections as u64;
        let is_short = match case.workload {
            Workload::Remove => keys_of_each < 2,
            workload => workload.removal_share() > 0.0 && keys_of_each < 100,
        };
        if is_short {
            let text =
                "to remove keys there must be two of them for each connection, for a mix 100";
            return wrong(text.into());
        }
    }
    Ok(())
}

/// One run.
struct Bench<'s> {
    server: &'s Server,
    settings: &'s Settings,
    instruments: Instruments,
    /// Keys there are: those numbered below this.
    population: u64,
    done: u64,
}

impl Bench<'_> {
    fn length(&mut self, case: &Case) -> Result<u64, BenchError> {
        Ok(match self.settings.length {
            _ if case.workload == Workload::Load => self.settings.keys,
            Length::Operations(count) => count,
            Length::Seconds(seconds) => {
                let trial = self.measure(case, TRIAL_COUNT)?;
                let rate = trial.outcome.operations as f64 / trial.outcome.elapsed.as_secs_f64();
                ((rate * seconds) as u64).clamp(1, super::settings::OPERATION_COUNT_MAX)
            }
        })
    }

    fn measure(&mut self, case: &Case, count: u64) -> Result<Measured, BenchError> {
        if case.workload == Workload::Load {
            return self.load(case.threads);
        }
        let connections = self.server.connections;
        // Every connection has a stream of its own.
        let wide = Case { threads: connections, ..*case };
        let mut plan = plan_of(&wide, count, self.settings, self.done);
        plan.population = self.population;
        limit_removals(&mut plan);
        let (streams, population) = draw(&plan, |size| self.new_keys(size));
        let miss_before_ns = self.instruments.miss_ns();
        let outcome = self.drive(case.workload, &streams, case.threads)?;
        let miss_after_ns = self.instruments.miss_ns();
        self.population = population;
        if case.workload.removal_share() > 0.0 {
            self.put_back(case.workload, &streams)?;
        }
        let positions = (plan.timed * connections) as u64;
        Ok(Measured { outcome, positions, miss_before_ns, miss_after_ns })
    }

    /// Sets all keys.
    fn load(&mut self, threads: usize) -> Result<Measured, BenchError> {
        let connections = self.server.connections as u64;
        let plan = Plan {
            workload: Workload::Load,
            distribution: Distribution::Uniform,
            threads: self.server.connections,
            population: 0,
            warm_up: 0,
            timed: self.settings.keys.div_ceil(connections) as usize,
            scan_length: 1,
            arrivals: None,
            seed: self.settings.seed,
        };
        let (streams, population) = draw(&plan, |size| self.new_keys(size));
        let miss_before_ns = self.instruments.miss_ns();
        let outcome = self.drive(Workload::Load, &streams, threads)?;
        let miss_after_ns = self.instruments.miss_ns();
        self.population = population;
        Ok(Measured { outcome, positions: population, miss_before_ns, miss_after_ns })
    }

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.settings.key_size, capacity)
    }

    fn phase(&self, workload: Workload) -> Phase<'_> {
        let depth = self.server.depth;
        Phase {
            settings: self.settings,
            workload,
            is_putting_back: false,
            is_scheduled: false,
            depth: if workload == Workload::Load { depth.max(LOADING_DEPTH) } else { depth },
        }
    }

    /// Runs the streams, a connection each, on so many threads.
    fn drive(
        &self,
        workload: Workload,
        streams: &[Stream<BytesKeys>],
        threads: usize,
    ) -> Result<WorkloadRun, BenchError> {
        let barrier = Barrier::new(threads);
        let parts = thread::scope(|scope| {
            // One share for each thread, even where they cannot be equal.
            let shares = shares(streams, threads).into_iter().enumerate();
            let handles: Vec<_> = shares
                .map(|(index, own)| {
                    let (barrier, cpu) = (&barrier, self.instruments.cpu(index));
                    scope.spawn(move || self.run_thread(workload, own, cpu, barrier))
                })
                .collect();
            let join = |handle: thread::ScopedJoinHandle<'_, _>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().map(join).collect::<Result<Vec<Part>, BenchError>>()
        })?;
        let started = parts.iter().map(|part| part.started).min();
        let ended = parts.iter().map(|part| part.ended).max();
        let elapsed = started.zip(ended).map_or(Duration::ZERO, |(first, last)| last - first);
        let busy = parts.iter().map(|part| part.busy).sum();
        Ok(WorkloadRun {
            elapsed,
            busy,
            service: busy,
            operations: parts.iter().map(|part| part.samples.len() as u64).sum(),
            effects: parts.iter().map(|part| part.effects).sum(),
            samples: parts.into_iter().flat_map(|part| part.samples).collect(),
        })
    }

    fn run_thread(
        &self,
        workload: Workload,
        streams: &[Stream<BytesKeys>],
        cpu: usize,
        barrier: &Barrier,
    ) -> Result<Part, BenchError> {
        // A thread that cannot be tied runs where the system puts it: no reason not to measure.
        let _ = topology::pin_current_thread(cpu);
        let calls = |positions: usize| match workload {
            batched if batched.is_batched() => positions / self.settings.batch,
            _ => positions,
        };
        let mut phase = self.phase(workload);
        // Every thread must come to the barrier, also one that failed, or the others would wait for
        // ever.
        let warm = (|| {
            let mut client = self.client(streams.iter())?;
            for (connection, stream) in client.connections.iter_mut().zip(streams) {
                connection.calls = 0..calls(stream.warm_up);
            }
            client.run(&phase, Instant::now())?;
            Ok::<_, BenchError>(client)
        })();
        barrier.wait();
        let mut client = warm?;
        for (connection, stream) in client.connections.iter_mut().zip(streams) {
            let (before, all) = (calls(stream.warm_up), calls(stream.len()));
            connection.calls = before..all;
            connection.effects = 0;
            connection.samples = Vec::with_capacity(all - before);
        }
        phase.is_scheduled = streams.iter().any(|stream| !stream.due.is_empty());
        let (started, idle) = (Instant::now(), thread_time());
        client.run(&phase, started)?;
        let (busy, ended) = (thread_time() - idle, Instant::now());
        let effects = client.connections.iter().map(|connection| connection.effects).sum();
        let samples = client.connections.into_iter().flat_map(|one| one.samples).collect();
        Ok(Part { started, ended, busy, effects, samples })
    }

    fn client<'c>(
        &'c self,
        streams: impl Iterator<Item = &'c Stream<BytesKeys>>,
    ) -> Result<Client<'c>, BenchError> {
        let connect = |stream| Connection::new(self.server, stream, self.settings.value_size);
        let connections = streams.map(connect).collect::<Result<Vec<_>, _>>()?;
        Client::new(self.server, connections)
    }

    /// Writes again what a workload removed, outside the clock.
    fn put_back(
        &self,
        workload: Workload,
        streams: &[Stream<BytesKeys>],
    ) -> Result<(), BenchError> {
        let mut client = self.client(streams.iter())?;
        for (connection, stream) in client.connections.iter_mut().zip(streams) {
            connection.calls = 0..stream.len();
        }
        let depth = LOADING_DEPTH;
        let phase = Phase { is_putting_back: true, depth, ..self.phase(workload) };
        client.run(&phase, Instant::now())
    }
}

/// What one thread took and did.
struct Part {
    started: Instant,
    ended: Instant,
    busy: Duration,
    effects: u64,
    samples: Vec<u64>,
}

/// Divides into `count` parts that differ by one at most.
fn shares<T>(mut all: &[T], count: usize) -> Vec<&[T]> {
    let mut parts = Vec::with_capacity(count);
    for left in (1..=count).rev() {
        let (part, rest) = all.split_at(all.len().div_ceil(left));
        parts.push(part);
        all = rest;
    }
    parts
}

fn report(
    server: &Server,
    settings: &Settings,
    rows: Vec<crate::report::Row>,
) -> Result<Report, BenchError> {
    let description = control::describe(server)?;
    let keys = description.keys.unwrap_or(settings.keys);
    let bytes = description.memory_bytes;
    let memory = Memory {
        keys,
        pool_used_bytes: bytes,
        pool_size_bytes: bytes,
        pool_bytes_per_key: bytes as f64 / keys.max(1) as f64,
        dram_bytes: bytes,
        dram_percent: if bytes == 0 { 0.0 } else { 100.0 },
        leaves: 0,
        height: 0,
    };
    let mut setup = setup("server", settings, description.name);
    let Server { address, connections, depth, .. } = server;
    setup.medium = format!("{address}, {connections} connections, depth {depth}");
    setup.sample_every = 1;
    Ok(Report { machine: Machine::here(), setup, memory, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_complete_and_nearly_equal() {
        for (size, count) in [(50, 2), (7, 3), (3, 3), (100, 7)] {
            let all: Vec<usize> = (0..size).collect();
            let parts = shares(&all, count);
            assert_eq!(parts.concat(), all);
            assert!(parts.iter().all(|part| part.len().abs_diff(size / count) <= 1), "{parts:?}");
        }
    }
}
