//! Lets the compiler load words of a packet at any offset: on the architectures that we support the kernel accepts
//! that, and by default the compiler would assemble each from single bytes.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "bpf") {
        println!("cargo::rustc-link-arg-bin=rocescope-ebpf=--cpu-features=+allows-misaligned-mem-access");
    }
}
