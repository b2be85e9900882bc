//! Library target, so that cargo can depend on this package.
#![no_std]
