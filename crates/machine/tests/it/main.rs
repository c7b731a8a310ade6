//! The tests of the simulated machine, in one program.

mod counting;
mod history;
mod list;
mod litmus;
mod nested;
mod oracles;
mod persist_litmus;
mod races;
mod rate;
mod replay;
mod support;
mod weak;
