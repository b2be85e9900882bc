//! Wire formats and accounting of RoCE, without allocation.
#![no_std]
