//! Gives the shared library its name: the number is that of the binary interface.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libeverleaf.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
