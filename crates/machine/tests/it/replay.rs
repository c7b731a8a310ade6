//! The same seed gives the same schedule, and a failure can be seen again.

use crate::support::list::{BUGS, ListProgram};
use everleaf_machine::simulated::{Config, CrashConfig, MemoryModel, Runner, SchedulerKind};

const GOLDEN: [[u64; 3]; 2] = [
    [0x0FDD_37AD_B076_A7E2, 0x1AC8_93F4_B7FD_BD11, 0xEACD_C9B7_18F9_7FDB],
    [0xA256_0C76_136A_C59C, 0xBC52_72DC_8D47_4F13, 0x4916_B9EE_F9C2_5656],
];

fn runner(program: u64, config: Config) -> Runner<ListProgram> {
    let (program, plan) = ListProgram::random(program, 3, 3);
    Runner::new(program, plan, config).expect("the fresh list opens")
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    for scheduler in [SchedulerKind::Random, SchedulerKind::Pct { depth: 3 }] {
        for memory in [MemoryModel::Sc, MemoryModel::Tso] {
            let config = Config { scheduler, memory, ..Config::default() };
            let prints = |extra: usize| {
                let mut runner = runner(5, config.clone());
                // Whether images were seen before must not matter to the schedule.
                for seed in 0..extra as u64 {
                    runner.run(1000 + seed).expect("the list is correct");
                }
                let mut prints = Vec::new();
                for seed in 0..50 {
                    runner.run(seed).expect("the list is correct");
                    prints.push((runner.fingerprint(), runner.choices()));
                }
                prints
            };
            if scheduler == SchedulerKind::Random {
                assert_eq!(prints(0), prints(7));
            }
            assert_eq!(prints(3), prints(3));
            let mut distinct = prints(0);
            distinct.sort();
            distinct.dedup();
            assert!(distinct.len() > 40, "{} of 50 schedules differ", distinct.len());
        }
    }
}

/// One schedule each of a few seeds, as a hash of all accesses. A change here is a change of what the
/// machine does with a seed: failure files written before do not replay any more.
#[test]
fn a_seed_gives_the_schedule_it_gave_on_other_machines() {
    let prints = [MemoryModel::Sc, MemoryModel::Tso].map(|memory| {
        let mut runner = runner(5, Config { memory, ..Config::default() });
        (1..=3)
            .map(|seed| {
                runner.run(seed).expect("the list is correct");
                runner.fingerprint()
            })
            .collect::<Vec<_>>()
    });
    assert_eq!(prints, GOLDEN);
}

#[test]
fn crash_checks_do_not_change_the_schedule() {
    let print = |enabled| {
        let crash = CrashConfig { enabled, ..CrashConfig::default() };
        let mut runner = runner(5, Config { crash, ..Config::default() });
        (0..50)
            .map(|seed| {
                runner.run(seed).expect("the list is correct");
                runner.fingerprint()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(print(true), print(false));
}

#[test]
fn every_failure_replays_to_the_same_failure() {
    let mut replayed = 0;
    for bug in BUGS {
        for program in 0..20 {
            let config = Config { mutants: vec![bug], ..Config::default() };
            let Err(failure) = runner(program, config.clone()).explore(50) else { continue };
            // In a runner that has seen nothing else.
            let replay = runner(program, config).replay(failure.seed, &failure.choices);
            let again = replay.failure.expect("the failure happens again");
            assert!(!replay.diverged, "{bug}");
            assert_eq!((again.kind, &again.message), (failure.kind, &failure.message), "{bug}");
            assert_eq!(again.steps, failure.steps);
            assert!(replay.trace.iter().any(|line| line.contains("CALL")));
            assert!(replay.trace.iter().any(|line| line.contains("list.rs:")));
            replayed += 1;
        }
    }
    assert!(replayed > 20, "{replayed}");
}
