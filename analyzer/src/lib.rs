//! rocescope as a library: sources, model and views.

pub mod capture;
