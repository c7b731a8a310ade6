//! How fast the simulated machine is. A measurement, not a test: run with
//! `cargo test --release -p everleaf-machine --test it rate:: -- --ignored --nocapture`.

#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

use crate::support::list::ListProgram;
use everleaf_machine::simulated::{Config, CrashConfig, Domain, MemoryModel, Report, Runner};

/// Time this thread has had on a processor: the wall clock would measure its neighbours.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn measure(name: &str, config: &Config, spare_bytes: usize, schedules: u64) {
    let (mut total, start) = (Report::default(), processor_seconds());
    for number in 0..4 {
        let (mut program, plan) = ListProgram::random(number, 3, 3);
        program.spare_bytes = spare_bytes;
        let mut runner = Runner::new(program, plan, config.clone()).expect("the list opens");
        total.add(&runner.explore(schedules / 4).expect("the list is correct"));
    }
    let seconds = processor_seconds() - start;
    let counts = total.counts;
    println!(
        "{name:<32} {:>8.1} k schedules/s  {:>6.2} M accesses/s  {:>6.2} M crash states/s  \
         {:>5.1} k recoveries/s",
        counts.schedules as f64 / seconds / 1e3,
        counts.accesses as f64 / seconds / 1e6,
        counts.images as f64 / seconds / 1e6,
        counts.recoveries as f64 / seconds / 1e3,
    );
}

#[test]
#[ignore = "by hand: a measurement"]
fn by_hand_schedules_and_crash_states_per_second() {
    let adr = Config::default();
    let quiet = CrashConfig { enabled: false, ..CrashConfig::default() };
    let without = Config { crash: quiet, ..adr.clone() };
    measure("no crash checks", &without, 0, 100_000);
    measure("adr", &adr, 0, 40_000);
    for (memory, name) in [(MemoryModel::Tso, "tso"), (MemoryModel::Weak, "weak")] {
        let quiet = Config { memory, ..without.clone() };
        measure(&format!("no crash checks, {name}"), &quiet, 0, 100_000);
        measure(&format!("adr, {name}"), &Config { memory, ..adr.clone() }, 0, 40_000);
    }
    // What weak memory follows, and no older values.
    measure("no crash checks, races", &Config { races: true, ..without }, 0, 100_000);
    measure("adr, races", &Config { races: true, ..adr.clone() }, 0, 40_000);
    measure("eadr", &Config { domain: Domain::Eadr, ..adr.clone() }, 0, 40_000);
    measure("adr, pool of 256 KiB", &adr, 256 << 10, 40_000);
    measure("adr, pool of 4 MiB", &adr, 4 << 20, 40_000);
    let nested = CrashConfig { nested_one_in: 64, ..CrashConfig::default() };
    measure("adr, nested 1 in 64", &Config { crash: nested, ..adr }, 0, 40_000);
}
