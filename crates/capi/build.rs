//! Gives the shared library its name: the number is that of the binary interface.

fn main() {
    // An argument for shared libraries only would also reach those of crates that use this one; programs
    // have no such name, and pass it over.
    println!("cargo::rustc-link-arg=-Wl,-soname,libeverleaf.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
