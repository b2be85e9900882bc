//! Code that the kernel objects share. A library target also lets cargo depend on this package.
#![no_std]

/// Parts that each kernel object has once: its panic handler, and the licence that GPL-only helpers require.
#[macro_export]
macro_rules! kernel_object {
    () => {
        /// Unreachable: the verifier rejects a program that could panic.
        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            loop {}
        }

        /// Required by GPL-only helpers.
        #[unsafe(link_section = "license")]
        #[unsafe(no_mangle)]
        static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
    };
}
