//! The program `everleaf`; everything it does is in the library of this crate.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    everleaf_cli::main()
}
