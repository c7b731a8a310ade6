//! Gives the shared library its name: the number is that of the binary interface.

fn main() {
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libeverleaf_lab.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
