//! Has the linker keep one of functions that are equal, where it is known to be able to. A tree is compiled for each
//! persistence domain and kind of key, and much of it comes out the same.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // For this target rustc links by LLD (since 1.90), unless it is told to use another linker.
    let is_linked_by_lld = has("CARGO_CFG_TARGET_ARCH", "x86_64")
        && has("CARGO_CFG_TARGET_OS", "linux")
        && has("CARGO_CFG_TARGET_ENV", "gnu")
        && env::var_os("RUSTC_LINKER").is_none()
        && !env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("link"));
    if is_linked_by_lld && has("PROFILE", "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
